"""What the numbers of a training may be; they are checked before anything is built, played or written."""

from __future__ import annotations

import math

import numpy as np

from episodia.errors import TrainingError


def check_whole(where: str, name: str, value: object, least: int, below: float = math.inf) -> None:
    """Check that `value` is an integer from `least` on.

    Raises:
        TrainingError: If it is not.

    >>> check_whole("train", "steps", 100, 0)
    """
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or not least <= value < below:  # type: ignore[operator]  # a number, or not compared
        wanted = f"from {least} on" if below == math.inf else f"from {least} to below {below:g}"
        raise TrainingError(f"{where}: found `{name}={value!r}`, expected an integer {wanted}. Pass such a number.")


def check_limits(where: str, steps: object, target: object) -> None:
    """Check when a training stops.

    Raises:
        TrainingError: If `steps` is no whole number, or if `target` is neither a number nor None.
    """
    check_whole(where, "steps", steps, 0)
    is_number = isinstance(target, (int, float, np.integer, np.floating)) and not isinstance(target, bool)
    if target is not None and (not is_number or math.isnan(target)):  # type: ignore[arg-type]  # a number, or not asked
        raise TrainingError(
            f"{where}: found `target={target!r}`, expected a mean return to stop at, or None. Pass one of these."
        )
