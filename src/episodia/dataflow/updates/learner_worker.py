"""`Updates`: a learner in a worker of its own, in a thread for example, which learns while runners play."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, final

from episodia.arguments import checked_whole
from episodia.dataflow.deliveries import Statistics
from episodia.dataflow.engines.engine import Call, Engine
from episodia.dataflow.flows.sources import NOTHING, Pending, Source
from episodia.dataflow.statistics import set_statistics
from episodia.dataflow.updates.learner_stages import check_how
from episodia.episodes import EpisodeList
from episodia.errors import EngineError, FlowError, WorkerDiedError
from episodia.learners import Learner, Metrics
from episodia.types import State

_OWN = ("depth", "snapshot_every", "call_timeout_s", "max_restarts")
_DIED, _HANGS = "died", "gave no answer in time"


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


class _Asked(NamedTuple):
    """An update that was asked for; `base` is the state that the learner begins with, if it is not the one that it has."""

    number: int
    episodes: EpisodeList[Any]
    statistics: Statistics
    wants_snapshot: bool
    base: State | None = None


@final
class Updates(Source):
    """A source of updates with the lists that were put in, in order.

    A worker that dies or hangs is replaced: its successor begins with the newest snapshot, and learns again from what has come
    since. So each list is in the weights once.

    Args:
        learner: The learner. The worker has a copy of it; `settle` brings its state back.
        engine: Where it lives: `ThreadEngine()` to learn beside runners.
        depth: The number of lists that may wait; the gate of the flow that puts them in is `has_room`.
        snapshot_every: With every so many updates comes the state of the learner; lists are kept until then. None has no
            snapshots: if the worker dies, an error is raised.
        call_timeout_s: An update that takes longer is given up, and the worker replaced. None waits for ever.
        max_restarts: The number of workers in a row that may die without an update.
        **how: Arguments of `Learner.update`.

    Attributes:
        num_replaced: The number of workers that were replaced.

    Raises:
        FlowError: If a number is invalid.
        UnknownArgumentError: If neither this class nor `Learner.update` has an argument.
    """

    name = "updates"

    def __init__(
        self,
        learner: Learner,
        engine: Engine,
        *,
        depth: int = 2,
        snapshot_every: int | None = 8,
        call_timeout_s: float | None = None,
        max_restarts: int = 100,
        **how: Any,
    ) -> None:
        self._depth = checked_whole(FlowError, "Updates", "depth", depth, 1)
        if snapshot_every is not None:
            checked_whole(FlowError, "Updates", "snapshot_every", snapshot_every, 1)
        check_how("Updates", how, _OWN)
        self._learner, self._engine = learner, engine
        self._snapshot_every, self._max_restarts = snapshot_every, max_restarts
        self._timeout_s = None if engine.is_serial else call_timeout_s
        self._make = partial(_Host, copy.deepcopy(learner), how)
        self._worker = engine.start(self._make)
        self._flights: deque[tuple[_Asked, Call]] = deque()
        self._first_since_s = 0.0
        self._arrived: deque[Updated] = deque()
        self._since: deque[_Asked] = deque()  # the newest snapshot
        self._snapshot: State | None = None
        self._base: State | None = None  # goes with the next call
        self._number = self._deaths = self.num_replaced = 0
        self._answered = -1

    def put(self, episodes: EpisodeList[Any], statistics: Statistics | None = None) -> None:
        """Let the learner update with a list when it is done with those before.

        Args:
            episodes: The list.
            statistics: The statistics of filters that the list was played with, see `RunnerGroup.acted_with`.
        """
        every = self._snapshot_every
        number, self._number = self._number, self._number + 1
        asked = _Asked(number, episodes, statistics or {}, every is not None and (number + 1) % every == 0)
        if every is not None:
            self._since.append(asked)
        self._ask(asked)

    def _ask(self, asked: _Asked) -> None:
        if not self._flights:
            self._first_since_s = self._engine.now()
        base, self._base = self._base, None
        self._flights.append((asked, self._worker.call("update", asked._replace(base=base))))

    def has_room(self) -> bool | str:
        """Tell whether another list may be put in."""
        return len(self._flights) < self._depth or f"{len(self._flights)} lists wait for the learner"

    # --- As a source ------------------------------------------------------------------------------------------------

    def poll(self) -> Any:
        """Return the next result."""
        self._receive()
        return self._arrived.popleft() if self._arrived else NOTHING

    def _receive(self) -> None:
        while self._flights:
            asked, call = self._flights[0]
            if not self._engine.wait([call], 0):
                if self._limit_s == 0.0:
                    self._give_up()
                return
            try:
                updated: Updated = call.result()
            except WorkerDiedError as error:
                self._replace(_DIED, error)
                return
            except Exception:  # the learner's own: it goes on without this list
                self._settled(asked)
                self._since = deque(kept for kept in self._since if kept.number != asked.number)
                raise
            self._settled(asked)
            if updated.snapshot is not None:
                self._keep(updated.snapshot, asked.number)
            if asked.number > self._answered:  # an update that is repeated was reported before
                self._answered = asked.number
                self._arrived.append(updated)

    def _give_up(self) -> None:
        """Replace a worker that hangs."""
        if self._worker.may_take_longer():
            self._first_since_s = self._engine.now()
        else:
            self._replace(_HANGS, None)

    def _settled(self, asked: _Asked) -> None:
        self._flights.popleft()
        self._first_since_s = self._engine.now()
        self._deaths = 0 if asked.number > self._answered else self._deaths

    def _keep(self, snapshot: State, number: int) -> None:
        self._snapshot = snapshot
        while self._since and self._since[0].number <= number:
            self._since.popleft()

    def _replace(self, why: str, cause: Exception | None) -> None:
        """Let another worker learn from what has come since the newest snapshot.

        Raises:
            EngineError: If there are no snapshots, or too many workers have died in a row.
        """
        self._deaths += 1
        if self._snapshot_every is None or self._deaths > self._max_restarts:
            raise EngineError(
                f"Updates: found a learner that {why}, {self._deaths} times in a row, expected an update. Pass "
                "`snapshot_every=` to replace it, or look for the reason where it lives."
            ) from cause
        self.num_replaced += 1
        self._flights.clear()
        self._worker.kill()
        self._worker = self._engine.start(self._make)
        self._base = self._snapshot
        for asked in self._since:
            self._ask(asked)

    @property
    def _limit_s(self) -> float | None:
        if self._timeout_s is None:
            return None
        return max(0.0, self._first_since_s + self._timeout_s - self._engine.now())

    def pending(self) -> list[Pending]:
        """Return the update that can end next."""
        return [Pending(self._engine, self._flights[0][1], self._limit_s)] if self._flights else []

    def why_nothing(self) -> str:
        """Return that nothing was put in."""
        return "" if self._flights else "no list was put in"

    # --- State ------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until all lists are learned from, and give the state of the worker's learner to the learner."""
        while (state := self._settled_state()) is None:
            pass
        self._learner.set_state(state)
        self._keep(state, self._number)

    def _settled_state(self) -> State | None:
        """Return the state after all lists; None if the worker was replaced instead."""
        while self._flights:
            self._engine.wait([self._flights[0][1]], self._limit_s)
            self._receive()
        if self._base is not None:
            return self._base
        call = self._worker.call("get_state")
        try:
            if self._engine.wait([call], self._timeout_s):
                state: State = call.result()
                return state
            self._give_up()
        except WorkerDiedError as error:
            self._replace(_DIED, error)
        return None

    def get_state(self) -> dict[str, Any]:
        """Settle, and return the results that were not taken yet; the state of the learner is that of the given one."""
        self.settle()
        arrived = [{"metrics": {**updated.metrics}, "weights": updated.weights} for updated in self._arrived]
        return {"number": self._number, "arrived": arrived}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`, and from the state of the given learner."""
        self._flights.clear()
        self._since.clear()
        self._worker.kill()
        self._worker = self._engine.start(self._make)
        self._snapshot = self._base = self._learner.get_state()
        self._number = state["number"]
        self._answered = self._number - 1
        self._arrived = deque(Updated(own["metrics"], own["weights"], None) for own in state["arrived"])

    def close(self) -> None:
        """Give up what was not learned from."""
        self._worker.kill()


@final
class _Host:
    def __init__(self, learner: Learner, how: dict[str, Any]) -> None:
        self._learner, self._how = copy.deepcopy(learner), how

    def update(self, asked: _Asked) -> Updated:
        learner = self._learner
        if asked.base is not None:
            learner.set_state(asked.base)
        set_statistics(learner.pipeline, asked.statistics)
        metrics = learner.update(asked.episodes, **self._how)
        return Updated(metrics, learner.get_weights(), learner.get_state() if asked.wants_snapshot else None)

    def get_state(self) -> State:
        return self._learner.get_state()
