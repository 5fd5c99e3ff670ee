"""Rainbow: DQN with all its extensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from episodia.arguments import names_nearest_argument
from episodia.learners.algorithms.dqn import DQNConfig


@names_nearest_argument
@dataclass(frozen=True, kw_only=True)
class RainbowConfig(DQNConfig):
    """Rainbow: `DQNConfig` with other defaults, for a dueling, noisy and distributional `QNetwork`.

    With a `value_range` of the network, it learns probabilities of evenly spaced returns; without, quantiles. Priorities are a
    matter of the buffer.

    >>> RainbowConfig().network()["dueling"]
    True
    """

    n_step: int = 3

    def network(self) -> Mapping[str, Any]:
        """Return the settings of a dueling, noisy and distributional Q-network."""
        return {**super().network(), "dueling": True, "noisy": True, "atoms": 51}
