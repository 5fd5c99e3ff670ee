"""R2D2: recurrent DQN with stored states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from episodia.arguments import names_nearest_argument
from episodia.learners.algorithms.dqn import DQNConfig


@names_nearest_argument
@dataclass(frozen=True, kw_only=True)
class R2D2Config(DQNConfig):
    """Recurrent Q-learning: `DQNConfig` with other defaults, for a recurrent `QNetwork`.

    It learns from stored sequences of `max_seq_len` steps. Each begins with the state that the network had when it acted, and
    up to `burn_in` earlier steps bring this state up to date.

    >>> R2D2Config().draw()
    Sequences(length=20, burn_in=10, every=1, start='anywhere', end='pad')
    """

    max_seq_len: int | None = 20
    burn_in: int = 10
    rescales_values: bool = True

    def network(self) -> Mapping[str, Any]:
        """Return the settings of a recurrent Q-network."""
        return {**super().network(), "recurrent": "lstm"}
