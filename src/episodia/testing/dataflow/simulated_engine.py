"""An engine in virtual time, whose workers die and hang: every disaster, reproducible, thousands in a second."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, final

from episodia.arguments import checked_number
from episodia.dataflow.engines.engine import Call, Engine, Worker
from episodia.dataflow.engines.outcome import Outcome
from episodia.errors import EngineError

# Most calls take about a second, a few are stragglers.
_DURATIONS_S = (1.0, 1.0, 1.0, 2.0, 8.0)


@final
class SimulatedEngine(Engine):
    """Runs calls in virtual time, one after another in the order in which they end.

    A worker may die before, during or after a method: its call then ends with the death, and the caller cannot know
    whether the method ran. A worker that hangs never answers, until it is killed.

    Args:
        seed: Where durations, deaths and hangs come from.
        p_die: How probably a worker dies with a call.
        p_hang: How probably a worker hangs in a call.
        begin_s: How long a worker takes to begin.

    Attributes:
        deaths: The number of workers that have died.
        hangs: The number of workers that hang or have hung.

    >>> engine = SimulatedEngine(seed=0, p_hang=1.0)
    >>> call = engine.start(list).call("copy")
    >>> engine.wait([call], timeout_s=60.0), engine.now()
    ([], 60.0)
    """

    def __init__(self, seed: int = 0, *, p_die: float = 0.0, p_hang: float = 0.0, begin_s: float = 0.0) -> None:
        self._rng = random.Random(seed)  # the generator of the simulation, many times as fast as that of NumPy
        self._p_die = checked_number(EngineError, "SimulatedEngine", "p_die", p_die, 0.0, 1.0)
        self._p_hang = checked_number(EngineError, "SimulatedEngine", "p_hang", p_hang, 0.0, 1.0)
        self.begin_s = checked_number(EngineError, "SimulatedEngine", "begin_s", begin_s, 0.0)
        self._workers: list[_SimulatedWorker] = []
        self._now_s = 0.0
        self.deaths = 0
        self.hangs = 0

    def start(self, make: Callable[[], Any]) -> Worker:
        """Make the object here and now."""
        self._workers.append(_SimulatedWorker(self, Outcome.of(make)))
        return self._workers[-1]

    def wait(self, calls: Sequence[Call], timeout_s: float | None = None) -> list[Call]:
        """Let virtual time pass until one of `calls` is over, or for `timeout_s`."""
        own = [call for call in calls if isinstance(call, _SimulatedCall)]
        until = math.inf if timeout_s is None else self._now_s + timeout_s
        while all(call.outcome is None for call in own):
            ready = [worker for worker in self._workers if worker.queue and worker.queue[0].ends_s <= until]
            if not ready or not own:
                self._now_s = self._now_s if timeout_s is None else until
                break
            worker = min(ready, key=lambda worker: worker.queue[0].ends_s)
            if math.isinf(worker.queue[0].ends_s):
                break  # all hang
            self._now_s = max(self._now_s, worker.queue[0].ends_s)
            self._run(worker)
        return [call for call in own if call.outcome is not None]

    def _run(self, worker: _SimulatedWorker) -> None:
        call = worker.queue[0]
        fate = self._rng.random()
        if fate < self._p_die / 3:  # before the method, or during it
            self.deaths += 1
            worker.die("died before it answered")
            return
        outcome = Outcome.of_method(worker.made, *call.asked)
        if fate < self._p_die:  # the method ran, but its result is lost
            self.deaths += 1
            worker.die("died before it answered")
            return
        worker.queue.popleft()
        call.outcome = outcome
        worker.begin()

    def duration_s(self) -> float:
        """Draw how long the next call takes; a hung one takes for ever."""
        if self._rng.random() < self._p_hang:
            self.hangs += 1
            return math.inf
        return self._rng.choice(_DURATIONS_S) * self._rng.uniform(0.5, 1.5)

    def remove(self, worker: _SimulatedWorker) -> None:
        """Forget a dead worker."""
        self._workers.remove(worker)

    @property
    def num_workers(self) -> int:
        """The number of living workers."""
        return len(self._workers)

    def now(self) -> float:
        """Return the virtual time."""
        return self._now_s

    def close(self) -> None:
        """Kill all workers."""
        for worker in list(self._workers):
            worker.kill()


@final
class _SimulatedWorker(Worker):
    def __init__(self, engine: SimulatedEngine, made: Outcome) -> None:
        self._engine = engine
        self.made = made
        self.queue: deque[_SimulatedCall] = deque()
        self._begins_s = engine.now() + engine.begin_s
        self._is_beginning = engine.begin_s > 0
        self._is_dead = False

    def call(self, method: str, *arguments: Any) -> Call:
        call = _SimulatedCall(method, arguments)
        if self._is_dead:
            call.outcome = Outcome.died("is dead")
        else:
            self.may_take_longer()  # notes whether it has begun
            self.queue.append(call)
            if len(self.queue) == 1:
                self.begin()
        return call

    def begin(self) -> None:
        """Begin the next call: from now on its time runs."""
        if self.queue:
            self.queue[0].ends_s = max(self._engine.now(), self._begins_s) + self._engine.duration_s()

    def is_made(self) -> bool:
        return self._engine.now() >= self._begins_s

    def kill(self) -> None:
        if not self._is_dead:
            self.die("was killed")

    def die(self, why: str) -> None:
        """End all calls."""
        self._is_dead = True
        for call in self.queue:
            call.outcome = Outcome.died(why)
        self.queue.clear()
        self._engine.remove(self)
        self.made.close()


@final
class _SimulatedCall(Call):
    def __init__(self, method: str, arguments: tuple[Any, ...]) -> None:
        self.asked = method, arguments
        self.ends_s = math.inf
        self.outcome: Outcome | None = None

    def result(self) -> Any:
        if self.outcome is None:
            raise EngineError("found a call that is not over, expected one that `wait` has returned. Wait for it.")
        return self.outcome.result()
