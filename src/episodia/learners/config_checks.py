"""What the numbers of a config may be; they are checked once, when it is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from episodia.connectors.schedules import Schedule, as_schedule
from episodia.errors import LearnerError, PipelineError


def check_within(where: str, name: str, value: object, low: float, high: float = math.inf) -> None:
    """Check that a number, or each number of a schedule, lies between `low` and `high`, both included.

    Raises:
        LearnerError: If it does not.

    >>> check_within("PPOConfig", "gamma", 0.99, 0.0, 1.0)
    """
    smallest, largest = _extremes(where, name, value)
    if not low <= smallest <= largest <= high:
        wanted = f"from {low:g} to {high:g}" if math.isfinite(high) else f"from {low:g} on"
        raise LearnerError(f"{where}: found `{name}={value!r}`, expected a number {wanted}. Choose one of these.")


def check_positive(where: str, name: str, value: object) -> None:
    """Check that a number, or each number of a schedule, is above 0.

    Raises:
        LearnerError: If it is not.
    """
    if not _extremes(where, name, value)[0] > 0.0:
        raise LearnerError(f"{where}: found `{name}={value!r}`, expected a number above 0. Choose a larger one.")


def check_count(where: str, name: str, value: object, least: int) -> None:
    """Check that `value` is an integer of at least `least`.

    Raises:
        LearnerError: If it is not.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise LearnerError(
            f"{where}: found `{name}={value!r}`, expected an integer from {least} on. Pass such a number."
        )


def check_flag(where: str, name: str, value: object) -> None:
    """Check that `value` is True or False: any other object, such as "no", would count as one of them too.

    Raises:
        LearnerError: If it is not.
    """
    if not isinstance(value, bool):
        raise LearnerError(f"{where}: found `{name}={value!r}`, expected True or False. Pass one of these.")


def check_each(where: str, name: str, values: object, is_one: Callable[[Any], bool], wanted: str) -> None:
    """Check that `values` is a tuple or a list of what `is_one` is true of.

    Raises:
        LearnerError: If it is not.
    """
    if not isinstance(values, (tuple, list)) or not all(map(is_one, values)):
        raise LearnerError(
            f"{where}: found `{name}={values!r}`, expected a tuple of {wanted}. Put a comma behind a single one."
        )


def _extremes(where: str, name: str, value: object) -> tuple[float, float]:
    if not isinstance(value, (int, float, np.integer, np.floating, Schedule)):
        raise LearnerError(
            f"{where}: found {type(value).__name__} as `{name}`, expected a number or a `Schedule`. Pass one of these."
        )
    try:
        return as_schedule(value if isinstance(value, Schedule) else float(value)).extremes
    except PipelineError as error:
        raise LearnerError(
            f"{where}: found `{name}={value!r}`, expected a finite number. Pass such a number."
        ) from error
