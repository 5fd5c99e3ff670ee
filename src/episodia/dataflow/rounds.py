"""The time that a synchronous round of a group waits for its runners."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from episodia.arguments import checked_number, checked_whole, names_nearest_argument
from episodia.errors import EngineError


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class Rounds:
    """When a round is over: when all runners have delivered, or enough of them, and then the grace has passed.

    Attributes:
        min_ready: The number of runners that have to deliver; None for all.
        grace_s: How many seconds to wait for the others.
        grace_factor: How long to wait for the others, as a factor of the time that the round has taken so far. The longer
            of both graces counts.

    >>> Rounds(min_ready=3, grace_factor=0.5).grace_after(4.0)
    2.0
    """

    min_ready: int | None = None
    grace_s: float = 0.0
    grace_factor: float = 0.0

    def __post_init__(self) -> None:
        if self.min_ready is not None:
            checked_whole(EngineError, "Rounds", "min_ready", self.min_ready, 1)
        for name in ("grace_s", "grace_factor"):
            checked_number(EngineError, "Rounds", name, getattr(self, name), 0.0, math.inf)

    def grace_after(self, elapsed_s: float) -> float:
        """Return how long to wait after enough runners have delivered in `elapsed_s`."""
        return max(self.grace_s, self.grace_factor * elapsed_s)
