"""Storage of the items of one column: a list, or (`array_storage.py`) arrays that are owned and grown, or borrowed.

A `LookbackBuffer` knows what indices mean; a storage knows positions only, from 0 to its length. Readers get read-only
arrays and new containers, so they cannot change stored items.

`admit` checks and copies an item without storing it; `push` stores an admitted item, and fails only for lack of memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import islice
from operator import attrgetter, countOf
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numpy import ndarray

from episodia.stacking import joined_rows, object_array, stack, unstack
from episodia.trees import PLAIN_DTYPES, SCALAR_TYPES, freeze, fresh, frozen, own_info, private, private_all
from episodia.types import Item

# Several places: a slice with bounds within the length, or a list of positions.
Positions: TypeAlias = slice | list[int]


class Storage(ABC):
    """The items of one column, by position."""

    __slots__ = ()

    # Whether the items are opaque objects, such as infos, that are never stacked.
    holds_objects: ClassVar[bool] = False
    # Stores an item that `admit` returned. Called at every step of every episode, so a list's own `append` where possible.
    push: Callable[[Any], None]

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
    def admit(self, item: Item) -> Any:
        """Return a private copy of `item` that can be pushed; raise if it does not fit."""

    @abstractmethod
    def admit_all(self, items: Item) -> Any:
        """Return private copies of `items`, a list or a batch, that can be pushed; raise if one does not fit."""

    @abstractmethod
    def push_all(self, items: Item) -> None:
        """Store what `admit_all` returned, or what a storage that takes the same items lent."""

    @abstractmethod
    def put(self, position: int, item: Item) -> None:
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

    Arrays become read-only when they are first read, not when they are stored: most are never read one by one. Arrays
    of one kind that came all at once are copied into one, and become a list when the first of them is read or changed: by
    then, most have been finalized.

    While `alike` is true, all items came one by one, and each fits the column's space exactly. If these are arrays of one
    shape (`LookbackBuffer.row_shape`), all items have this shape and its dtype. Items that are added in another way are not
    checked, and make `alike` false.
    """

    __slots__ = ("alike", "nested", "num_frozen", "push", "values")

    def __init__(self, items: list[Any] | np.ndarray, *, nested: bool) -> None:
        """Adopt `items`, which must be private copies; `nested` tells whether any of them may be a container.

        An array of items must be read-only, and must not be empty.
        """
        self.values: Any = items
        self.nested = nested
        self.num_frozen = 0  # how many items, from the first on, are read-only
        self.alike = not len(items)
        # Called at every step, so it must not need a Python frame.
        self.push = items.append if isinstance(items, list) else self._push_to_list

    @classmethod
    def copied(cls, items: Sequence[Any]) -> ListStorage:
        """Return a storage with private copies of `items`."""
        rows = joined_rows(items) if items else None
        if rows is not None:
            return cls(frozen(rows), nested=False)
        if _are_scalars(items):
            return cls(list(items), nested=False)
        mine = [private(item) for item in items]
        return cls(mine, nested=may_nest(mine))

    def __len__(self) -> int:
        return len(self.values)

    def item(self, position: int) -> Any:
        if position >= self.num_frozen:
            self._freeze()
        return fresh(self.values[position])

    def items(self, positions: Positions) -> list[Any]:
        if self.num_frozen < len(self.values):
            self._freeze()
        items = self.values[positions] if type(positions) is slice else [self.values[i] for i in positions]
        # Read-only arrays leave in lists as they are: a view of each takes thirty times as long as the list itself.
        return [fresh(item) for item in items] if self.nested else items

    def _list(self) -> list[Any]:
        """Return the items, from now on in a list."""
        if type(self.values) is not list:
            self.values = list(self.values)
            self.push = self.values.append
        return self.values

    def push_row(self, item: Any) -> None:
        """Add an item; to one that is read-only already, nothing is left to be done when it is read."""
        self.push(item)
        if type(item) is ndarray and not item.flags.writeable and self.num_frozen == len(self.values) - 1:
            self.num_frozen += 1

    def _push_to_list(self, item: Any) -> None:
        self._list().append(item)

    def _freeze(self) -> None:
        for item in self._list()[self.num_frozen :]:
            if type(item) is ndarray:
                item.setflags(write=False)
            elif self.nested:
                freeze(item)
        self.num_frozen = len(self.values)

    def batch(self, positions: Positions) -> Any:
        return stack(self.items(positions))

    def lend(self, positions: slice) -> Any:
        return self.values[positions]

    def admit(self, item: Item) -> Any:
        kind = type(item)
        if kind in SCALAR_TYPES:
            return item
        if kind is np.ndarray and item.dtype in PLAIN_DTYPES:
            return item.copy()
        item = private(item)
        if not self.nested:
            self.nested = may_nest([item])
        return item

    def expect_nested(self) -> None:
        """Expect containers that are pushed without `admit`."""
        self.nested = True

    def admit_all(self, items: Item) -> Any:
        return private_all(items if isinstance(items, list) else unstack(items))

    def push_all(self, items: Item) -> None:
        if not isinstance(items, list):
            items = unstack(items)
        self._list().extend(items)
        self.alike = False
        self.nested = self.nested or may_nest(items)

    def put(self, position: int, item: Item) -> None:
        items = self.values if type(self.values) is list else self._list()
        self.alike = False
        if type(item) is ndarray and item.dtype in PLAIN_DTYPES:
            items[position] = item = item.copy()
            if position < self.num_frozen:
                item.setflags(write=False)
        else:
            items[position] = item = self.admit(item)
            if position < self.num_frozen:
                freeze(item)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        mine, admitted = self._list(), [self.admit(item) for item in items]
        self.alike = False
        for position, item in zip(positions, admitted, strict=True):
            mine[position] = item
            if position < self.num_frozen:
                freeze(item)

    def delete(self, position: int) -> None:
        del self._list()[position]
        self.num_frozen -= position < self.num_frozen

    def share(self, positions: slice) -> ListStorage:
        # Items are never written into, so a new list of them is enough.
        items = self.values[positions]
        shared = ListStorage(items if len(items) else [], nested=self.nested)
        if self.num_frozen >= len(self.values):
            shared.num_frozen = len(shared)
        shared.alike = self.alike or shared.alike
        return shared


