"""`ReplayRecipe`, the amounts of a training that learns from replay."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from episodia.arguments import checked_flag, checked_number, checked_whole, names_nearest_argument
from episodia.columns import Columns
from episodia.connectors import ConnectorV2, EpsilonGreedy, GaussianNoise, Schedule
from episodia.connectors.module_to_env.drop_module_outputs import DropModuleOutputs
from episodia.errors import TrainingError
from episodia.learners import Learner
from episodia.replay import Proportional, ReplayBuffer
from episodia.schedules import schedule_within
from episodia.training.recipes.recipe import BaseRecipe
from episodia.training.recipes.updating import UpdateFromReplay, Updating

_FEWEST_ROWS = 8
# Of updates for each step, and of exponents.
_LARGEST = 1e6


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class ReplayRecipe(BaseRecipe):
    """The amounts of a training that stores what it collects, and learns from samples of that.

    Args:
        num_envs: See `BaseRecipe`, here and below.
        num_timesteps: The number of steps to collect before the next updates.
        num_episodes: The number of whole episodes to collect instead.
        capacity: The number of rows of the buffer.
        batch_size: The number of rows of a sample: steps, or sequences for recurrent modules.
        warm_up: The number of steps before the first update.
        random_warm_up: Whether actions are random until then.
        updates_per_step: The number of updates for each step after the warm-up; it may be a fraction.
        priority_exponent: How strongly errors decide what is sampled, see `Proportional`; None samples uniformly.
        priority_correction: How much of the bias of such samples their weights take away.
        epsilon: The probability of random actions, see `EpsilonGreedy`: a number, a schedule over the steps, or None.
        noise: The standard deviation of noise on actions, see `GaussianNoise`: a number, a schedule over the steps, or None.
        plan: `"loop"`: collect, store and learn, copy the weights. `"replay"`: the same as a flow over a group of runners.
            `"apex"`: deliveries are stored as they come, in shards. See `episodia.training.recipes.training_plans`.
        num_shards: The number of buffers that share the capacity, each fed by some of the runners; for `"apex"`.
        saves_buffer: Whether checkpoints include the buffer. Without it, a resumed training begins with another warm-up.

    Raises:
        TrainingError: If a value is out of range.
        PipelineError: If a schedule is out of range.

    >>> ReplayRecipe(updates_per_step=0.25, num_timesteps=16).updates_per_step
    0.25
    """

    plan_names = ("loop", "replay", "apex")

    num_timesteps: int = 64
    num_shards: int = 1
    capacity: int = 100_000
    batch_size: int = 64
    warm_up: int = 1000
    random_warm_up: bool = False
    updates_per_step: float = 1.0
    priority_exponent: float | None = None
    priority_correction: float = 0.4
    epsilon: float | Schedule | None = None
    noise: float | Schedule | None = None
    saves_buffer: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_counts("batch_size", "warm_up", "num_shards")
        if self.num_shards > 1 and self.plan in ("loop", "replay"):
            raise TrainingError(
                f"ReplayRecipe: found `num_shards={self.num_shards}` with the plan {self.plan!r}, expected one buffer. Choose "
                'the plan "apex", which has shards.'
            )
        where = type(self).__name__
        plain = {
            "capacity": checked_whole(TrainingError, where, "capacity", self.capacity, _FEWEST_ROWS),
            "random_warm_up": checked_flag(TrainingError, where, "random_warm_up", self.random_warm_up),
            "saves_buffer": checked_flag(TrainingError, where, "saves_buffer", self.saves_buffer),
            "updates_per_step": self._amount("updates_per_step"),
            "priority_correction": self._amount("priority_correction"),
        }
        if self.priority_exponent is not None:
            plain["priority_exponent"] = self._amount("priority_exponent")
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        for name, most in (("epsilon", 1.0), ("noise", math.inf)):
            if getattr(self, name) is not None:
                schedule_within(name, getattr(self, name), 0.0, most)

    def _amount(self, name: str) -> float:
        return checked_number(TrainingError, type(self).__name__, name, getattr(self, name), 0.0, _LARGEST)

    def connectors(self, seed: int) -> list[ConnectorV2]:
        """Return the pieces that explore; log-probabilities are dropped, because losses do not read them.

        Without log-probabilities, the action that was really taken is stored.
        """
        pieces: list[ConnectorV2] = [DropModuleOutputs(columns=[Columns.ACTION_LOGP, Columns.ACTION_DIST_INPUTS])]
        if self.epsilon is not None:
            pieces.append(EpsilonGreedy(epsilon=self.epsilon, seed=seed))
        if self.noise is not None:
            pieces.append(GaussianNoise(std=self.noise, seed=seed))
        return pieces

    def updating(self, learner: Learner, seed: int) -> Updating:
        """Return updates from a new buffer."""
        capacity = max(self.capacity // self.num_shards, _FEWEST_ROWS)
        buffers = [
            ReplayBuffer(capacity, selector=self._selector(), seed=seed + shard) for shard in range(self.num_shards)
        ]
        return UpdateFromReplay(
            learner,
            buffers,
            num=self.batch_size,
            warm_up=self.warm_up,
            random_warm_up=self.random_warm_up,
            updates_per_step=self.updates_per_step,
            saves_buffer=self.saves_buffer,
        )

    def _selector(self) -> Proportional | None:
        alpha = self.priority_exponent
        return None if alpha is None else Proportional(alpha=alpha, beta=self.priority_correction)
