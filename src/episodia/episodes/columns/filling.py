"""Fills: the items before the first step of an episode and after its last item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, final

import numpy as np
from gymnasium import Space, spaces

from episodia.errors import EpisodeError
from episodia.spaces import ARRAY_SPACES, filled_array, fitting, map_space
from episodia.trees import describe, freeze, map_batch
from episodia.types import Item


class _Zeros:
    """Zeros in the dtype of the column; see `ZEROS`."""

    def __repr__(self) -> str:
        return "zeros"

    def __reduce__(self) -> str:
        return "ZEROS"


# Zeros, empty strings, or None for objects: for columns whose dtype is known and whose space is not.
ZEROS: Final = _Zeros()


@final
@dataclass(frozen=True)
class Fills:
    """A fill for each shift of a window: one value for whole items, an item nested like those of the column, or `ZEROS`."""

    items: tuple[Any, ...]

    def runs(self) -> Iterator[tuple[slice, Any]]:
        """Yield neighbouring shifts with the same fill, and the fill."""
        start = 0
        for _, group in groupby(self.items, key=id):
            same = list(group)
            yield slice(start, start + len(same)), same[0]
            start += len(same)


def put(batch: Item, outside: np.ndarray, fill: Item) -> None:
    """Write `fill` to the places `outside`, bool `[N, K]`, of a batch with leaves `[N, K, ...]`.

    Raises:
        EpisodeError: If the column cannot hold it: another nesting or shape, or a number that its dtype would change.
    """
    map_batch(lambda leaf, value: _put(leaf, outside, value), batch, spread(batch, fill))


def _put(leaf: np.ndarray, outside: np.ndarray, fill: Any) -> None:
    if leaf.dtype.hasobject:
        box = np.empty((), object)
        box[()] = None if fill is ZEROS else fill
        leaf[outside] = box
    elif fill is ZEROS:
        leaf[outside] = np.zeros((), leaf.dtype)
    else:
        leaf[outside] = _fitting_item(fill, leaf.dtype, leaf.shape[2:])


def _fitting_item(fill: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if not np.ndim(fill):
        return fitting(fill, dtype)
    item = np.asarray(fill)
    with np.errstate(all="ignore"):
        cast = item.astype(dtype) if item.dtype.kind in "biufc" else item
    # Floats may be rounded, everything else has to stay what it is.
    is_same = dtype.kind in "fc" and item.dtype.kind in "biuf"
    if item.shape != shape or not (is_same or np.array_equal(cast, item)):
        raise EpisodeError(
            f"found the fill {describe(item)}, expected one value, or an item of {dtype}{list(shape)}, as this column has."
        )
    return cast


def spread(batch: Item, fill: Item) -> Any:
    """Return `fill` for each leaf of `batch`, in its nesting.

    Raises:
        EpisodeError: If `fill` is nested in another way.

    >>> spread({"a": 1, "b": (2, 3)}, {"a": 0.5, "b": 7})
    {'a': 0.5, 'b': (7, 7)}
    """
    if isinstance(batch, dict):
        parts = fill if isinstance(fill, Mapping) else dict.fromkeys(batch, fill)
        if parts.keys() == batch.keys():
            return {key: spread(value, parts[key]) for key, value in batch.items()}
    elif isinstance(batch, tuple):
        items = fill if isinstance(fill, tuple) else (fill,) * len(batch)
        if len(items) == len(batch):
            return tuple(map(spread, batch, items))
    else:
        return fill
    raise EpisodeError(
        f"found the fill {describe(fill)}, expected one value, or an item nested like those of this column: {describe(batch)}."
    )


def item_near_zero(space: Space[Any]) -> Any:
    """Return the item of `space` that is closest to zeros: zeros, if they belong to it.

    >>> item_near_zero(spaces.Dict({"gear": spaces.Discrete(3, start=2), "speed": spaces.Box(-1.0, 1.0, (2,))}))
    {'gear': np.int64(2), 'speed': array([0., 0.], dtype=float32)}
    """
    return freeze(map_space(_leaf_near_zero, space))


def _leaf_near_zero(space: Space[Any]) -> Any:
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    if isinstance(space, spaces.Discrete):
        nearest = min(max(int(space.start), 0), int(space.start) + int(space.n) - 1)
        return np.dtype(space.dtype).type(nearest)
    if isinstance(space, spaces.MultiDiscrete):
        last = space.start + space.nvec - 1
        return np.minimum(np.maximum(space.start, 0), last).astype(space.dtype)
    if isinstance(space, ARRAY_SPACES):
        return filled_array(tuple(space.shape or ()), np.dtype(space.dtype), 0)
    return "" if isinstance(space, spaces.Text) else None


def padded(found: np.ndarray, before: int, after: int, fill: Item) -> np.ndarray:
    """Return the rows of `found` with rows of `fill` in front and behind, read-only.

    >>> padded(np.array([1, 2]), 1, 2, fill=0)
    array([0, 1, 2, 0, 0])
    """
    count = len(found)
    padded = np.empty((before + count + after, *found.shape[1:]), found.dtype)
    value = fitting(fill, found.dtype)
    # Unlike an assignment, `fill` takes a container as one object.
    padded[:before].fill(value)
    padded[before : before + count] = found
    padded[before + count :].fill(value)
    padded.setflags(write=False)
    return padded


def filled_like(leaf: Item, fill: Item) -> Any:
    """Return what stands for a missing item like `leaf` in a list, which can hold anything.

    For an array it is an array of its shape, of a wider dtype if that of `leaf` cannot hold the number. Everything else is
    replaced by `fill` itself.

    >>> filled_like(np.array([1, 2]), 9.5), filled_like(3, "skip")
    (array([9.5, 9.5]), 'skip')
    """
    if not isinstance(leaf, np.ndarray):
        return fill
    try:
        return filled_array(leaf.shape, leaf.dtype, fill)
    except EpisodeError:
        value = np.asarray(fill)
        if value.ndim:
            raise
    if leaf.dtype.kind in "biufc" and value.dtype.kind in "biufc":
        return filled_array(leaf.shape, np.result_type(leaf.dtype, value), fill)
    return fill
