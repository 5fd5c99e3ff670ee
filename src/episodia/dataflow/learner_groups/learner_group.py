"""`LearnerGroup`: several learners behind the interface of one, which take each gradient step together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar, final

import torch
from torch import Tensor

from episodia.arguments import checked_number, checked_whole, names_nearest_argument
from episodia.connectors import LearnerConnectorPipeline
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.standardize import Standardize
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.dataflow.engines.engine import Call, Engine
from episodia.dataflow.learner_groups.peers import Meeting, ThreadMeeting
from episodia.dataflow.learner_groups.rank_host import RankHost
from episodia.dataflow.learner_groups.sharding import balanced_ranges, steps_of_items
from episodia.dataflow.statistics import statistics_of
from episodia.episodes import EpisodeList
from episodia.episodes.lists.episode_list import Episode
from episodia.errors import EngineError, LostRankError, WorkerDiedError
from episodia.learners import Learner, MeasuredGradients, Metrics, UpdateMetrics
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.gradient_averages import Weight
from episodia.modules import Module
from episodia.types import Batch

_Found = TypeVar("_Found")
_Arguments: TypeAlias = "tuple[Any, ...] | None"

# So long a rank may still answer after another one has missed it.
_GRACE_S = 5.0


@names_nearest_argument
@final
class LearnerGroup:
    """Learns in several ranks as one learner would, with parts of each list of episodes.

    Each rank gets consecutive episodes with about as many steps as the others. All draw one plan of minibatches, sum their
    gradients weighted by steps, and take the same gradient steps, so all have the same weights.

    A rank that dies is replaced: the others go back to the state before the update, the new one takes it over, and the update
    is repeated.

    Args:
        make_learner: Makes a learner, with a module of its own. The group begins with the weights of the first one it makes.
        num_learners: The number of ranks.
        engine: Where they live: a `RayEngine`, a `ThreadEngine` for several GPUs of one process, or a function that makes one,
            which the group then closes.
        timeout_s: How long ranks wait for each other within an update.
        max_restarts: How many times in a row an update is repeated.

    Attributes:
        counts: died (ranks), repeated (calls of all ranks).

    Raises:
        EngineError: If an argument is invalid, or if the engine cannot run several ranks at the same time.
    """

    def __init__(
        self,
        make_learner: Callable[[], Learner],
        num_learners: int,
        *,
        engine: Engine | Callable[[], Engine],
        timeout_s: float = 60.0,
        max_restarts: int = 10,
    ) -> None:
        checked_whole(EngineError, "LearnerGroup", "num_learners", num_learners, 1)
        self._timeout_s = checked_number(EngineError, "LearnerGroup", "timeout_s", timeout_s, 0.0, 1e6)
        self._max_restarts = checked_whole(EngineError, "LearnerGroup", "max_restarts", max_restarts, 0)
        self._owns_engine = not isinstance(engine, Engine)
        self._engine: Engine = engine if isinstance(engine, Engine) else engine()
        if num_learners > 1 and self._engine.is_serial:
            raise EngineError(
                f"LearnerGroup: found {num_learners} learners on {type(self._engine).__name__}, whose calls run one after "
                "another, expected an engine whose workers run at the same time. Pass `RayEngine()`."
            )
        self._front = make_learner()
        _check_pieces(self._front.pipeline)
        self.counts: Counter[str] = Counter()
        self._make = partial(RankHost, make_learner)
        self._workers = [self._engine.start(self._make) for _ in range(num_learners)]
        self._have_met = False
        self._number = 0
        self._set_all(self._front.get_state())

    def __repr__(self) -> str:
        return f"LearnerGroup({self.num_learners} learners, {type(self._engine).__name__}, {dict(self.counts)})"

    # --- As a learner -----------------------------------------------------------------------------------------------

    @property
    def num_learners(self) -> int:
        """The number of ranks."""
        return len(self._workers)

    @property
    def config(self) -> AlgorithmConfig:
        """The algorithm."""
        return self._front.config

    @property
    def device(self) -> torch.device:
        """The device of the modules here."""
        return self._front.device

    @property
    def modules(self) -> Mapping[str, Module]:
        """Copies of the modules, with the newest weights."""
        return self._front.modules

    @property
    def trained_modules(self) -> tuple[str, ...]:
        """The ids of the modules that learn."""
        return self._front.trained_modules

    @property
    def pipeline(self) -> LearnerConnectorPipeline:
        """A copy of the learner pipeline; the statistics in it go with each update."""
        return self._front.pipeline

    @property
    def num_steps(self) -> int:
        """The number of steps trained on, each counted once per update."""
        return self._front.num_steps

    @property
    def num_schedule_steps(self) -> int:
        """The number that schedules follow."""
        return self._front.num_schedule_steps

    def update(self, episodes: Iterable[Episode], **how: Any) -> UpdateMetrics:
        """Update all ranks with parts of `episodes`; see `Learner.update`.

        Args:
            episodes: Finished episodes, or chunks.
            **how: See `Learner.update`.

        Raises:
            EngineError: If ranks die again and again.
            Exception: See `Learner.update`.
        """
        listed = EpisodeList.of(episodes)
        statistics, number = statistics_of(self.pipeline), self._number
        ranges = balanced_ranges(steps_of_items(listed), self.num_learners)
        arguments = [(number, listed[begin:end], statistics, how) for begin, end in ranges]
        found = self._repeated("update", arguments, number)
        self._number += 1
        metrics: UpdateMetrics = found[0][0]
        self._front.set_state(found[0][1])
        return metrics

    def batch_of(self, episodes: Iterable[Episode]) -> dict[str, Batch]:
        """Return the batch that one learner would make of all `episodes`, made here."""
        return self._front.batch_of(episodes)

    def num_steps_of(self, batch: Mapping[str, Batch]) -> dict[str, int]:
        """Return how many steps of each module count for the loss."""
        return self._front.num_steps_of(batch)

    def compute_gradients(self, batch: Mapping[str, Batch]) -> MeasuredGradients:
        """Return the gradients of the loss on a whole batch, computed here; see `Learner.compute_gradients`."""
        self._front.set_state(self.get_state())
        return self._front.compute_gradients(batch)

    def apply_gradients(self, gradients: Sequence[Mapping[str, Any]], *, weights: Sequence[Weight]) -> Metrics:
        """Take one gradient step with the average of several gradients, here, and send it; see `Learner.apply_gradients`."""
        return self._done_here(lambda learner: learner.apply_gradients(gradients, weights=weights))

    def adapt(self, metrics: Metrics) -> None:
        """Adapt coefficients; see `Learner.adapt`."""
        self._done_here(lambda learner: learner.adapt(metrics))

    def get_weights(self) -> dict[str, dict[str, Tensor]]:
        """Return copies of the weights of all modules, by id and name, on the CPU."""
        return self._front.get_weights()

    def set_weights(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Set the weights of all modules, in all ranks."""
        self._done_here(lambda learner: learner.set_weights(weights))

    def get_state(self, components: Collection[str] | None = None) -> dict[str, Any]:
        """Return the state of each rank, which fits a `Learner`, too; see `Learner.get_state`."""
        found = self._repeated("get_state", [(components,)] + [None] * (self.num_learners - 1))[0]
        return {**found, **self._front.get_state([name for name in found if name == "pipeline"])}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Let all ranks go on from the state of a group or of a `Learner`."""
        self._front.set_state(state)
        self._set_all(state)

    def _done_here(self, function: Callable[[Learner], _Found]) -> _Found:
        """Let the learner here do something that does not need the others, and give its state to all ranks."""
        self._front.set_state(self.get_state())
        found = function(self._front)
        self._set_all(self._front.get_state())
        return found

    # --- All ranks --------------------------------------------------------------------------------------------------

    def _set_all(self, state: Mapping[str, Any]) -> None:
        handle = self._engine.share(dict(state))
        self._repeated("set_shared_state", [(handle,)] * self.num_learners)

    def _repeated(self, method: str, arguments: Sequence[_Arguments], number: int | None = None) -> list[Any]:
        """Call a method of ranks, and return the results; if ranks die, replace them, and call it again.

        Args:
            method: The method.
            arguments: Of each rank; a rank with None is not called.
            number: That of an update, which survivors have to take back.
        """
        for _ in range(self._max_restarts + 1):
            round_ = self._met() or self._asked(method, arguments)
            if not round_.dead and not round_.lost:
                return round_.results
            self.counts["repeated"] += 1
            self._replace(round_.dead, number)
        raise EngineError(
            f"LearnerGroup: found that ranks were lost {self._max_restarts + 1} times in a row, expected an answer to "
            f"{method!r}. Look for the reason where they live, or raise `max_restarts=`."
        )

    def _met(self) -> _Round | None:
        """Let all ranks meet, if they have not; return what went wrong, if it did."""
        if self._have_met or self.num_learners == 1:
            return None
        # No rank waits at a meeting for ranks that have still to begin.
        ready = self._asked("leave", [()] * self.num_learners, has_limit=True)
        if ready.dead:
            return ready
        meeting: Meeting = ThreadMeeting(self.num_learners, self._timeout_s)
        if not self._engine.is_in_process:
            opened = self._asked("open_meeting", [(self._timeout_s,), *[None] * (self.num_learners - 1)])
            if opened.dead:
                return opened
            meeting = opened.results[0]
        joined = self._asked("join", [(rank, self.num_learners, meeting) for rank in range(self.num_learners)])
        self._have_met = not joined.dead and not joined.lost
        return None if self._have_met else joined

    def _asked(self, method: str, arguments: Sequence[_Arguments], *, has_limit: bool = False) -> _Round:
        """Call a method of ranks once.

        Args:
            method: The method.
            arguments: Of each rank; a rank with None is not called.
            has_limit: Whether a rank that takes too long is dead; else it is only when another one is, or misses it.

        Raises:
            Exception: A rank's own error.
        """
        waiting = {
            rank: self._workers[rank].call(method, *given) for rank, given in enumerate(arguments) if given is not None
        }
        round_ = _Round()
        found: dict[int, Any] = {}
        patience_s = self._timeout_s + _GRACE_S
        deadline = self._engine.now() + patience_s if has_limit else None
        while waiting:
            left = None if deadline is None else max(0.0, deadline - self._engine.now())
            over = self._engine.wait(list(waiting.values()), left)
            if not over and sum(self._workers[rank].may_take_longer() for rank in waiting):  # all are asked
                deadline = self._engine.now() + patience_s
                continue
            for rank in [rank for rank, call in waiting.items() if call in over or not over]:
                call = waiting.pop(rank)
                round_.settle(rank, call if over else None, found)
            if (round_.dead or round_.lost or round_.errors) and deadline is None:
                deadline = self._engine.now() + patience_s
        if round_.errors:
            self._have_met = self._have_met and not round_.lost
            raise round_.errors[0]
        round_.results = [found.get(rank) for rank in range(self.num_learners)]
        return round_

    def _replace(self, dead: Collection[int], number: int | None) -> None:
        """Start other ranks instead of the dead ones, with the state of a survivor.

        Raises:
            EngineError: If there is no survivor.
        """
        self.counts["died"] += len(dead)
        self._have_met = False
        survivors = [rank for rank in range(self.num_learners) if rank not in dead]
        if not survivors:
            raise EngineError(
                "LearnerGroup: found that all ranks have died, expected one that has the state. Go on from a checkpoint."
            )
        if number is not None:
            self._asked("roll_back", [(number,) if rank in survivors else None for rank in range(self.num_learners)])
        if not dead:
            return
        first = survivors[0]
        asked: list[_Arguments] = [() if rank == first else None for rank in range(self.num_learners)]
        handle = self._engine.share(self._asked("get_state", asked).results[first])
        for rank in dead:
            self._workers[rank].kill()
            self._workers[rank] = self._engine.start(self._make)
        self._asked("set_shared_state", [(handle,) if rank in dead else None for rank in range(self.num_learners)])

    def close(self) -> None:
        """End all ranks; a second call does nothing."""
        for worker in self._workers:
            worker.kill()
        if self._owns_engine:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Round:
    """The results of calls of several ranks."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.dead: set[int] = set()
        self.lost: set[int] = set()  # those that miss others
        self.errors: list[Exception] = []

    def settle(self, rank: int, call: Call | None, found: dict[int, Any]) -> None:
        """Note how a call ended; one that has not ended in time is that of a dead rank."""
        try:
            if call is None:
                self.dead.add(rank)
            else:
                found[rank] = call.result()
        except WorkerDiedError:
            self.dead.add(rank)
        except LostRankError:
            self.lost.add(rank)
        except Exception as error:  # noqa: BLE001  # raised when all have answered
            self.errors.append(error)


def _check_pieces(pipeline: LearnerConnectorPipeline) -> None:
    odd = [
        place.piece.name
        for place in leaves(pipeline)
        if place.piece.kind is Kind.BATCH_WIDE and not isinstance(place.piece, Standardize)
    ]
    if odd:
        raise EngineError(
            f"LearnerGroup: found the pieces {odd}, which work on all rows of a batch, expected pieces that work on single "
            "episodes, or `Standardize`, because each learner has a part of the batch. Leave them out, or use one learner."
        )
