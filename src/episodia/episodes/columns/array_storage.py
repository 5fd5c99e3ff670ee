"""Columns stored as rows of arrays: owned and growing, or borrowed from the arrays of another object."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any, final

import numpy as np

from episodia.episodes.columns.storage import Positions, Storage
from episodia.errors import ShapeError
from episodia.stacking import holds_exactly, object_array, stack, unstack
from episodia.trees import as_rows, batch_length, describe, fresh, frozen, is_nested, leaves, map_batch, own, own_all
from episodia.types import Item


@final
class ArrayStorage(Storage):
    """Items as rows of arrays, one array for each leaf of the nesting.

    `_room` are the arrays that rows are appended to, larger than needed (None while the rows are borrowed). `alias` is what
    readers get: the same memory, read-only. `_shared` is true once another storage reads the same rows: rows are copied before
    they are overwritten. Appending needs no copy, because no other reader sees the new rows.
    """

    __slots__ = ("_capacity", "_has_objects", "_length", "_room", "_shared", "alias")

    def __init__(self, batch: Item, *, owned: bool) -> None:
        """Adopt the arrays of `batch`: owned, or borrowed (then read-only) from an object that does not change them."""
        self._length = batch_length(batch)
        self._room: Any = batch if owned else None
        self.alias = map_batch(_read_only, batch) if owned else batch
        self._capacity = self._length if owned else 0
        self._has_objects = _has_objects(batch)
        self._shared = not owned

    @classmethod
    def copied(cls, batch: Item) -> ArrayStorage:
        """Return a storage with a private copy of `batch`, arrays or lists that have time as their first axis."""
        return cls(map_batch(_own_column, batch), owned=True)

    @classmethod
    def in_rows_of(cls, array: np.ndarray, lengths: Iterable[int]) -> list[ArrayStorage]:
        """Return storages that borrow successive rows, as many as `lengths` say, of an array of numbers."""
        array.setflags(write=False)
        offsets = accumulate(lengths, initial=0)
        return [cls._borrowing(array[start:stop], stop - start) for start, stop in pairwise(offsets)]

    @classmethod
    def _borrowing(cls, rows: np.ndarray, count: int) -> ArrayStorage:
        """Return a storage that borrows `count` rows of numbers, of which nothing has to be found out."""
        self = cls.__new__(cls)
        self._length, self.alias = count, rows
        self._room, self._capacity = None, 0
        self._has_objects, self._shared = False, True
        return self

    def __len__(self) -> int:
        return self._length

    @property
    def arrays(self) -> Any:
        """The read-only arrays; objects in them must not be changed."""
        return self.lend(slice(0, self._length))

    def item(self, position: int) -> Any:
        alias = self.alias
        item = alias[position] if type(alias) is np.ndarray else map_batch(lambda leaf: leaf[position], alias)
        return fresh(item) if self._has_objects else item

    def items(self, positions: Positions) -> list[Any]:
        return unstack(self.batch(positions))

    def batch(self, positions: Positions) -> Any:
        if type(positions) is slice:
            batch = self.lend(positions)
        else:
            rows = np.array(positions, np.intp)
            batch = map_batch(lambda leaf: frozen(leaf.take(rows, 0)), self.alias)
        return map_batch(fresh, batch) if self._has_objects else batch

    def lend(self, positions: slice) -> Any:
        alias = self.alias
        return alias[positions] if type(alias) is np.ndarray else map_batch(lambda leaf: leaf[positions], alias)

    def admit(self, item: Item) -> Any:
        item = own(item)
        _check_row(self.arrays, item, "")
        return item

    def push(self, item: Item) -> None:
        if not self._length:
            self._adopt(stack([item], _object_leaves(self.alias)))
            return
        row = self._length
        if row < self._capacity and type(self.alias) is np.ndarray and _is_like(self.alias, item):
            self._room[row] = item
            self._length = row + 1
            return
        self._reserve(1, map_batch(_dtype_with, self.alias, item))
        map_batch(lambda leaf, value: leaf.__setitem__(row, value), self._room, item)
        self._length = row + 1

    def admit_all(self, items: Item) -> Any:
        alias = self.alias
        if (
            type(items) is type(alias) is np.ndarray
            and items.dtype == alias.dtype
            and items.shape[1:] == alias.shape[1:]
        ):
            return items
        if isinstance(items, list):
            if not items:
                return self.batch(slice(0, 0))
            items = stack(own_all(items), _object_leaves(self.alias))
        self._check_rows(items)
        return items

    def push_all(self, items: Item) -> None:
        count = batch_length(items)
        if not count:
            return
        if not self._length:
            self._adopt(map_batch(_own_column, items))
            return
        rows = slice(self._length, self._length + count)
        self._reserve(count, map_batch(_common_dtype, self.alias, items))
        map_batch(lambda leaf, values: leaf.__setitem__(rows, values), self._room, items)
        self._length = rows.stop

    def put(self, position: int, item: Item) -> None:
        alias = self.alias
        if type(alias) is np.ndarray and not (self._shared or self._has_objects) and _is_like(alias, item):
            self._room[position] = item
            return
        item = self.admit(item)
        self._make_writable(map_batch(_dtype_with, self.alias, item))
        map_batch(lambda leaf, value: leaf.__setitem__(position, value), self._room, item)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        if not positions:
            return
        batch = stack(own_all(items), _object_leaves(self.alias))
        if sorted(positions) == list(range(self._length)):
            # The old column is replaced as a whole, so its items need not fit.
            order = np.argsort(positions)
            self._adopt(map_batch(lambda leaf: leaf[order], batch))
            return
        self._check_rows(batch)
        self._make_writable(map_batch(_common_dtype, self.alias, batch))
        map_batch(lambda leaf, values: leaf.__setitem__(positions, values), self._room, batch)

    def delete(self, position: int) -> None:
        self._adopt(map_batch(lambda leaf: np.delete(leaf, position, axis=0), self.arrays))

    def share(self, positions: slice) -> ArrayStorage:
        self._shared = True
        return ArrayStorage(self.lend(positions), owned=False)

    def _check_rows(self, batch: Any) -> None:
        if batch_length(batch):
            # One row shows nesting, shape and dtype of all of them.
            _check_row(self.arrays, map_batch(lambda leaf: leaf[0], batch), "")
            if self._length:
                map_batch(lambda column, rows: _check_exact(column, rows, ""), self.arrays, batch)

    def _adopt(self, batch: Any) -> None:
        self._length = batch_length(batch)
        self._settle(batch)

    def _settle(self, room: Any) -> None:
        """Store in the arrays `room`, which no other object holds."""
        self._room, self._shared = room, False
        self.alias = map_batch(_read_only, room)
        self._has_objects = _has_objects(room)
        self._capacity = len(room) if type(room) is np.ndarray else batch_length(room)

    def _reserve(self, count: int, dtypes: Any) -> None:
        """Make room for `count` more rows of `dtypes`: amortised, by doubling."""
        needed = self._length + count
        if needed > self._capacity or not _same_dtypes(self.alias, dtypes):
            self._reallocate(max(needed, 2 * self._length), dtypes)

    def _make_writable(self, dtypes: Any) -> None:
        """Copy the rows if other storages read them, or if values of `dtypes` do not fit."""
        if self._shared or not _same_dtypes(self.alias, dtypes):
            self._reallocate(self._length, dtypes)

    def _reallocate(self, capacity: int, dtypes: Any) -> None:
        self._settle(map_batch(lambda leaf, dtype: _enlarged(leaf, capacity, dtype), self.arrays, dtypes))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array[...]
    view.setflags(write=False)
    return view


def _own_column(column: Any) -> np.ndarray:
    array = as_rows(column)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.hasobject:
        return object_array([own(item) for item in array]) if array.ndim == 1 else own(array).copy()
    return np.array(array, dtype=array.dtype.newbyteorder("="), subok=False)


def _has_objects(batch: Any) -> bool:
    return (
        batch.dtype.hasobject if type(batch) is np.ndarray else any(leaf.dtype.hasobject for _, leaf in leaves(batch))
    )


def _object_leaves(batch: Any) -> Any:
    return map_batch(lambda leaf: bool(leaf.dtype.hasobject and leaf.ndim == 1) or None, batch)


def _dtype_with(column: np.ndarray, item: Any) -> np.dtype[Any]:
    """Return the dtype in which `column` and one more item can be stored."""
    if column.dtype.hasobject or (isinstance(item, (np.ndarray, np.generic)) and item.dtype == column.dtype):
        return column.dtype
    return _common_dtype(column, np.asarray(item))


def _common_dtype(column: np.ndarray, other: np.ndarray) -> np.dtype[Any]:
    if other.dtype == column.dtype:
        return column.dtype
    if not (column.dtype.kind in "biufc" and other.dtype.kind in "biufc"):
        return np.dtype(object)
    return np.result_type(column.dtype, other.dtype)


def _is_like(column: np.ndarray, item: Any) -> bool:
    """Tell whether `item` is an array just like the rows of `column`."""
    return type(item) is np.ndarray and item.dtype == column.dtype and item.shape == column.shape[1:]


def _same_dtypes(batch: Any, dtypes: Any) -> bool:
    return all(leaf.dtype == dtype for (_, leaf), (_, dtype) in zip(leaves(batch), leaves(dtypes), strict=True))


def _enlarged(column: np.ndarray, capacity: int, dtype: np.dtype[Any]) -> np.ndarray:
    larger = np.empty((capacity, *column.shape[1:]), dtype)
    larger[: len(column)] = column
    return larger


def _check_row(view: Any, item: Any, path: str) -> None:
    """Reject an item that cannot become a row: its nesting or shape differs, or its numbers have no common dtype."""
    if isinstance(view, dict):
        fits = isinstance(item, dict) and item.keys() == view.keys()
    elif isinstance(view, tuple):
        fits = isinstance(item, tuple) and len(item) == len(view)
    else:
        fits = _is_row(view, item, path)
    if not fits:
        expected = describe(map_batch(lambda leaf: leaf[0] if len(leaf) else leaf, view))
        raise ShapeError(
            f"found an item{path} of {describe(item)}, expected one like {expected}: the rows of a finalized column have one "
            "nesting and one shape. Reshape it, or keep the episode growing."
        )
    if isinstance(view, dict):
        for key in view:
            _check_row(view[key], item[key], f"{path}[{key!r}]")
    elif isinstance(view, tuple):
        for position, part in enumerate(view):
            _check_row(part, item[position], f"{path}[{position}]")


def _is_row(column: np.ndarray, item: Any, path: str) -> bool:
    if not len(column) or (column.dtype.hasobject and column.ndim == 1):
        return True
    if is_nested(item) or np.shape(item) != column.shape[1:]:
        return False
    _check_exact(column, np.asarray(item), path)
    return True


def _check_exact(column: np.ndarray, values: np.ndarray, path: str) -> None:
    """Reject numbers that no dtype can hold exactly together with those of `column`."""
    if values.dtype == column.dtype or column.dtype.hasobject:
        return
    common = _common_dtype(column, values)
    if not (holds_exactly(common, column) and holds_exactly(common, values)):
        raise ShapeError(
            f"found {values.dtype} {_shown(values)}{path} in a column of {column.dtype}, expected numbers that one dtype can "
            f"hold: {common} cannot hold all of these integers exactly. Convert the column or the values first."
        )


def _shown(values: np.ndarray) -> str:
    return str(values) if values.size == 1 else describe(values)
