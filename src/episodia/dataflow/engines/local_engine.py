"""The engine of this thread: a call runs when its result is waited for; the serial mode for debugging."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

from episodia.dataflow.engines.engine import Call, Engine, Worker
from episodia.dataflow.engines.outcome import Outcome
from episodia.errors import EngineError


@final
class LocalEngine(Engine):
    """Runs calls in this thread, in the order in which they were made, when one of them is waited for.

    A breakpoint in a method stops there, and an error shows where it comes from. A time limit stops nothing that runs.

    >>> engine = LocalEngine()
    >>> call = engine.start(lambda: ["a", "b"]).call("index", "b")
    >>> [over.result() for over in engine.wait([call])]
    [1]
    """

    is_serial = True

    def __init__(self) -> None:
        self._queue: deque[_LocalCall] = deque()
        self._workers: list[_LocalWorker] = []

    def start(self, make: Callable[[], Any]) -> Worker:
        """Make the object here and now."""
        self._workers.append(_LocalWorker(self._queue, Outcome.of(make)))
        return self._workers[-1]

    def wait(self, calls: Sequence[Call], timeout_s: float | None = None) -> list[Call]:
        """Run queued calls until one of `calls` is over; with a limit of 0, none is run."""
        local = [call for call in calls if isinstance(call, _LocalCall)]
        while timeout_s != 0 and self._queue and all(call.outcome is None for call in local):
            self._queue[0].run()
            self._queue.popleft()
        return [call for call in local if call.outcome is not None]

    def now(self) -> float:
        """Return the time of a clock that never goes back."""
        return time.monotonic()

    def close(self) -> None:
        """Kill all workers."""
        while self._workers:
            self._workers.pop().kill()


@final
class _LocalWorker(Worker):
    def __init__(self, queue: deque[_LocalCall], made: Outcome) -> None:
        self._queue = queue
        self.made = made
        self._is_dead = False

    def call(self, method: str, *arguments: Any) -> Call:
        call = _LocalCall(self, method, arguments)
        if self._is_dead:
            call.run()
        else:
            self._queue.append(call)
        return call

    def kill(self) -> None:
        if self._is_dead:
            return
        self._is_dead = True
        made, self.made = self.made, Outcome.died("was killed")
        own = [call for call in self._queue if call.worker is self]
        for call in own:
            self._queue.remove(call)
            call.run()
        made.close()


@final
class _LocalCall(Call):
    def __init__(self, worker: _LocalWorker, method: str, arguments: tuple[Any, ...]) -> None:
        self.worker = worker
        self._asked = method, arguments
        self.outcome: Outcome | None = None

    def run(self) -> None:
        if self.outcome is not None:
            return  # an interrupt came before it left the queue
        # What remains if an interrupt ends the method: it is not known how much of it was done.
        self.outcome = Outcome.died("was interrupted")
        self.outcome = Outcome.of_method(self.worker.made, *self._asked)

    def result(self) -> Any:
        if self.outcome is None:
            raise EngineError("found a call that is not over, expected one that `wait` has returned. Wait for it.")
        return self.outcome.result()
