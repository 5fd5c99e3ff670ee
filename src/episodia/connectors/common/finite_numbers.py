"""Checks that reject NaN and infinite numbers before they reach running statistics or sums over later steps."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from episodia.episodes import EpisodeList, Ragged
from episodia.errors import NonFiniteError
from episodia.trees import leaves
from episodia.types import Item


def is_finite(array: Item) -> bool:
    """Return whether an array has finite numbers only; True for arrays of integers and of other types.

    >>> is_finite(np.array([1.0, 2.0])), is_finite(np.array([1.0, np.nan])), is_finite(np.array([1, 2]))
    (True, False, True)
    """
    # A tensor may be on another device, so its numbers are copied only once.
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return True
    # A finite sum of squares has finite terms: one product for the usual case. It may overflow without reason.
    return (array.dtype.itemsize > 2 and math.isfinite(np.vdot(array, array))) or bool(np.isfinite(array).all())


def check_finite(piece: str, name: str, column: Ragged, rows: EpisodeList) -> None:
    """Check that a column has finite numbers only.

    Raises:
        NonFiniteError: If not; it names the piece, the column and the first such step.
    """
    for path, leaf in leaves(column.values):
        if not is_finite(leaf):
            place = np.argwhere(~np.isfinite(leaf))[0]
            raise NonFiniteError(
                f"{piece}: found {leaf[tuple(place)]} in the column {name!r}{path}, {_where(int(place[0]), column, rows)}, "
                "expected finite numbers. Correct the environment, or the piece that wrote it."
            )


def check_made(piece: str, name: str, made: np.ndarray, of: Mapping[str, Ragged], rows: EpisodeList) -> None:
    """Check that the result of a piece has finite numbers only; if not, look for the cause in its input columns.

    Raises:
        NonFiniteError: If not; it names the piece, and the first step of the column that is the cause.
    """
    if is_finite(made):
        return
    for source, column in of.items():
        check_finite(piece, source, column, rows)
    raise too_large(piece, " or ".join(of), f"the column {name!r}")


def too_large(piece: str, what: str, made: str) -> NonFiniteError:
    """Return the error to raise if the inputs are finite and the result is not."""
    return NonFiniteError(
        f"{piece}: found numbers in {what} so large that {made} would be infinite, expected numbers with a finite sum. Scale "
        "them first, rewards with `ScaleRewards` for example."
    )


def _where(row: int, column: Ragged, rows: EpisodeList) -> str:
    stretch = int(np.searchsorted(column.offsets, row, side="right")) - 1
    episode = rows.agent_episodes[stretch]
    if rows.is_current:
        return f"episode {episode.id_!r} at its last step"
    return f"episode {episode.id_!r} at row {(row - int(column.offsets[stretch])) * column.every} of its chunk"
