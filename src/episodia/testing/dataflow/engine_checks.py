"""Laws for engines: what a group of runners relies on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from episodia.dataflow.engines.engine import Call, Engine, Worker
from episodia.errors import SubjectError, WorkerDiedError
from episodia.trees import describe

# No law takes longer on a machine that is busy.
_PATIENCE_S = 30.0
# An engine that kills a worker at once is faster than two slow calls.
_SLOW_S = 0.5
# A busy machine may stop for that long; an engine that waits does so each time.
_TRIES = 3


class Adder:
    """An object for workers: it counts what it was asked to add, and says what it has added."""

    def __init__(self, first: int = 0) -> None:
        self.added: list[int] = [first]

    def add(self, number: int) -> list[int]:
        """Add `number`, and return all that was added."""
        self.added.append(number)
        return list(self.added)

    def add_slowly(self, number: int) -> list[int]:
        """Do the same, and take some time."""
        time.sleep(_SLOW_S)
        return self.add(number)

    def read(self, handle: Any) -> Any:
        """Return the value of a handle."""
        return handle.fetch()

    def fail(self, text: str) -> None:
        """Raise an error of its own."""
        raise LookupError(text)


def broken() -> Adder:
    """Fail to make an object."""
    raise LookupError("cannot be made")


def check_engine(make: Callable[[], Engine]) -> None:
    """Check that engines follow the laws that groups of runners rely on.

    - Calls of one worker run once each, in the order in which they were made, and the results belong to them.
    - `result` returns the same each time it is asked; a method's own error is raised each time, and the worker lives on.
    - `wait` returns only calls that were asked about and are over, as soon as there is one, and with a limit of 0 it does not
      wait.
    - `kill` ends all calls of its worker with a `WorkerDiedError`, those that come later too, and no call of other workers; no
      answer comes late, and a second time it does nothing.
    - If an object cannot be made, each call raises the error.
    - Workers read what was shared.
    - After `close`, also a second one, calls end with a `WorkerDiedError`.

    Args:
        make: Makes an engine, a new one at each call. Its workers are made from functions that pickle finds.

    Raises:
        AssertionError: If a law is broken; it says which one.
        SubjectError: If `make` does not return an engine.

    >>> from episodia.dataflow import LocalEngine
    >>> check_engine(LocalEngine)
    """
    engine = make()
    if isinstance(engine, type) or not isinstance(engine, Engine):
        raise SubjectError(
            f"check_engine: found {describe(engine)}, expected an `Engine`. Pass a function that makes one, such as its class."
        )
    engine.close()
    for law in (_calls_in_order, _own_errors, _waiting, _looking, _first_come, _killing, _broken_objects, _sharing):
        with make() as engine:
            law(engine)
    _closing(make())


def _ended(engine: Engine, call: Call) -> Call:
    over = engine.wait([call], _PATIENCE_S)
    assert over == [call], f"`wait` returned {over}, expected the call it was asked about, which can end."
    return call


def _value_of(call: Call) -> Any:
    try:
        return call.result()
    except Exception as error:
        raise AssertionError(f"`result` of a call that is over raised {error!r}, expected what it returned.") from error


def _error_of(engine: Engine, call: Call) -> BaseException | None:
    try:
        _ended(engine, call).result()
    except Exception as error:  # noqa: BLE001  # any error is compared
        return error
    return None


def _calls_in_order(engine: Engine) -> None:
    workers = [engine.start(Adder), engine.start(Adder)]
    calls = [[worker.call("add", number) for number in range(1, 4)] for worker in workers]
    for own in calls:
        for count, call in reversed(list(enumerate(own, start=1))):
            found, again = _value_of(_ended(engine, call)), _value_of(call)
            expected = list(range(count + 1))
            assert found == expected, f"a call returned {found}, expected {expected}: each call runs once, in order."
            assert again == expected, (
                f"`result` returned {again} when it was asked again, expected {expected} each time."
            )


def _own_errors(engine: Engine) -> None:
    worker = engine.start(Adder)
    failing, following = worker.call("fail", "of its own"), worker.call("add", 1)
    for _ in range(2):
        error = _error_of(engine, failing)
        assert isinstance(error, LookupError), f"`result` raised {error!r}, expected the method's own LookupError."
        assert "of its own" in str(error), f"`result` raised {error!r}, expected the method's own message."
    assert _value_of(_ended(engine, following)) == [0, 1], "after an error of its own, a worker did not go on."


def _waiting(engine: Engine) -> None:
    worker, other = engine.start(Adder), engine.start(Adder)
    first, second = worker.call("add", 1), other.call("add", 2)
    _ended(engine, first)
    over = engine.wait([first, second], 0)
    assert first in over, "`wait` did not return a call that was over."
    _ended(engine, second)
    assert engine.wait([second], 0) == [second], "`wait` did not return just the call that it was asked about."
    assert engine.wait([], 0) == [], "`wait` returned a call that it was not asked about."
    begun = engine.now()
    assert engine.now() >= begun, "`now` went back."


def _looking(engine: Engine) -> None:
    """A limit of 0 does not wait, and what is returned is over: its result is there."""
    worker = _ready(engine)
    for left in reversed(range(_TRIES)):
        call = worker.call("add_slowly", 1)
        begun = time.monotonic()
        results = [_value_of(over) for over in engine.wait([call], 0)]
        if time.monotonic() - begun < _SLOW_S:
            break
        assert left, f"with a limit of 0, `wait` and `result` took {_SLOW_S} s ({len(results)} over), expected no wait."
        _ended(engine, call)


def _first_come(engine: Engine) -> None:
    """`wait` returns as soon as one call is over."""
    quick, slow = _ready(engine), _ready(engine)
    for left in reversed(range(_TRIES)):
        calls = [quick.call("add", 1), slow.call("add_slowly", 1)]
        begun = time.monotonic()
        over = engine.wait(calls, _PATIENCE_S)
        if len(over) == 1 or time.monotonic() - begun < _SLOW_S:
            break
        assert left, (
            f"`wait` returned {len(over)} of two calls, a quick and a slow one; expected the first that is over."
        )
    for call in over:
        _value_of(call)


def _ready(engine: Engine) -> Worker:
    """Return a worker that has begun."""
    worker = engine.start(Adder)
    _value_of(_ended(engine, worker.call("add", 0)))
    return worker


def _expect_dead(engine: Engine, call: Call, why: str) -> None:
    error = _error_of(engine, call)
    assert isinstance(error, WorkerDiedError), f"{why}: `result` raised {error!r}, expected a WorkerDiedError."


def _killing(engine: Engine) -> None:
    worker, other = engine.start(Adder), engine.start(Adder)
    before = worker.call("add", 1)
    _ended(engine, before)
    queued: list[Call] = [worker.call("add_slowly", number) for number in (2, 3)]
    untouched = other.call("add", 1)
    worker.kill()
    worker.kill()
    # The first one may have been over before.
    dead = [
        *(queued if isinstance(_error_of(engine, queued[0]), WorkerDiedError) else queued[1:]),
        worker.call("add", 4),
    ]
    for call in dead:
        _expect_dead(engine, call, "after `kill`")
    assert _value_of(before) == [0, 1], "`kill` changed a result that was there before."
    error = _error_of(engine, untouched)
    assert error is None, f"`kill` ended a call of another worker with {error!r}."
    time.sleep(_SLOW_S)  # what a killed worker was in ends meanwhile
    for call in dead:
        _expect_dead(engine, call, "some time after `kill`")


def _broken_objects(engine: Engine) -> None:
    worker: Worker = engine.start(broken)
    for _ in range(2):
        error = _error_of(engine, worker.call("add", 1))
        assert isinstance(error, LookupError), (
            f"a worker without an object raised {error!r}, expected the error of `make`."
        )


def _sharing(engine: Engine) -> None:
    handle = engine.share({"weights": [1, 2]})
    for worker in (engine.start(Adder), engine.start(Adder)):
        found = _value_of(_ended(engine, worker.call("read", handle)))
        assert found == {"weights": [1, 2]}, f"a worker read {found}, expected what was shared."


def _closing(engine: Engine) -> None:
    worker = engine.start(Adder)
    _ended(engine, worker.call("add", 1))
    engine.close()
    engine.close()
    _expect_dead(engine, worker.call("add", 2), "after `close`")
