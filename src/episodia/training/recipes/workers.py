"""`Workers`: how many runners a training has, and where they live. A training may go on with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, final

from episodia.arguments import checked_choice, checked_number, checked_whole
from episodia.dataflow import Engine, LearnerGroup, LocalEngine, RayEngine, Rounds, RunnerGroup, ThreadEngine
from episodia.env_runners import EnvRunner
from episodia.errors import TrainingError
from episodia.learners import Learner
from episodia.trees import shown

ENGINES: Mapping[str, Callable[..., Engine]] = MappingProxyType(
    {"local": LocalEngine, "threads": ThreadEngine, "ray": RayEngine}
)

# The default of plans for groups.
_USUAL_RUNNERS = 2
_TOO_MANY = 2**20


@final
@dataclass(frozen=True, kw_only=True)
class Workers:
    """The runners of a training.

    Args:
        num_runners: How many; each has the `num_envs` of the recipe. With 0, one runner plays without a group, or, if the plan
            needs a group, two play in it.
        engine: Where they live: `"local"`, in this thread; `"threads"`, each in a thread; `"ray"`, each in a process.
        address: That of a Ray cluster; None is this machine.
        num_learners: The number of learners that take each gradient step together, see `LearnerGroup`; they live where the
            runners do.
        in_flight: See `RunnerGroup`.
        call_timeout_s: See `RunnerGroup`; it holds for learners and replay shards in workers of their own, too.
        min_ready: See `Rounds`, here and below.
        grace_s: The least time to wait for late runners.
        grace_factor: The same as a factor of the time so far.

    Raises:
        TrainingError: If a value is out of range.
        EngineError: If a value of rounds is out of range.

    >>> Workers(num_runners=2, engine="threads").num_runners
    2
    """

    num_runners: int = 0
    engine: str = "local"
    address: str | None = None
    num_learners: int = 1
    in_flight: int = 1
    call_timeout_s: float | None = None
    min_ready: int | None = None
    grace_s: float = 0.0
    grace_factor: float = 0.0

    def __post_init__(self) -> None:
        where = type(self).__name__
        checked_choice(TrainingError, where, "engine", self.engine, tuple(ENGINES))
        for name, least in (("num_runners", 0), ("num_learners", 1)):
            number = checked_whole(TrainingError, where, name, getattr(self, name), least, below=_TOO_MANY)
            object.__setattr__(self, name, number)
        if self.address is not None and self.engine != "ray":
            raise TrainingError(
                f'{where}: found `address={shown(self.address)}` with the engine {self.engine!r}, expected "ray". Pass both.'
            )
        object.__setattr__(self, "in_flight", checked_whole(TrainingError, where, "in_flight", self.in_flight, 1))
        if self.call_timeout_s is not None:
            checked_number(TrainingError, where, "call_timeout_s", self.call_timeout_s, 0.0)
        self._rounds()

    def _rounds(self) -> Rounds:
        return Rounds(min_ready=self.min_ready, grace_s=self.grace_s, grace_factor=self.grace_factor)

    def _new_engine(self) -> Engine:
        return ENGINES[self.engine](*[] if self.address is None else [self.address])

    def learner(self, make_learner: Callable[[], Learner]) -> Learner | LearnerGroup:
        """Return a learner, or a group of them.

        Args:
            make_learner: Makes a learner.
        """
        if self.num_learners == 1:
            return make_learner()
        return LearnerGroup(make_learner, self.num_learners, engine=self._new_engine)

    def runner(self, make_runner: Callable[[int], EnvRunner[Any]], seed: int, *, needs_group: bool) -> Any:
        """Return a runner, or a group of them.

        Args:
            make_runner: Makes the runner of a seed.
            seed: The seed of the runner or of the group.
            needs_group: Whether the plan needs a group.
        """
        if not self.num_runners and not needs_group:
            return make_runner(seed)
        return RunnerGroup(
            make_runner,
            self.num_runners or _USUAL_RUNNERS,
            seed=seed,
            engine=self._new_engine,
            rounds=self._rounds(),
            in_flight=self.in_flight,
            call_timeout_s=self.call_timeout_s,
        )
