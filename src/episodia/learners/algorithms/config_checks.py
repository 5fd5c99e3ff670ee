"""Checks of the numbers and schedules of a config, made once by its constructor."""

from __future__ import annotations

import math

from episodia.arguments import checked_number, range_of
from episodia.errors import LearnerError
from episodia.schedules import Schedule


def check_within(where: str, name: str, value: object, low: float, high: float = math.inf) -> None:
    """Check that a number, or each number of a schedule, lies between `low` and `high`, both included.

    Raises:
        LearnerError: If it does not.

    >>> check_within("PPOConfig", "gamma", 0.99, 0.0, 1.0)
    """
    smallest, largest = _extremes(where, name, value)
    if not low <= smallest <= largest <= high:
        raise LearnerError(f"{where}: found `{name}={value!r}`, expected {range_of(low, high)}. Choose one of these.")


def check_positive(where: str, name: str, value: object) -> None:
    """Check that a number, or each number of a schedule, is above 0.

    Raises:
        LearnerError: If it is not.
    """
    if not _extremes(where, name, value)[0] > 0.0:
        raise LearnerError(f"{where}: found `{name}={value!r}`, expected a number above 0. Choose a larger one.")


def _extremes(where: str, name: str, value: object) -> tuple[float, float]:
    if isinstance(value, Schedule):
        return value.extremes
    number = checked_number(LearnerError, where, name, value)
    if math.isinf(number):
        raise LearnerError(f"{where}: found `{name}={value!r}`, expected a finite number. Pass such a number.")
    return number, number
