"""`Updates`: a learner in a worker of its own, in a thread for example, which learns while runners play."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, final

from episodia.arguments import checked_whole
from episodia.dataflow.engines.engine import Call, Engine
from episodia.dataflow.flows.sources import NOTHING, Pending, Source
from episodia.episodes import EpisodeList
from episodia.errors import FlowError
from episodia.learners import Learner, Metrics
from episodia.types import State


class Updated(NamedTuple):
    """The result of an update.

    Attributes:
        metrics: The metrics of the update.
        weights: The new weights, by module.
        snapshot: The state of the learner, with every so many updates; else None.
    """

    metrics: Metrics
    weights: dict[str, Any]
    snapshot: State | None


@final
class Updates(Source):
    """A source of updates with the lists that were put in, in order.

    Args:
        learner: The learner; from now on, only `Updates` may use it.
        engine: Where it lives: `ThreadEngine()` to learn beside runners.
        depth: How many lists may wait; the gate of the flow that puts them in is `has_room`.
        snapshot_every: With every so many updates comes the state of the learner; None has no snapshots.
        **how: Arguments of `Learner.update`.

    Raises:
        FlowError: If a number is invalid.
    """

    name = "updates"

    def __init__(
        self, learner: Learner, engine: Engine, *, depth: int = 2, snapshot_every: int | None = None, **how: Any
    ) -> None:
        self._depth = checked_whole(FlowError, "Updates", "depth", depth, 1)
        if snapshot_every is not None:
            checked_whole(FlowError, "Updates", "snapshot_every", snapshot_every, 1)
        self._engine = engine
        self._worker = engine.start(lambda: _Host(learner, snapshot_every, how))
        self._calls: deque[Call] = deque()

    def put(self, episodes: EpisodeList[Any]) -> None:
        """Let the learner update with a list when it is done with those before."""
        self._calls.append(self._worker.call("update", episodes))

    def has_room(self) -> bool | str:
        """Tell whether another list may be put in."""
        return len(self._calls) < self._depth or f"{len(self._calls)} lists wait for the learner"

    def poll(self) -> Any:
        """Return the next result."""
        if not self._calls or not self._engine.wait([self._calls[0]], 0):
            return NOTHING
        return self._calls.popleft().result()

    def pending(self) -> list[Pending]:
        """Return the update that can end next."""
        return [Pending(self._engine, self._calls[0])] if self._calls else []

    def why_nothing(self) -> str:
        """Return that nothing was put in."""
        return "" if self._calls else "no list was put in"

    def close(self) -> None:
        """Give up what was not learned from."""
        self._worker.kill()


@final
class _Host:
    def __init__(self, learner: Learner, snapshot_every: int | None, how: dict[str, Any]) -> None:
        self._learner, self._how = learner, how
        self._snapshot_every = snapshot_every
        self._num_updates = 0

    def update(self, episodes: EpisodeList[Any]) -> Updated:
        metrics = self._learner.update(episodes, **self._how)
        self._num_updates += 1
        is_due = self._snapshot_every is not None and self._num_updates % self._snapshot_every == 0
        return Updated(metrics, self._learner.get_weights(), self._learner.get_state() if is_due else None)
