"""Chaos: an engine around another one, whose workers die, stop or are late at random, for tests of what has to survive it."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, final

from episodia.arguments import checked_number
from episodia.dataflow.engines.engine import Call, Engine, Handle, Worker
from episodia.dataflow.engines.outcome import Outcome
from episodia.errors import EngineError

# How long to look at calls before those that are late.
_GLANCE_S = 0.05


@final
class Chaos(Engine):
    """Runs workers on another engine, and draws the fate of each call.

    A worker that is killed is really killed: in Ray, its process. One that stops answers no call any more, until it is
    killed. A call that is delayed is over later.

    Args:
        engine: Where workers live; it is closed with this one.
        seed: Where fates come from.
        p_kill: How probably a worker is killed with a call.
        p_stop: How probably a worker stops in a call.
        p_delay: How probably a call is delayed.
        delay_s: The longest delay.

    Attributes:
        num_killed: The number of workers that were killed.
        num_stopped: How many have stopped.

    Raises:
        EngineError: If a probability is out of range.

    >>> from episodia.dataflow import LocalEngine
    >>> engine = Chaos(LocalEngine(), p_kill=1.0)
    >>> [call] = engine.wait([engine.start(list).call("copy")])
    >>> call.result()
    Traceback (most recent call last):
    ...
    episodia.errors.WorkerDiedError: found a worker that was killed, expected an answer. Start another one.
    """

    def __init__(  # each is an independent choice
        self,
        engine: Engine,
        seed: int = 0,
        *,
        p_kill: float = 0.0,
        p_stop: float = 0.0,
        p_delay: float = 0.0,
        delay_s: float = 0.1,
    ) -> None:
        self._engine = engine
        self._rng = random.Random(seed)
        self._p_kill = checked_number(EngineError, "Chaos", "p_kill", p_kill, 0.0, 1.0)
        self._p_stop = checked_number(EngineError, "Chaos", "p_stop", p_stop, 0.0, 1.0)
        self._p_delay = checked_number(EngineError, "Chaos", "p_delay", p_delay, 0.0, 1.0)
        self._delay_s = checked_number(EngineError, "Chaos", "delay_s", delay_s, 0.0, 1e6)
        # What the other engine says of itself holds here, too.
        self.is_serial = engine.is_serial  # type: ignore[misc]  # of each instance
        self.is_in_process = engine.is_in_process  # type: ignore[misc]  # of each instance
        self.num_killed = self.num_stopped = 0

    def start(self, make: Callable[[], Any]) -> Worker:
        """Start a worker on the other engine."""
        return _ChaoticWorker(self, self._engine.start(make))

    def fate(self, worker: Worker) -> float:
        """Draw what happens to a worker that was called; return when the call may be over."""
        drawn = self._rng.random()
        if drawn < self._p_kill:
            self.num_killed += 1
            worker.kill()
            return 0.0
        if drawn < self._p_kill + self._p_stop:
            self.num_stopped += 1
            return math.inf
        is_late = drawn < self._p_kill + self._p_stop + self._p_delay
        return self.now() + self._rng.uniform(0.0, self._delay_s) if is_late else 0.0

    def wait(self, calls: Sequence[Call], timeout_s: float | None = None) -> list[Call]:
        """Wait for the other engine, and until calls are late enough."""
        own = [call for call in calls if isinstance(call, _ChaoticCall)]
        until = math.inf if timeout_s is None else self.now() + timeout_s
        while True:
            over = self._over(own, 0)
            left = until - self.now()
            if over or left <= 0 or (math.isinf(left) and all(math.isinf(call.until) for call in own)):
                return over
            if not self._over(own, min(left, _GLANCE_S)):
                time.sleep(0.001)  # if all are late, no caller has waited

    def _over(self, own: Sequence[_ChaoticCall], timeout_s: float | None) -> list[Call]:
        free = [call for call in own if call.until <= self.now()]
        inner = [call.inner for call in free if call.ended is None]
        found = set(map(id, self._engine.wait(inner, timeout_s))) if inner else set()
        return [call for call in free if call.ended is not None or id(call.inner) in found]

    def share(self, value: Any) -> Handle:
        """Share with the other engine."""
        return self._engine.share(value)

    def now(self) -> float:
        """Return the time of the other engine."""
        return self._engine.now()

    def close(self) -> None:
        """Close the other engine."""
        self._engine.close()


@final
class _ChaoticCall(Call):
    def __init__(self, inner: Call, until: float) -> None:
        self.inner, self.until = inner, until
        self.ended: Outcome | None = None

    def result(self) -> Any:
        return self.inner.result() if self.ended is None else self.ended.result()


@final
class _ChaoticWorker(Worker):
    def __init__(self, engine: Chaos, inner: Worker) -> None:
        self._engine, self._inner = engine, inner
        self._open: list[_ChaoticCall] = []
        self._has_stopped = False

    def call(self, method: str, *arguments: Any) -> Call:
        inner = self._inner.call(method, *arguments)
        until = math.inf if self._has_stopped else self._engine.fate(self._inner)
        self._has_stopped = math.isinf(until)
        before = max((call.until for call in self._open if not math.isinf(call.until)), default=0.0)
        call = _ChaoticCall(inner, max(until, before))  # calls are over in order
        self._open = [*(other for other in self._open if other.until > self._engine.now()), call]
        return call

    def may_take_longer(self) -> bool:
        return self._inner.may_take_longer()

    def kill(self) -> None:
        self._inner.kill()
        self._has_stopped = False
        for call in self._open:
            if call.until > self._engine.now():
                call.until, call.ended = 0.0, Outcome.died("was killed")
        self._open = []
