"""Index translation: from an index into a column with a lookback to absolute positions.

A column holds `size` items at the positions `0 .. size - 1`. The first `lookback` of them are the past; index 0 means the
first item after them. All functions are pure and do not know how items are stored.

Positions may lie outside of `0 .. size - 1`: the reader clips, fills or rejects them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from episodia.errors import EpisodeError, IndexTypeError
from episodia.trees import describe, shown

Index: TypeAlias = int | np.integer | Sequence[int] | np.ndarray | slice | None


def position_of(index: int, size: int, lookback: int, negative_is_lookback: bool) -> int:
    """Translate one index.

    Indices from 0 count from the first item after the lookback. Negative ones count from the end, or, with
    `negative_is_lookback`, from the first item after the lookback to the left.

    >>> position_of(-1, size=8, lookback=3, negative_is_lookback=False)
    7
    >>> position_of(-1, size=8, lookback=3, negative_is_lookback=True)
    2
    """
    return index + (size if index < 0 and not negative_is_lookback else lookback)


def positions_of_slice(key: slice, size: int, lookback: int, negative_is_lookback: bool) -> range:
    """Translate a slice into a range of positions, which may reach over both ends.

    Bounds that are left out mean the first and the last item after the lookback, in the direction of the step.

    >>> positions_of_slice(slice(None, None, -1), size=8, lookback=3, negative_is_lookback=False)
    range(7, 2, -1)
    """
    return range(*_bounds(key, size, lookback, negative_is_lookback))


def _bounds(key: slice, size: int, lookback: int, negative_is_lookback: bool) -> tuple[int, int, int]:
    step = 1 if key.step is None else as_int(key.step)
    if step == 0:
        raise EpisodeError(
            "found a slice with step 0, expected another step. Use 1 or more, or a negative step to go back."
        )
    origin_of_negative = lookback if negative_is_lookback else size
    start, stop = key.start, key.stop
    if start is None:
        start = lookback if step > 0 else size - 1
    else:
        start = start if type(start) is int else as_int(start)
        start += origin_of_negative if start < 0 else lookback
    if stop is None:
        stop = size if step > 0 else lookback - 1
    else:
        stop = stop if type(stop) is int else as_int(stop)
        stop += origin_of_negative if stop < 0 else lookback
    return start, stop, step


def positions_of_list(
    indices: Sequence[int] | np.ndarray, size: int, lookback: int, negative_is_lookback: bool
) -> list[int]:
    """Translate a list or an integer array of indices."""
    origin_of_negative = lookback if negative_is_lookback else size
    positions = []
    for index in indices.tolist() if isinstance(indices, np.ndarray) else indices:
        whole = index if type(index) is int else as_int(index)
        positions.append(whole + (origin_of_negative if whole < 0 else lookback))
    return positions


def as_int(index: object) -> int:
    """Return `index` as a Python int; NumPy integers are accepted, bools and floats are not."""
    if type(index) is int:
        return index
    if isinstance(index, (bool, np.bool_)):
        raise _wrong_type(index)
    try:
        return operator.index(index)  # type: ignore[arg-type]  # all other types are rejected below
    except TypeError:
        raise _wrong_type(index) from None


def as_count(name: str, value: object, where: str) -> int:
    """Return `value`, the argument `name`, as a number of steps from 0 up."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise EpisodeError(f"{where}: found `{name}={shown(value)}`, expected a number of steps from 0 up. Pass an int.")


def as_flag(flag: object, name: str = "") -> bool:
    """Return `flag`, the argument `name`, as a bool; 0, 1 and the NumPy forms of these are accepted."""
    if type(flag) is bool:
        return flag
    is_array = isinstance(flag, np.ndarray) and flag.shape == () and flag.dtype.kind in "biu"
    if (is_array or isinstance(flag, (np.bool_, int, np.integer))) and flag in (0, 1):
        return bool(flag)
    where = f"`{name}`: " if name else ""
    raise EpisodeError(f"{where}found {describe(flag)}, expected True or False. Pass `bool(flag)`.")


