"""`Recipe`, the amounts of an update with the episodes that were just collected, and the base of all recipes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar, final

from episodia.arguments import checked_whole, names_nearest_argument
from episodia.connectors import ConnectorV2
from episodia.errors import TrainingError
from episodia.learners import Learner
from episodia.training.recipes.training_plans import Plan, checked_plan
from episodia.training.recipes.updating import UpdateWithEpisodes, Updating


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(ABC):
    """The amount to collect at a time; a subclass says how to learn from it.

    Args:
        num_envs: The number of environments that run at once.
        num_timesteps: The number of steps to collect, over all environments.
        num_episodes: The number of whole episodes to collect instead; None collects `num_timesteps`.
        plan: The order of collecting and learning: a name, or a function from the training to a `Flow` of metrics.

    Raises:
        TrainingError: If a value is invalid.
    """

    plan_names: ClassVar[tuple[str, ...]] = ("loop",)

    num_envs: int = 8
    num_timesteps: int = 1024
    num_episodes: int | None = None
    plan: str | Plan = "loop"

    def __post_init__(self) -> None:
        self._check_counts("num_envs", "num_timesteps", "num_episodes")
        checked_plan(type(self).__name__, self.plan, self.plan_names)

    def _check_counts(self, *names: str) -> None:
        """Check that the fields are positive integers, or None where that is their default."""
        usual = {each.name: each.default for each in fields(self)}
        for name in names:
            value = getattr(self, name)
            if not (value is None and usual[name] is None):
                # JSON has no NumPy numbers.
                object.__setattr__(self, name, checked_whole(TrainingError, type(self).__name__, name, value, 1))

    @property
    def wanted(self) -> dict[str, int]:
        """The arguments of `sample` of the runner."""
        if self.num_episodes is not None:
            return {"num_episodes": self.num_episodes}
        return {"num_timesteps": self.num_timesteps}

    def connectors(self, seed: int) -> list[ConnectorV2]:
        """Return the pieces that explore, for the module-to-env pipeline of the runner."""
        return []

    @abstractmethod
    def updating(self, learner: Learner, seed: int) -> Updating:
        """Return what a training does with the episodes that it collected."""


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class Recipe(BaseRecipe):
    """The amounts of an update with the episodes that were just collected.

    Args:
        num_envs: See `BaseRecipe`, here and below.
        num_timesteps: The number of steps to collect.
        num_episodes: The number of whole episodes to collect instead.
        num_epochs: The number of passes over the collected data.
        minibatch_size: The approximate number of steps per gradient step; None takes all steps at once.
        plan: `"loop"`: collect, learn, copy the weights. `"rounds"`: the same as a flow over a group of runners. `"a3c"`:
            runners compute gradients, which are applied as they come; one pass. `"impala"`: runners play while the learner
            learns. See `episodia.training.recipes.training_plans`.
        max_lag: In `"impala"`, drop what is behind by more versions of the weights; None drops nothing.

    Raises:
        TrainingError: If a value is invalid.

    >>> Recipe(num_timesteps=256).wanted, Recipe(num_episodes=4).wanted
    ({'num_timesteps': 256}, {'num_episodes': 4})
    """

    plan_names = ("loop", "rounds", "a3c", "impala")

    num_epochs: int = 1
    minibatch_size: int | None = None
    max_lag: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts("num_epochs", "minibatch_size")
        if self.max_lag is not None:
            object.__setattr__(self, "max_lag", checked_whole(TrainingError, "Recipe", "max_lag", self.max_lag, 0))

    def updating(self, learner: Learner, seed: int) -> Updating:
        """Return updates with the episodes that were just collected."""
        return UpdateWithEpisodes(learner, num_epochs=self.num_epochs, minibatch_size=self.minibatch_size)
