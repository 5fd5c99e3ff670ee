"""Numbers that pieces are made with, checked when a piece is made and not when it first runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.errors import PipelineError


def checked_fraction(piece: str, name: str, value: Any) -> float:
    """Return `value` if it is a number from 0 to 1.

    Raises:
        PipelineError: If it is not.

    >>> checked_fraction("GeneralAdvantageEstimation", "gamma", 0.99)
    0.99
    """
    if not isinstance(value, (int, float, np.integer, np.floating)) or not 0.0 <= value <= 1.0:
        raise PipelineError(f"{piece}: found `{name}={value!r}`, expected a number from 0 to 1. Pass such a number.")
    return float(value)


def checked_count(piece: str, name: str, value: Any, least: int) -> int:
    """Return `value` if it is an integer of at least `least`.

    Raises:
        PipelineError: If it is not.

    >>> checked_count("NStepReturns", "n", 3, least=1)
    3
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise PipelineError(
            f"{piece}: found `{name}={value!r}`, expected an integer of at least {least}. Pass such a number."
        )
    return int(value)
