"""SAC for discrete actions: all actions are valued, so nothing has to be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium import Space, spaces
from torch import Tensor

from episodia.arguments import names_nearest_argument
from episodia.columns import Columns
from episodia.learners.algorithms.off_policy import distribution_of
from episodia.learners.algorithms.sac import SACConfig
from episodia.learners.losses.coefficients import check_within
from episodia.learners.losses.q_targets import chosen, positions
from episodia.modules.distributions.categorical import CategoricalSpec
from episodia.types import Batch


@names_nearest_argument
@dataclass(frozen=True, kw_only=True)
class DiscreteSACConfig(SACConfig):
    """Soft actor-critic, for an `ActorWithCritics` over a Discrete space.

    Args:
        entropy_share: The share of the largest possible entropy that the temperature aims at, unless there is a
            `target_entropy`.
    """

    action_space_class: ClassVar[type[Space[Any]]] = spaces.Discrete
    policy_class: ClassVar[type[object]] = CategoricalSpec

    entropy_share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_within(type(self).__name__, "entropy_share", self.entropy_share, 0.0, 1.0)

    def _taken_values(self, module: Any, batch: Batch) -> Tensor:
        actions = positions(batch[Columns.ACTIONS], module.action_space)
        values: Tensor = module.get_q_values(batch)
        return chosen(values, actions.expand(len(values), *actions.shape))

    def _soft_values(self, module: Any, batch: Batch, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Return means over all allowed actions of values plus weighted entropy, and the entropies, with gradients."""
        distribution = distribution_of(module, batch)
        values = module.get_q_values(batch).detach().amin(0)
        probabilities = distribution.log_probabilities.exp()
        entropies = distribution.entropy()
        return (probabilities * values).sum(-1) + temperature * entropies, entropies

    def _wanted_entropy(self, module: Any) -> float:
        usual = self.entropy_share * float(np.log(module.action_space.n))
        return usual if self.target_entropy is None else self.target_entropy
