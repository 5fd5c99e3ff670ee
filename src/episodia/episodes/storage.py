"""Where the items of one column live: in a list, in arrays that the column owns and grows, or in borrowed arrays.

A `LookbackBuffer` knows what indices mean; a storage knows positions only, from 0 to its length. All that is handed out is
read-only or in containers of its own, so no reader can change what is stored.

`admit` checks and copies an item without storing it, `push` stores what was admitted and cannot fail: an episode admits all
columns of a step first and then pushes them, so that a refused step changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np

from episodia.errors import ShapeError
from episodia.trees import (
    SCALAR_TYPES,
    batch_length,
    describe,
    freeze,
    fresh,
    holds_exactly,
    is_nested,
    leaves,
    map_batch,
    object_array,
    own,
    own_all,
    own_info,
    stack,
    unstack,
)

# Several places: a slice with bounds within the length, or a list of positions.
Positions: TypeAlias = slice | list[int]


class Storage(ABC):
    """The items of one column, by position."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """Return how many items are stored."""

    @abstractmethod
    def item(self, position: int) -> Any:
        """Return one item."""

    @abstractmethod
    def items(self, positions: Positions) -> list[Any]:
        """Return several items as a list."""

    @abstractmethod
    def batch(self, positions: Positions) -> Any:
        """Return several items as arrays (as a list where items are opaque objects)."""

    @abstractmethod
    def lend(self, positions: slice) -> Any:
        """Return the stored items themselves, a list or a batch, for `push_all` of another storage."""

    @abstractmethod
    def admit(self, item: Any) -> Any:
        """Return a private copy of `item` that can be pushed; raise if it does not fit."""

    @abstractmethod
    def push(self, item: Any) -> None:
        """Store what `admit` returned."""

    @abstractmethod
    def admit_all(self, items: Any) -> Any:
        """Return private copies of `items`, a list or a batch, that can be pushed; raise if one does not fit."""

    @abstractmethod
    def push_all(self, items: Any) -> None:
        """Store what `admit_all` returned, or what a storage that takes the same items lent."""

    @abstractmethod
    def put(self, position: int, item: Any) -> None:
        """Overwrite one item."""

    @abstractmethod
    def replace(self, positions: list[int], items: list[Any]) -> None:
        """Overwrite the items at `positions`, all or none."""

    @abstractmethod
    def delete(self, position: int) -> None:
        """Remove one item."""

    @abstractmethod
    def share(self, positions: slice) -> Storage:
        """Return a storage of some of the items, without a copy; changes of either never show in the other."""


@final
class ListStorage(Storage):
    """Items as they came, of any shape, in a Python list.

    Arrays become read-only when they are first handed out, not when they are stored: most are never read one by one.
    """

    __slots__ = ("_frozen", "_items", "_nested", "push")

    def __init__(self, items: list[Any], *, nested: bool) -> None:
        """Adopt `items`, which must be private copies; `nested` tells whether any of them may be a container."""
        self._items = items
        self._nested = nested
        self._frozen = 0  # how many items, from the first on, are read-only
        # Called at every step, so without a Python frame of its own.
        self.push = items.append

    @classmethod
    def copied(cls, items: Sequence[Any]) -> ListStorage:
        """Return a storage with private copies of `items`."""
        mine = own_all(items)
        return cls(mine, nested=any(map(is_nested, mine)))

    def __len__(self) -> int:
        return len(self._items)

    def item(self, position: int) -> Any:
        if position >= self._frozen:
            self._freeze()
        return fresh(self._items[position]) if self._nested else self._items[position]

    def items(self, positions: Positions) -> list[Any]:
        if self._frozen < len(self._items):
            self._freeze()
        items = self._items[positions] if type(positions) is slice else [self._items[i] for i in positions]  # type: ignore[union-attr]  # a list
        return [fresh(item) for item in items] if self._nested else items

    def _freeze(self) -> None:
        for item in self._items[self._frozen :]:
            if type(item) is np.ndarray:
                item.setflags(write=False)
            elif self._nested:
                freeze(item)
        self._frozen = len(self._items)

    def batch(self, positions: Positions) -> Any:
        return stack(self.items(positions))

    def lend(self, positions: slice) -> Any:
        return self._items[positions]

    def admit(self, item: Any) -> Any:
        # Scalars first, because a call of `own` costs more than all the rest.
        if type(item) in SCALAR_TYPES:
            return item
        item = own(item)
        self._nested = self._nested or is_nested(item)
        return item

    def expect_nested(self) -> None:
        """Be ready for containers that are pushed without having been admitted here."""
        self._nested = True

    def admit_all(self, items: Any) -> Any:
        return own_all(items if isinstance(items, list) else unstack(items))

    def push_all(self, items: Any) -> None:
        if not isinstance(items, list):
            items = unstack(items)
        self._items += items
        self._nested = self._nested or any(map(is_nested, items))

    def put(self, position: int, item: Any) -> None:
        self._items[position] = self.admit(item)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        admitted = [self.admit(item) for item in items]
        for position, item in zip(positions, admitted, strict=True):
            self._items[position] = item

    def delete(self, position: int) -> None:
        del self._items[position]
        self._frozen = min(self._frozen, len(self._items))

    def share(self, positions: slice) -> ListStorage:
        # Nobody writes into the items themselves, so a new list of them is enough.
        return ListStorage(self._items[positions], nested=self._nested)

    def stacked(self, is_object: Any) -> ArrayStorage:
        """Return the items as arrays."""
        return ArrayStorage(stack(self._items, is_object), owned=True)


@final
class ObjectStorage(Storage):
    """Opaque Python objects, such as infos: never stacked, whatever the form of the episode."""

    __slots__ = ("_items", "push")

    def __init__(self, items: list[Any]) -> None:
        """Adopt `items`, which must be private copies."""
        self._items = items
        self.push = items.append

    @classmethod
    def copied(cls, items: Sequence[Any]) -> ObjectStorage:
        """Return a storage with private copies of `items`."""
        return cls([own_info(item) for item in items])

    def __len__(self) -> int:
        return len(self._items)

    def item(self, position: int) -> Any:
        return fresh(self._items[position])

    def items(self, positions: Positions) -> list[Any]:
        items = self._items[positions] if type(positions) is slice else [self._items[i] for i in positions]  # type: ignore[union-attr]  # a list
        return [fresh(item) for item in items]

    def batch(self, positions: Positions) -> Any:
        return self.items(positions)

    def lend(self, positions: slice) -> Any:
        return self._items[positions]

    def admit(self, item: Any) -> Any:
        return own_info(item)

    def admit_all(self, items: Any) -> Any:
        return [own_info(item) for item in items]

    def push_all(self, items: Any) -> None:
        self._items += items

    def put(self, position: int, item: Any) -> None:
        self._items[position] = own_info(item)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        for position, item in zip(positions, items, strict=True):
            self.put(position, item)

    def delete(self, position: int) -> None:
        del self._items[position]

    def share(self, positions: slice) -> ObjectStorage:
        return ObjectStorage(self._items[positions])


@final
class ArrayStorage(Storage):
    """Items as rows of arrays, one array for each leaf of the nesting.

    `_room` are the arrays that rows are appended to, larger than needed (None while the rows are borrowed). `_alias` is what
    readers get: the same memory, read-only. `_shared` is true once someone else reads the same rows: they are copied before
    they are overwritten. Appending needs no copy, because nobody else sees the new rows.
    """

    __slots__ = ("_alias", "_capacity", "_has_objects", "_length", "_room", "_shared")

    def __init__(self, batch: Any, *, owned: bool) -> None:
        """Adopt the arrays of `batch`: as our own, or borrowed (then read-only) from someone who will not change them."""
        self._length = batch_length(batch)
        self._room: Any = batch if owned else None
        self._alias = map_batch(_read_only, batch) if owned else batch
        self._capacity = self._length if owned else 0
        self._has_objects = _has_objects(batch)
        self._shared = not owned

    @classmethod
    def copied(cls, batch: Any) -> ArrayStorage:
        """Return a storage with a private copy of `batch`, arrays or lists that have time as their first axis."""
        return cls(map_batch(_own_column, batch), owned=True)

    def __len__(self) -> int:
        return self._length

    @property
    def arrays(self) -> Any:
        """The read-only arrays; objects in them must not be changed."""
        return self.lend(slice(0, self._length))

    def item(self, position: int) -> Any:
        alias = self._alias
        item = alias[position] if type(alias) is np.ndarray else map_batch(lambda leaf: leaf[position], alias)
        return fresh(item) if self._has_objects else item

    def items(self, positions: Positions) -> list[Any]:
        return unstack(self.batch(positions))

    def batch(self, positions: Positions) -> Any:
        if type(positions) is slice:
            batch = self.lend(positions)
        else:
            rows = np.array(positions, np.intp)
            batch = map_batch(lambda leaf: _frozen(leaf.take(rows, 0)), self._alias)
        return map_batch(_fresh_objects, batch) if self._has_objects else batch

    def lend(self, positions: slice) -> Any:
        alias = self._alias
        return alias[positions] if type(alias) is np.ndarray else map_batch(lambda leaf: leaf[positions], alias)

    def admit(self, item: Any) -> Any:
        item = own(item)
        _check_row(self.arrays, item, "")
        return item

    def push(self, item: Any) -> None:
        if not self._length:
            self._adopt(stack([item], _object_leaves(self._alias)))
            return
        self._reserve(1, map_batch(_dtype_with, self._alias, item))
        row = self._length
        map_batch(lambda leaf, value: leaf.__setitem__(row, value), self._room, item)
        self._length = row + 1

    def admit_all(self, items: Any) -> Any:
        if isinstance(items, list):
            if not items:
                return self.batch(slice(0, 0))
            items = stack(own_all(items), _object_leaves(self._alias))
        self._check_rows(items)
        return items

    def push_all(self, items: Any) -> None:
        count = batch_length(items)
        if not count:
            return
        if not self._length:
            self._adopt(map_batch(_own_column, items))
            return
        self._reserve(count, map_batch(_common_dtype, self._alias, items))
        rows = slice(self._length, self._length + count)
        map_batch(lambda leaf, values: leaf.__setitem__(rows, values), self._room, items)
        self._length = rows.stop

    def put(self, position: int, item: Any) -> None:
        item = self.admit(item)
        self._make_writable(map_batch(_dtype_with, self._alias, item))
        map_batch(lambda leaf, value: leaf.__setitem__(position, value), self._room, item)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        if not positions:
            return
        batch = stack(own_all(items), _object_leaves(self._alias))
        if sorted(positions) == list(range(self._length)):
            # Nothing of the old column remains, so nothing of it has to fit.
            order = np.argsort(positions)
            self._adopt(map_batch(lambda leaf: leaf[order], batch))
            return
        self._check_rows(batch)
        self._make_writable(map_batch(_common_dtype, self._alias, batch))
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
        """Use the arrays `room` from now on, which nobody else has."""
        self._room, self._shared = room, False
        self._alias = map_batch(_read_only, room)
        self._has_objects = _has_objects(room)
        self._capacity = len(room) if type(room) is np.ndarray else batch_length(room)

    def _reserve(self, count: int, dtypes: Any) -> None:
        """Make room for `count` more rows of `dtypes`: amortised, by doubling."""
        needed = self._length + count
        if needed > self._capacity or not _same_dtypes(self._alias, dtypes):
            self._reallocate(max(needed, 2 * self._length), dtypes)

    def _make_writable(self, dtypes: Any) -> None:
        """See to it that rows can be overwritten with values of `dtypes`, and that nobody else sees it."""
        if self._shared or not _same_dtypes(self._alias, dtypes):
            self._reallocate(self._length, dtypes)

    def _reallocate(self, capacity: int, dtypes: Any) -> None:
        self._settle(map_batch(lambda leaf, dtype: _enlarged(leaf, capacity, dtype), self.arrays, dtypes))


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array[...]
    view.setflags(write=False)
    return view


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _own_column(column: Any) -> np.ndarray:
    array = np.asarray(column)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.hasobject:
        return object_array([own(item) for item in array]) if array.ndim == 1 else own(array).copy()  # type: ignore[no-any-return]  # an array
    return np.array(array, dtype=array.dtype.newbyteorder("="), subok=False)


def _has_objects(batch: Any) -> bool:
    return batch.dtype.hasobject if type(batch) is np.ndarray else any(leaf.dtype.hasobject for _, leaf in leaves(batch))


def _fresh_objects(column: np.ndarray) -> np.ndarray:
    """Return `column` with new containers for those that it holds, so that whoever gets it cannot change ours."""
    if not column.dtype.hasobject or SCALAR_TYPES.issuperset(map(type, column.flat)):
        return column
    copy = np.empty(column.shape, object)
    for place in np.ndindex(column.shape):
        copy[place] = fresh(column[place])
    return _frozen(copy)


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


def _same_dtypes(batch: Any, dtypes: Any) -> bool:
    return all(leaf.dtype == dtype for (_, leaf), (_, dtype) in zip(leaves(batch), leaves(dtypes), strict=True))


def _enlarged(column: np.ndarray, capacity: int, dtype: np.dtype[Any]) -> np.ndarray:
    larger = np.empty((capacity, *column.shape[1:]), dtype)
    larger[: len(column)] = column
    return larger


def _check_row(view: Any, item: Any, path: str) -> None:
    """Refuse an item that cannot be a further row: another nesting, another shape, or numbers that find no common dtype."""
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
    """Refuse numbers that cannot be stored in one dtype with those of `column` without changing one of them."""
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
