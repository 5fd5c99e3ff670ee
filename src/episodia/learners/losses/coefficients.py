"""Numbers in a config: checked when it is made, and changed during training by schedule or by measurements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final, runtime_checkable

from episodia.arguments import checked_number, is_number, names_nearest_argument, range_of
from episodia.errors import LearnerError
from episodia.schedules import Schedule, as_schedule
from episodia.trees import shown


def check_within(
    where: str, name: str, value: object, low: float, high: float = math.inf, *, may_change: bool = False
) -> None:
    """Check that a number lies between `low` and `high`, both included; if it `may_change`, each number of a schedule too.

    Raises:
        LearnerError: If it does not.

    >>> check_within("PPOConfig", "gamma", 0.99, 0.0, 1.0)
    """
    smallest, largest = _extremes(where, name, value, may_change)
    if not low <= smallest <= largest <= high:
        raise LearnerError(
            f"{where}: found `{name}={shown(value)}`, expected {range_of(low, high)}. Choose one of these."
        )


def check_positive(where: str, name: str, value: object, *, may_change: bool = False) -> None:
    """Check that a number is above 0; if it `may_change`, each number of a schedule too.

    Raises:
        LearnerError: If it is not.
    """
    if not _extremes(where, name, value, may_change)[0] > 0.0:
        raise LearnerError(f"{where}: found `{name}={shown(value)}`, expected a number above 0. Choose a larger one.")


def _extremes(where: str, name: str, value: object, may_change: bool) -> tuple[float, float]:
    if may_change and isinstance(value, Schedule):
        return value.extremes
    if may_change and not is_number(value):
        raise LearnerError(
            f"{where}: found `{name}={shown(value)}`, expected a number, or a schedule over the steps trained on. Pass one of "
            "them, such as `PiecewiseLinearSchedule([(0, 1.0), (10_000, 0.1)])`."
        )
    number = checked_number(LearnerError, where, name, value)
    if math.isinf(number):
        raise LearnerError(f"{where}: found `{name}={shown(value)}`, expected a finite number. Pass such a number.")
    return number, number


@runtime_checkable
class Adaptive(Protocol):
    """A rule without memory: the next coefficient follows from the last one and from the metrics of an update."""

    @property
    def initial(self) -> float:
        """The coefficient before the first update."""

    def after(self, coefficient: float, metrics: Mapping[str, float]) -> float:
        """Return the coefficient that follows `coefficient`, after an update with these metrics in its last epoch."""


Coefficient: TypeAlias = float | Schedule | Adaptive


@final
class Coefficients:
    """The coefficients of each module's loss. Adaptive ones are kept for each module separately.

    Args:
        rules: The rule of each coefficient, by name: a number, a `Schedule`, or an `Adaptive`.
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
        """Adapt the coefficients of a module to the metrics of its last update."""
        found = self._remembered[module_id]
        try:
            following = {name: float(rule.after(found[name], metrics)) for name, rule in self._adaptives.items()}
        except Exception as error:  # foreign rules raise anything
            raise LearnerError(
                f"coefficients of {module_id!r}: found a rule that failed ({type(error).__name__}: {error}), expected the next "
                "coefficient. Correct `after`; the coefficients stay unchanged."
            ) from error
        if not all(math.isfinite(number) for number in following.values()):
            raise LearnerError(
                f"coefficients of {module_id!r}: found a rule that returned {following}, expected finite numbers. Correct "
                "`after`; the coefficients stay unchanged."
            )
        self._remembered[module_id] = following

    def get_state(self) -> dict[str, dict[str, float]]:
        """Return the adaptive coefficients, by module."""
        return {module_id: dict(found) for module_id, found in self._remembered.items()}

    def check_state(self, state: Mapping[str, Mapping[str, float]]) -> None:
        """Check that `state` fits these coefficients.

        Raises:
            LearnerError: If modules or coefficients differ.
        """
        names = {module_id: sorted(found) for module_id, found in state.items()}
        expected = {module_id: sorted(found) for module_id, found in self._remembered.items()}
        if names != expected or not all(is_number(number) for found in state.values() for number in found.values()):
            raise LearnerError(
                f"state of coefficients: found {dict(state)}, expected numbers for {expected}. Load the state of a learner "
                "with the same modules and a config with the same coefficients."
            )

    def set_state(self, state: Mapping[str, Mapping[str, float]]) -> None:
        """Continue from the coefficients in `state`, see `check_state`."""
        self.check_state(state)
        self._remembered = {
            module_id: {name: float(value) for name, value in found.items()} for module_id, found in state.items()
        }


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class AdaptiveKL:
    """A coefficient that rises after an update that moved the policy too far, and falls after one that hardly moved it.

    Args:
        initial: The coefficient before the first update.
        target: The desired divergence, in nats per step.
        tolerance: The factor above or below the target that is close enough.
        factor: The coefficient is multiplied or divided by this.
        lowest: The lower limit of the coefficient, from which it can soon rise again.
        highest: The upper limit of the coefficient.

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
