"""The numbers in a loss that change during training: by schedule, or by what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final, runtime_checkable

from episodia.arguments import is_number
from episodia.errors import LearnerError
from episodia.learners.algorithms.config_checks import check_positive, check_within
from episodia.schedules import Schedule, as_schedule


@runtime_checkable
class Adaptive(Protocol):
    """A rule for a coefficient that follows from the one before and from what an update has measured. It has no memory."""

    @property
    def initial(self) -> float:
        """The coefficient before the first update."""

    def after(self, coefficient: float, metrics: Mapping[str, float]) -> float:
        """Return the coefficient that follows `coefficient`, after an update with these metrics in its last epoch."""


Coefficient: TypeAlias = float | Schedule | Adaptive


@final
class Coefficients:
    """The coefficients of each module's loss. Those that adapt are remembered for each module on its own.

    Args:
        rules: What each coefficient follows, by name: a number, a `Schedule`, or an `Adaptive`.
        module_ids: The modules.

    >>> from episodia.learners import AdaptiveKL
    >>> coefficients = Coefficients({"entropy": 0.01, "kl": AdaptiveKL(initial=0.2, target=0.1)}, ["left", "right"])
    >>> coefficients.adapt("left", {"kl": 0.5})
    >>> coefficients.at("left", t=0), coefficients.at("right", t=0)
    ({'entropy': 0.01, 'kl': 0.4}, {'entropy': 0.01, 'kl': 0.2})
    """

    def __init__(self, rules: Mapping[str, Coefficient], module_ids: Iterable[str]) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._adaptives: dict[str, Adaptive] = {}
        for name, rule in rules.items():
            if isinstance(rule, Adaptive):
                self._adaptives[name] = rule
            else:
                self._schedules[name] = as_schedule(rule)
        self._remembered = {
            module_id: {name: rule.initial for name, rule in self._adaptives.items()} for module_id in module_ids
        }

    def at(self, module_id: str, t: int) -> dict[str, float]:
        """Return the coefficients of a module after `t` steps."""
        return {name: rule.at(t) for name, rule in self._schedules.items()} | self._remembered[module_id]

    def adapt(self, module_id: str, metrics: Mapping[str, float]) -> None:
        """Let the coefficients of a module follow what its last update has measured."""
        found = self._remembered[module_id]
        try:
            following = {name: float(rule.after(found[name], metrics)) for name, rule in self._adaptives.items()}
        except Exception as error:  # whatever a rule of someone else raises
            raise LearnerError(
                f"coefficients of {module_id!r}: found that a rule failed ({type(error).__name__}: {error}), expected the next "
                "coefficient. Correct `after`; the coefficients are as they were."
            ) from error
        if not all(math.isfinite(number) for number in following.values()):
            raise LearnerError(
                f"coefficients of {module_id!r}: found that a rule has returned {following}, expected finite numbers. Correct "
                "`after`; the coefficients are as they were."
            )
        self._remembered[module_id] = following

    def get_state(self) -> dict[str, dict[str, float]]:
        """Return the coefficients that adapt, by module."""
        return {module_id: dict(found) for module_id, found in self._remembered.items()}

    def check_state(self, state: Mapping[str, Mapping[str, float]]) -> None:
        """Check that `state` is one of these coefficients.

        Raises:
            LearnerError: If it has other modules or other coefficients.
        """
        names = {module_id: sorted(found) for module_id, found in state.items()}
        expected = {module_id: sorted(found) for module_id, found in self._remembered.items()}
        if names != expected or not all(is_number(number) for found in state.values() for number in found.values()):
            raise LearnerError(
                f"state of coefficients: found {dict(state)}, expected numbers for {expected}. Load the state of a learner "
                "with the same modules and a config with the same coefficients."
            )

    def set_state(self, state: Mapping[str, Mapping[str, float]]) -> None:
        """Go on from the coefficients in `state`, see `check_state`."""
        self.check_state(state)
        self._remembered = {
            module_id: {name: float(value) for name, value in found.items()} for module_id, found in state.items()
        }


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
