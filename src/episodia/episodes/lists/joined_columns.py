"""The items of one column of many episodes, joined into one batch."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import Any, cast

import numpy as np

from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.storage import ListStorage
from episodia.errors import ShapeError
from episodia.spaces import empty_batch
from episodia.stacking import joined_rows, object_array, stack
from episodia.trees import describe, fresh, map_batch


def joined(columns: Sequence[LookbackBuffer], starts: Sequence[int], stops: Sequence[int]) -> Any:
    """Return the items of each column from its start to its stop, positions with the lookback counted, as one batch."""
    parts = _parts(columns, starts, stops)
    if not parts:
        return np.empty(0)
    kinds = set(map(type, parts))
    if kinds == {list}:
        return _from_items([item for part in parts for item in part], columns[0])
    if list in kinds:
        parts = [_from_items(part, columns[0]) if type(part) is list else part for part in parts]
    if list(starts) == list(stops):
        return parts[0]
    if any(map(eq, starts, stops)):
        # Columns without items need not know of what kind they would be.
        parts = [part for part, start, stop in zip(parts, starts, stops, strict=True) if start < stop]
    return _concatenated(parts)


def joined_whole(columns: Sequence[LookbackBuffer], counts: list[int]) -> Any:
    """Return all items of each column as one batch, if these are arrays of just so many rows; None if they are not.

    This is how most columns are, and they are joined for each batch, so nothing is done here twice. A column that stores no
    more than it is asked for has no lookback.
    """
    storages = [column.storage for column in columns]
    if set(map(type, storages)) != {ArrayStorage}:
        return None
    arrays = [storage._alias for storage in cast(list[ArrayStorage], storages)]
    if set(map(type, arrays)) != {np.ndarray} or list(map(len, arrays)) != counts or 0 in counts:
        return None
    return _concatenated(arrays)


def joined_with_first(columns: Sequence[LookbackBuffer], starts: list[int], stops: list[int], first: Any) -> Any:
    """Return what `joined` does, with the item `first` in front of each column whose start is -1."""
    parts = _parts(columns, [max(start, 0) for start in starts], stops)
    parts = [_from_items(part, columns[0]) if type(part) is list and part else part for part in parts]
    batches = [part for part in parts if type(part) is not list]

    def joined_leaves(item: Any, *leaves: np.ndarray) -> np.ndarray:
        row = np.asarray(item, leaves[0].dtype)[None] if leaves else np.asarray(item)[None]
        found = iter(leaves)
        pieces = [
            piece
            for part, start in zip(parts, starts, strict=True)
            for piece in (
                *((row,) if start < 0 else ()),
                *(() if type(part) is list else (next(found),)),
            )
        ]
        return np.concatenate(pieces) if pieces else np.empty((0, *row.shape[1:]), row.dtype)

    return map_batch(joined_leaves, first, *batches)


def _parts(columns: Sequence[LookbackBuffer], starts: Sequence[int], stops: Sequence[int]) -> list[Any]:
    """Return the stored items of each column themselves, lists or batches."""
    # Straight from the storages: this is done for each column of each episode of each batch.
    storages = [column.storage for column in columns]
    if set(map(type, storages)) == {ArrayStorage}:
        arrays = [storage._alias for storage in cast(list[ArrayStorage], storages)]
        if set(map(type, arrays)) == {np.ndarray}:
            return [array[start:stop] for array, start, stop in zip(arrays, starts, stops, strict=True)]
    return [storage.lend(slice(start, stop)) for storage, start, stop in zip(storages, starts, stops, strict=True)]


def joined_latest(columns: Sequence[LookbackBuffer]) -> Any:
    """Return the last item of each column, as one batch."""
    if not columns:
        return np.empty(0)
    rows = _latest_rows(columns)
    return _from_items(_latest_items(columns), columns[0]) if rows is None else rows


def _latest_rows(columns: Sequence[LookbackBuffer]) -> Any:
    """Return the last items if all are known to be arrays of one space, as they are while episodes run; else None.

    A module acts on them at every step, so there is one look at each column, and none at the items.
    """
    space, items = columns[0]._space, []
    if columns[0].row_shape is None:
        return None
    for column in columns:
        storage = column.storage
        if type(storage) is not ListStorage or not storage.alike or column._space is not space:
            return None
        items.append(storage.values[-1])
    return joined_rows(items, alike=True)


def _latest_items(columns: Sequence[LookbackBuffer]) -> list[Any]:
    storages = [column.storage for column in columns]
    if set(map(type, storages)) == {ListStorage}:
        lists = cast(list[ListStorage], storages)
        if {storage.nested for storage in lists} == {False}:
            # As they are stored: a batch is made of copies.
            return [storage.values[-1] for storage in lists]
    return [column.get(-1) for column in columns]


def _from_items(items: list[Any], like: LookbackBuffer) -> Any:
    if like.holds_objects:
        return object_array([fresh(item) for item in items])
    if not items:
        return np.empty(0) if like.space is None else empty_batch(like.space)
    return stack(items, like.object_leaves)


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
