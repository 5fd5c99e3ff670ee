"""Stacking items into batches, and splitting batches into items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, countOf
from typing import Any

import numpy as np

from episodia.errors import ShapeError
from episodia.trees import PLAIN_DTYPES, SCALAR_TYPES, describe, freeze, is_nested, rebuild_tuple
from episodia.types import Item


def stack(items: list[Item], is_object: Item | None = None) -> Item:
    """Return `items` as one batch: an array, or a dict or tuple of arrays.

    Args:
        items: At least one item; all items have the same nesting.
        is_object: The same nesting with True at leaves that are objects, which are not stacked.

    Raises:
        ShapeError: If items differ in nesting or shape.

    >>> stack([{"x": 1}, {"x": 2}])
    {'x': array([1, 2])}
    """
    kind = type(items[0])
    if kind is np.ndarray and is_object is not True:
        rows = joined_rows(items)
        if rows is not None:
            return rows
    if kind in SCALAR_DTYPES and is_object is not True and countOf(map(type, items), kind) == len(items):
        try:
            return np.fromiter(items, SCALAR_DTYPES[kind], len(items))
        except OverflowError:  # integers beyond 64 bits become objects below
            pass
    return _stack(items, is_object, "")


def _stack(items: list[Any], is_object: Any, path: str) -> Any:
    first = items[0]
    if is_object is True:
        # Getters return the items of an object column without a copy.
        return object_array([freeze(item) for item in items])
    if isinstance(first, dict):
        _check_all(items, path, lambda item: isinstance(item, dict) and item.keys() == first.keys())
        return {
            key: _stack([item[key] for item in items], is_object and is_object[key], f"{path}[{key!r}]")
            for key in first
        }
    if isinstance(first, tuple):
        _check_all(items, path, lambda item: isinstance(item, tuple) and len(item) == len(first))
        columns = zip(*items, strict=True)
        return rebuild_tuple(
            first,
            (
                _stack(list(column), is_object and is_object[position], f"{path}[{position}]")
                for position, column in enumerate(columns)
            ),
        )
    return _stack_leaves(items, path)


def _stack_leaves(items: list[Any], path: str) -> np.ndarray:
    rows = joined_rows(items)
    if rows is not None:
        return rows
    kinds = set(map(type, items))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is np.ndarray and items[0].ndim:
        return _stack_arrays(items, path)
    if kind in SCALAR_DTYPES:
        try:
            return np.fromiter(items, SCALAR_DTYPES[kind], len(items))
        except OverflowError:  # integers beyond 64 bits become objects below
            pass
    if dict in kinds or tuple in kinds:
        _check_all(items, path, lambda item: not is_nested(item))
    try:
        batch = np.array(items)
    except ValueError:  # inhomogeneous
        _check_all(items, path, lambda item: np.shape(item) == np.shape(items[0]))
        raise
    if batch.dtype.kind in "USO":
        return _stack_objects(items, path, batch)
    if kind is None or kind is int:
        _check_promotion(items, batch, path)
    return batch


SCALAR_DTYPES: dict[Any, Any] = {
    float: np.float64,
    int: np.int64,
    bool: np.bool_,
    **{kind: kind for kind in SCALAR_TYPES if issubclass(kind, np.generic)},
}


def _stack_arrays(items: list[np.ndarray], path: str) -> np.ndarray:
    shape, dtype = items[0].shape, items[0].dtype
    # `concatenate` is faster than `np.stack` and `np.array`, and compares all lengths but the first.
    try:
        batch = np.concatenate(items, dtype=dtype, casting="no")
    except ValueError:
        _check_all(items, path, lambda item: item.shape == shape)
        raise
    except TypeError:  # not all of one dtype
        _check_all(items, path, lambda item: item.shape == shape)
        batch = np.array(items)
        if batch.dtype.kind in "US":
            return _stack_objects(items, path, batch)
        _check_promotion(items, batch, path)
        return batch
    if len(set(map(len, items))) > 1:
        _check_all(items, path, lambda item: item.shape == shape)
    batch = batch.reshape(len(items), *shape)
    return batch.astype(object) if dtype.kind in "US" else batch


def joined_rows(items: Sequence[Any], *, alike: bool = False) -> np.ndarray | None:
    """Return `items` as the rows of one new array; None if they are not plain arrays of one shape and dtype.

    Joining bytes takes a third of the time of `np.concatenate`. Above 4 MB the result is None, because NumPy is faster with
    large pages. Checking all items takes longer than joining them; `alike` skips the check.

    >>> joined_rows([np.array([1, 2]), np.array([3, 4])])
    array([[1, 2],
           [3, 4]])
    """
    first, count = items[0], len(items)
    if type(first) is not np.ndarray or first.dtype not in PLAIN_DTYPES:
        return None
    if not (first.ndim and 0 < first.nbytes * count < _LARGE):
        return None
    try:
        if not (alike or count == 1 or _are_alike(items, first)):
            return None
        return np.frombuffer(bytearray().join(items), first.dtype).reshape(count, *first.shape)
    except (AttributeError, BufferError, TypeError, ValueError):  # some items are not arrays, or not contiguous
        return None


def _are_alike(items: Sequence[Any], first: np.ndarray) -> bool:
    shape = first.shape
    if countOf(map(_DTYPE_OF, items), first.dtype) < len(items):
        return False
    if len(shape) != 1:
        return countOf(map(_SHAPE_OF, items), shape) == len(items)
    # Two integers are compared faster than two tuples.
    return countOf(map(_NDIM_OF, items), 1) == countOf(map(len, items), shape[0]) == len(items)


_LARGE = 2**22
_DTYPE_OF, _NDIM_OF, _SHAPE_OF = attrgetter("dtype"), attrgetter("ndim"), attrgetter("shape")


def _stack_objects(items: list[Any], path: str, batch: np.ndarray) -> np.ndarray:
    # NumPy would cut strings to one width and turn numbers beside strings into strings.
    _check_all(items, path, lambda item: np.shape(item) == np.shape(items[0]))
    if batch.ndim == 1:
        return object_array(items)
    return np.array(items, dtype=object)


def _check_all(items: list[Any], path: str, fits: Callable[[Any], bool]) -> None:
    for position, item in enumerate(items):
        if not fits(item):
            raise ShapeError(
                f"found different items{path}: item 0 is {describe(items[0])}, item {position} is "
                f"{describe(item)}. Expected one nesting and one shape in all items of a finalized column. Pad or flatten "
                "them first, or declare a space of variable size (Sequence, Text, Graph)."
            )


def _check_promotion(items: list[Any], batch: np.ndarray, path: str) -> None:
    """Reject a common dtype that cannot hold the items exactly, such as float64 for integers above 2**53."""
    if batch.dtype.kind not in "fc":
        return
    for position, item in enumerate(items):
        if not holds_exactly(batch.dtype, np.asarray(item)):
            raise ShapeError(
                f"found the integer {describe(item)} at item {position}{path}, which floats ({batch.dtype}) cannot hold "
                "exactly; expected one dtype. Cast all items to one dtype first."
            )


def holds_exactly(dtype: np.dtype[Any], values: np.ndarray) -> bool:
    """Tell whether integers keep their values when they are stored as `dtype`; other numbers may be rounded.

    >>> holds_exactly(np.dtype(np.float64), np.array(2**53 + 1))
    False
    """
    if values.dtype.kind not in "iu" or dtype.kind not in "fc":
        return True
    # Python compares integers with floats exactly.
    return bool(values.astype(dtype).real.tolist() == values.tolist())


def object_array(items: list[Any]) -> np.ndarray:
    """Return a one-dimensional object array of `items`, which are not converted."""
    array = np.empty(len(items), object)
    for position, item in enumerate(items):
        array[position] = item
    return array


def unstack(batch: Item) -> list[Item]:
    """Return the items of `batch`, the inverse of `stack`."""
    if isinstance(batch, np.ndarray):
        return list(batch)
    if isinstance(batch, dict):
        columns = [unstack(value) for value in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    columns = [unstack(value) for value in batch]
    return [rebuild_tuple(batch, iter(row)) for row in zip(*columns, strict=True)]
