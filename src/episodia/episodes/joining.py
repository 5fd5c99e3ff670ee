"""The items of one column of many episodes, joined into one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from episodia.episodes.lookback_buffer import LookbackBuffer
from episodia.errors import ShapeError
from episodia.spaces import empty_batch
from episodia.trees import describe, fresh, map_batch, object_array, stack


def joined(columns: Sequence[LookbackBuffer], starts: Sequence[int], stops: Sequence[int]) -> Any:
    """Return the items of each column from its start to its stop, positions with the lookback counted, as one batch."""
    parts = [column.lend(slice(start, stop)) for column, start, stop in zip(columns, starts, stops, strict=True)]
    if not parts:
        return np.empty(0)
    if all(type(part) is list for part in parts):
        return _from_items([item for part in parts for item in part], columns[0])
    filled = [part if type(part) is not list else _from_items(part, columns[0]) for part in parts]
    return _concatenated([part for part in filled if _has_rows(part)] or filled[:1])


def joined_latest(columns: Sequence[LookbackBuffer]) -> Any:
    """Return the last item of each column, as one batch."""
    if not columns:
        return np.empty(0)
    return _from_items([column.get(-1) for column in columns], columns[0])


def _from_items(items: list[Any], like: LookbackBuffer) -> Any:
    if like.holds_objects:
        return object_array([fresh(item) for item in items])
    if not items:
        return np.empty(0) if like.space is None else empty_batch(like.space)
    return stack(items, like.object_leaves)


def _has_rows(part: Any) -> bool:
    while isinstance(part, (dict, tuple)) and part:
        part = next(iter(part.values())) if isinstance(part, dict) else part[0]
    return len(part) > 0


def _concatenated(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    try:
        if type(parts[0]) is np.ndarray:
            return np.concatenate(parts)
        return map_batch(lambda *leaves: np.concatenate(leaves), *parts)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        unlike = next((part for part in parts if describe_row(part) != describe_row(parts[0])), parts[-1])
        raise ShapeError(
            f"found episodes whose items do not fit together: rows of {describe_row(parts[0])} and of {describe_row(unlike)}. "
            "Expected one nesting and one shape in all episodes of a list. List them apart, or map them to other modules."
        ) from error


def describe_row(part: Any) -> str:
    """Return what one row of a batch looks like."""
    return describe(map_batch(lambda leaf: np.empty(leaf.shape[1:], leaf.dtype), part))
