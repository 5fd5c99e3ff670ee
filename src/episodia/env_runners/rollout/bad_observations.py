"""Observations that nobody can act on: NaN and infinite numbers, looked for after a failure only."""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.errors import EnvError
from episodia.trees import leaves


def lanes_not_finite(observations: Any, num_lanes: int) -> list[int]:
    """Return the lanes whose row of `observations` has NaN or infinite numbers in it.

    >>> lanes_not_finite({"speed": np.array([[0.0], [np.nan], [np.inf]]), "gear": np.array([1, 2, 3])}, 3)
    [1, 2]
    """
    is_bad = np.zeros(num_lanes, np.bool_)
    for _, leaf in leaves(observations):
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f":
            is_bad |= ~np.isfinite(leaf).reshape(num_lanes, -1).all(-1)
    found: list[int] = is_bad.nonzero()[0].tolist()
    return found


def cannot_act_on(lanes: list[int], error: Exception) -> EnvError:
    """Return the error for a module or pipeline that failed with the last observations of `lanes`."""
    who = f"environment {lanes[0]}" if len(lanes) == 1 else f"environments {lanes}"
    return EnvError(
        f"{who}: found NaN or infinite numbers in the last observation, on which acting has failed ({type(error).__name__}: "
        f"{error}); expected finite numbers. What was recorded of that episode is dropped, all else comes with the next "
        "`sample()`, which begins with a reset. Correct the environment, or replace such numbers by a connector."
    )