def _are_scalars(items: Sequence[Any]) -> bool:
    """Tell whether all `items` are immutable leaves, which need no copy."""
    # Most columns have items of one type, and counting is faster than making a set.
    if items and type(items[0]) in SCALAR_TYPES and countOf(map(type, items), type(items[0])) == len(items):
        return True
    return SCALAR_TYPES.issuperset(map(type, items))


def may_nest(items: Sequence[Any]) -> bool:
    """Tell whether any of `items` is, or holds, a container."""
    kinds = set(map(type, items))
    if np.ndarray in kinds and len(kinds) == 1:
        return any(dtype.hasobject for dtype in set(map(_DTYPE_OF, items)))
    return not SCALAR_TYPES.issuperset(kinds)


_DTYPE_OF = attrgetter("dtype")


# An info without an entry. All such infos of an episode are this dict: readers get copies, so it stays empty.
NO_INFO: dict[Any, Any] = {}
# More empty infos than an episode can have. A slice of them takes no memory, because each of them is the same element.
_NO_INFOS = np.broadcast_to(object_array([NO_INFO]), 2**48)


class ObjectStorage(Storage):
    """Opaque Python objects, such as infos: never stacked, whatever the form of the episode.

    Most infos are empty. Stored ones never change, so the first `_num_empty` of them are looked at only once. If all are
    empty when an episode is copied or finalized, only their number takes memory, until one is added or changed.

    Not final, because recorded infos (`vector_infos.py`) are the same thing, made later.
    """

    __slots__ = ("_items", "_num_empty", "push")

    holds_objects = True

    def __init__(self, items: list[Any] | np.ndarray) -> None:
        """Adopt `items`, which must be private copies, or what `compact` returned."""
        self._items: Any = items
        self._num_empty = 0 if isinstance(items, list) else len(items)
        self.push = items.append if isinstance(items, list) else self._push_to_list

    @classmethod
    def copied(cls, items: Sequence[Any], copy: Callable[[Any], Any] = own_info) -> ObjectStorage:
        """Return a storage with private copies of `items`, each made by `copy`."""
        return cls(compact([copy(item) for item in items]))

    @classmethod
    def of_empty(cls, count: int) -> ObjectStorage:
        """Return a storage of `count` infos without an entry."""
        return cls(_NO_INFOS[:count])

    def compact(self) -> ObjectStorage:
        """Return a storage of the same items, in little memory if all are empty."""
        return ObjectStorage(compact(self._items))

    def _list(self) -> list[Any]:
        """Return the items, from now on in a list."""
        if type(self._items) is not list:
            self._items = self._items.tolist()
        return self._items

    def _push_to_list(self, item: Any) -> None:
        self._list().append(item)

    def __len__(self) -> int:
        return len(self._items)

    def item(self, position: int) -> Any:
        return fresh(self._items[position])

    def items(self, positions: Positions) -> list[Any]:
        items = self._items[positions] if type(positions) is slice else [self._items[i] for i in positions]
        try:
            if self._are_empty():
                return list(map(dict.copy, items))
        except (TypeError, ValueError):  # some are not dicts
            pass
        return list(map(fresh, items))

    def _are_empty(self) -> bool:
        items, known = self._items, self._num_empty
        if known < len(items):
            if any(islice(items, known, None)):
                return False
            self._num_empty = len(items)
        return True

    def batch(self, positions: Positions) -> Any:
        return self.items(positions)

    def lend(self, positions: slice) -> Any:
        return list(self._items[positions])

    def admit(self, item: Item) -> Any:
        return own_info(item)

    def admit_all(self, items: Item) -> Any:
        return [own_info(item) for item in items]

    def push_all(self, items: Item) -> None:
        self._list().extend(items)

    def put(self, position: int, item: Item) -> None:
        self._list()[position] = own_info(item)
        self._num_empty = min(self._num_empty, position)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        for position, item in zip(positions, items, strict=True):
            self.put(position, item)

    def delete(self, position: int) -> None:
        del self._list()[position]
        self._num_empty = min(self._num_empty, position)

    def share(self, positions: slice) -> ObjectStorage:
        return ObjectStorage(self._items[positions])


def compact(infos: Any) -> Any:
    """Return `infos`, in an array that takes no memory if all of them are empty dicts.

    >>> len(compact([{}] * 3)), type(compact([{}] * 3)), compact([{}, {"lives": 2}])
    (3, <class 'numpy.ndarray'>, [{}, {'lives': 2}])
    """
    if countOf(map(type, infos), dict) == len(infos) and not any(infos):
        return _NO_INFOS[: len(infos)]
    return infos
