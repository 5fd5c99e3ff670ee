"""Keys of sampled steps: a row, and its lap, so that a recycled row is recognised.

The lap of a row is how often it has been claimed. A key is one int64: the lap in the upper 31 bits, the row in the lower 32. It
passes through batches, tensors and processes.
"""

from __future__ import annotations

import numpy as np

from episodia.errors import ReplayError
from episodia.replay.rows.claims import Claims
from episodia.replay.rows.row_index import RowIndex
from episodia.trees import describe
from episodia.types import Item

# Larger buffers have rows that do not fit into a key.
MOST_ROWS = 2**32


def keys_of(rows: np.ndarray, claims: Claims, mark: int) -> np.ndarray:
    """Return the keys that rows had when `claimed` of `claims` was `mark`: int64 [B]."""
    keys: np.ndarray = (claims.laps(rows, mark) << 32) | rows
    return keys


def rows_of_keys(keys: np.ndarray) -> np.ndarray:
    """Return the row of each key: int64 [B]."""
    rows: np.ndarray = keys & (MOST_ROWS - 1)
    return rows


def are_fresh(keys: np.ndarray, index: RowIndex, claims: Claims) -> np.ndarray:
    """Tell which keys belong to steps that are still stored: bool [B]."""
    rows = rows_of_keys(keys)
    fresh: np.ndarray = rows < claims.capacity
    if np.count_nonzero(fresh) < len(fresh):
        rows = np.where(fresh, rows, 0)
    fresh &= keys_of(rows, claims, claims.claimed) == keys
    fresh &= index.are_steps(rows)
    return fresh


def as_keys(keys: Item) -> np.ndarray:
    """Return keys, an array or a tensor, as int64 [B].

    Raises:
        ReplayError: If they cannot be keys.
    """
    found = _as_array("keys", keys)
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise ReplayError(f"found {describe(found)} as keys, expected int64[B]. Pass the column 'keys' of a sample.")
    return found.astype(np.int64, copy=False)


def as_priorities(values: Item, count: int) -> np.ndarray:
    """Return values for `count` keys, an array or a tensor, as float64 [B].

    Raises:
        ReplayError: If there are more or fewer of them, or one is not finite.
    """
    found = _as_array("values", values)
    if found.dtype.kind not in "biuf" or found.shape != (count,):
        raise ReplayError(
            f"found {describe(found)} as values of {count} keys, expected one number for each key. Pass absolute TD errors in "
            "the order of the keys."
        )
    found = found.astype(np.float64, copy=False)
    is_finite = np.isfinite(found)
    if np.count_nonzero(is_finite) < count:
        place = int(np.flatnonzero(~is_finite)[0])
        raise ReplayError(
            f"found {found[place]} as the value of key {place}, expected finite numbers. Look for the step whose TD error is "
            "not finite; nothing was updated."
        )
    return found


def _as_array(what: str, given: Item) -> np.ndarray:
    try:
        return np.asarray(given)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ReplayError(
            f"found {describe(given)} as {what}, which is no array ({error}), expected one number for each step. Pass an array "
            "or `tensor.detach().cpu()`."
        ) from error
