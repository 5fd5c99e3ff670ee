"""The engine of threads: each worker has a thread of its own, so that a learner can learn while runners play."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeAlias, final

from episodia.dataflow.engines.engine import Call, Engine, Worker
from episodia.dataflow.engines.outcome import Outcome

# A method with its arguments, and where the outcome goes; None ends the thread.
_Job: TypeAlias = "tuple[str, tuple[Any, ...], Future[Outcome]] | None"

_CLOSING_S = 2.0


@final
class ThreadEngine(Engine):
    """Runs the calls of each worker in a thread of its own.

    A thread cannot be stopped. The thread of a killed worker ends after the method that it is in, and the answer is dropped.
    Objects of several workers must not share what they change, such as a module.

    >>> with ThreadEngine() as engine:
    ...     call = engine.start(lambda: ["a", "b"]).call("index", "b")
    ...     [over.result() for over in engine.wait([call])]
    [1]
    """

    def __init__(self) -> None:
        self._workers: list[_ThreadWorker] = []

    def start(self, make: Callable[[], Any]) -> Worker:
        """Make the object in the worker's thread, and return at once."""
        self._workers.append(_ThreadWorker(make))
        return self._workers[-1]

    def wait(self, calls: Sequence[Call], timeout_s: float | None = None) -> list[Call]:
        """Wait for a thread."""
        own = [call for call in calls if isinstance(call, _ThreadCall)]
        if own:
            wait_for_futures([call.future for call in own], timeout_s, FIRST_COMPLETED)
        return [call for call in own if call.future.done()]

    def now(self) -> float:
        """Return the time of a clock that never goes back."""
        return time.monotonic()

    def close(self) -> None:
        """Kill all workers, and wait a moment for their threads."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.kill()
        deadline = time.monotonic() + _CLOSING_S
        for worker in workers:
            worker.thread.join(max(0.0, deadline - time.monotonic()))


@final
class _ThreadCall(Call):
    def __init__(self, future: Future[Outcome]) -> None:
        self.future = future

    def result(self) -> Any:
        return self.future.result().result()


@final
class _ThreadWorker(Worker):
    def __init__(self, make: Callable[[], Any]) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._open: list[Future[Outcome]] = []
        self._is_dead = False
        self._made = threading.Event()
        self._is_beginning = True
        # A hung method must not keep the program from ending.
        self.thread = threading.Thread(target=_work, args=(self._jobs, make, self._made), daemon=True)
        self.thread.start()

    def call(self, method: str, *arguments: Any) -> Call:
        future: Future[Outcome] = Future()
        self.may_take_longer()  # notes whether the object is made
        if self._is_dead:
            future.set_result(Outcome.died("was killed"))
        else:
            self._open = [*(other for other in self._open if not other.done()), future]
            self._jobs.put((method, arguments, future))
        return _ThreadCall(future)

    def is_made(self) -> bool:
        return self._made.is_set()

    def kill(self) -> None:
        if not self._is_dead:
            self._is_dead = True
            for future in self._open:
                _settle(future, Outcome.died("was killed"))
            self._jobs.put(None)


def _work(jobs: SimpleQueue[_Job], make: Callable[[], Any], is_made: threading.Event) -> None:
    made = Outcome.of(make)
    is_made.set()
    while (job := jobs.get()) is not None:
        method, arguments, future = job
        if not future.done():
            _settle(future, Outcome.of_method(made, method, arguments))
        del job, future  # an idle worker keeps no episodes
    made.close()


def _settle(future: Future[Outcome], outcome: Outcome) -> None:
    """Give `future` its outcome, unless it has one: the thread and `kill` may come at the same time."""
    with suppress(InvalidStateError):
        future.set_result(outcome)
