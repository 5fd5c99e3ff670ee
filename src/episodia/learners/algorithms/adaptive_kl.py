"""A penalty on the divergence between policies that keeps it near a target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from episodia.learners.algorithms.config_checks import check_positive, check_within


@final
@dataclass(frozen=True, kw_only=True)
class AdaptiveKL:
    """The coefficient rises where the policy has moved too far in an update, and falls where it hardly has.

    Args:
        initial: The coefficient before the first update.
        target: The divergence to aim at, in nats per step.
        tolerance: How many times more or less than the target is close enough.
        factor: What the coefficient is multiplied by, or divided by.
        lowest: The coefficient does not fall below this, so that it can rise again soon after a time without progress.
        highest: The coefficient does not rise above this.

    Raises:
        LearnerError: If a number is out of its range.

    >>> rule = AdaptiveKL(initial=0.2, target=0.01)
    >>> [rule.after(0.2, {"kl": kl}) for kl in (0.1, 0.01, 0.001)]
    [0.4, 0.2, 0.1]
    """

    initial: float = 0.2
    target: float = 0.01
    tolerance: float = 1.5
    factor: float = 2.0
    lowest: float = 1e-3
    highest: float = 1e3

    def __post_init__(self) -> None:
        check_positive("AdaptiveKL", "target", self.target)
        check_positive("AdaptiveKL", "lowest", self.lowest)
        check_within("AdaptiveKL", "highest", self.highest, self.lowest)
        check_within("AdaptiveKL", "initial", self.initial, self.lowest, self.highest)
        check_within("AdaptiveKL", "tolerance", self.tolerance, 1.0)
        check_within("AdaptiveKL", "factor", self.factor, 1.0)

    def after(self, coefficient: float, metrics: Mapping[str, float]) -> float:
        """Return the next coefficient; it stays if the divergence in `metrics["kl"]` is missing or not finite."""
        divergence = metrics.get("kl", math.nan)
        if not math.isfinite(divergence):
            return coefficient
        if divergence > self.target * self.tolerance:
            return min(coefficient * self.factor, self.highest)
        if divergence < self.target / self.tolerance:
            return max(coefficient / self.factor, self.lowest)
        return coefficient
