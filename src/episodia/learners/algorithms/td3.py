"""TD3: DDPG with two critics, a slower actor, and noise on target actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from episodia.arguments import names_nearest_argument
from episodia.learners.algorithms.ddpg import DDPGConfig


@names_nearest_argument
@dataclass(frozen=True, kw_only=True)
class TD3Config(DDPGConfig):
    """Twin delayed deterministic policy gradients: `DDPGConfig` with other defaults.

    >>> TD3Config().policy_every
    2
    """

    policy_every: int = 2
    target_noise: float = 0.2

    def network(self) -> Mapping[str, Any]:
        """Return the settings of a deterministic actor with two critics."""
        return {**super().network(), "num_critics": 2}
