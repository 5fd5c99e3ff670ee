"""Rows of the batches that vector environments return, nested as their space is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.spaces import ARRAY_SPACES


def taken_rows(space: Space[Any], batch: Any, lanes: Sequence[int]) -> Any:
    """Return the batch of some lanes: a copy.

    >>> taken_rows(spaces.Discrete(9), np.array([5, 6, 7]), [2, 0])
    array([7, 5])
    """
    return _mapped(space, lambda leaf: leaf[list(lanes)], lambda items: tuple(items[lane] for lane in lanes), batch)


def with_rows(space: Space[Any], batch: Any, lanes: Sequence[int], items: Sequence[Any]) -> Any:
    """Return a copy of `batch` that has `items` in the rows of `lanes`.

    >>> with_rows(spaces.Discrete(9), np.array([5, 6, 7]), [1], [0])
    array([5, 0, 7])
    """
    if isinstance(space, spaces.Dict):
        return {
            key: with_rows(child, batch[key], lanes, [item[key] for item in items])
            for key, child in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(
            with_rows(child, batch[position], lanes, [item[position] for item in items])
            for position, child in enumerate(space.spaces)
        )
    if isinstance(space, ARRAY_SPACES):
        changed = np.array(batch)
        for lane, item in zip(lanes, items, strict=True):
            changed[lane] = item
        return changed
    listed = list(batch)
    for lane, item in zip(lanes, items, strict=True):
        listed[lane] = item
    return tuple(listed)


def _mapped(space: Space[Any], array: Callable[[Any], Any], items: Callable[[Any], Any], batch: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _mapped(child, array, items, batch[key]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_mapped(child, array, items, batch[position]) for position, child in enumerate(space.spaces))
    return array(batch) if isinstance(space, ARRAY_SPACES) else items(batch)