def is_single(index: object) -> bool:
    """Tell whether `index` means one item: an int of any kind.

    >>> is_single(np.int64(2)), is_single([2]), is_single(slice(2))
    (True, False, False)
    """
    if isinstance(index, (bool, np.bool_)):
        return False
    return type(index) is int or (hasattr(index, "__index__") and not num_axes(index))


def num_axes(index: object) -> int:
    """Return how many axes `index` has as an array; 0 for an int.

    Raises:
        IndexTypeError: If it does not become an array.
    """
    try:
        return np.ndim(index)  # type: ignore[arg-type]  # all other types are rejected below
    except (RuntimeError, TypeError, ValueError):
        raise _wrong_type(index) from None


def as_list(indices: object) -> Sequence[int] | np.ndarray:
    """Return `indices` if it is a list, tuple, range or one-dimensional integer array."""
    if isinstance(indices, np.ndarray):
        if indices.ndim == 1 and (indices.dtype.kind in "iu" or not len(indices)):
            return indices
        raise _wrong_type(indices)
    if isinstance(indices, (list, tuple, range)):
        return indices
    raise _wrong_type(indices)


def _wrong_type(index: object) -> IndexTypeError:
    found = (
        f"an array of {index.dtype}{list(index.shape)}"
        if isinstance(index, np.ndarray)
        else f"{index!r} ({type(index).__name__})"
    )
    return IndexTypeError(
        f"found the index {found}; expected an int, a list or one-dimensional array of ints, a slice or None. "
        "Turn a boolean mask into indices with `np.flatnonzero(mask)`."
    )


def clip_slice(key: slice, size: int, lookback: int, negative_is_lookback: bool) -> slice:
    """Translate a slice into a slice of positions, clipped to `0 .. size - 1` as Python clips slices of lists.

    The result has no negative bounds.

    >>> clip_slice(slice(-100, 3, 2), size=8, lookback=3, negative_is_lookback=False)
    slice(0, 6, 2)
    """
    start, stop, step = _bounds(key, size, lookback, negative_is_lookback)
    if step > 0:
        # Calls of `min` and `max` would take longer than all the rest.
        start = start if start > 0 else 0  # noqa: FURB136
        stop = stop if stop < size else size  # noqa: FURB136
        return slice(start, stop if stop > 0 else 0, step)  # noqa: FURB136
    return as_slice(range(min(start, size - 1), max(stop, -1), step))


def split(positions: range, size: int) -> tuple[int, range, int]:
    """Split `positions` into how many lie before, which lie inside, and how many lie after `0 .. size - 1`.

    "Before" and "after" are meant in the order of the range.

    >>> split(range(-3, 9, 2), 4)
    (2, range(1, 5, 2), 2)
    """
    if positions.step < 0:
        after, inside, before = split(positions[::-1], size)
        return before, inside[::-1], after
    count, start, step = len(positions), positions.start, positions.step
    before = min(count, max(0, -(start // step)))
    up_to = min(count, max(0, -((start - size) // step)))
    return before, positions[before:up_to], count - up_to


def as_slice(positions: range) -> slice:
    """Return the slice that picks `positions`, none of which is negative, from a sequence."""
    if not positions:
        return slice(0, 0)
    stop = positions.stop
    return slice(positions.start, stop if stop >= 0 else None, positions.step)


def with_int_bounds(key: slice, where: str) -> slice:
    """Return `key` with Python ints as bounds; reject other bounds, and a step of 0."""
    try:
        key = slice(*(None if bound is None else as_int(bound) for bound in (key.start, key.stop, key.step)))
    except IndexTypeError as error:
        raise IndexTypeError(f"{where}: {error}") from error
    if key.step == 0:
        raise EpisodeError(f"{where}: found a slice with step 0, expected a step of 1 or more.")
    return key
