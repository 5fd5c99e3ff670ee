"""One column of an episode: some items of the past, then the items of this chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import Space
from numpy import ndarray

from episodia.episodes.columns import indexing
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.buffer_overwriting import BufferOverwriting, as_items
from episodia.episodes.columns.storage import ListStorage, ObjectStorage, Storage
from episodia.episodes.display.episode_tables import buffer_text
from episodia.errors import EpisodeError
from episodia.space_codec import decode_space, encode_space
from episodia.space_rules import SpaceRules, rules_of
from episodia.spaces import as_space, empty_batch, structure_of
from episodia.stacking import joined_rows, stack
from episodia.trees import PLAIN_DTYPES, SCALAR_TYPES, describe, equal, map_batch, private


class LookbackBuffer(BufferOverwriting):
    """A column of items, of which the first `lookback` are the past and index 0 is the first after them.

    A buffer grows as a list of items and is turned into arrays by `finalize`. Readers get lists of items while it is open
    and arrays (nested, for nested items) once it is finalized; arrays are read-only.

    >>> buffer = LookbackBuffer([10, 11, 12, 13], lookback=2)
    >>> buffer
    LookbackBuffer([10, 11] <- lookback(2) | [12, 13])
    >>> buffer[0], buffer[-1], buffer.get(-1, neg_index_as_lookback=True)
    (12, 13, 11)
    >>> buffer.get(slice(-3, 1), neg_index_as_lookback=True, fill=0)
    [0, 10, 11, 12]
    """

    __slots__ = ("free_types", "push", "row_dtype", "row_length", "row_shape")

    # Store what was admitted; this fails only for lack of memory.
    push: Callable[[Any], None]
    # What `admit` would do nothing to, and arrays that it would only copy: a short cut for the most frequent items. Arrays
    # have just this dtype object, as most arrays of one dtype do, and this shape. Without a dtype there is no short cut for
    # arrays; with a dtype and no shape, which is so without a space only, any shape will do. Of vectors also the length is
    # known, which is compared faster than a shape.
    free_types: frozenset[type]
    row_dtype: np.dtype[Any] | None
    row_shape: tuple[int, ...] | None
    row_length: int | None

    def __init__(self, data: Any = None, lookback: int = 0, space: Space[Any] | None = None) -> None:
        """Copy `data`: a list of items, or arrays (nested alike) with time as the first axis for a finalized buffer."""
        lookback = indexing.as_count("lookback", lookback, "buffer")
        space = as_space(space, "space")
        self.finalized = data is not None and not isinstance(data, list)
        self._rules = None
        self._space = space
        self._use(ArrayStorage.copied(data) if self.finalized else ListStorage.copied(data or []))
        self.lookback = min(lookback, len(self._storage))

    @classmethod
    def _adopt(
        cls,
        storage: Storage,
        lookback: int,
        space: Space[Any] | None,
        *,
        finalized: bool,
        rules: SpaceRules | None = None,
    ) -> LookbackBuffer:
        """Return a buffer on `storage` without a copy; the private way in for cuts, slices and recorders."""
        self = cls.__new__(cls)
        self.lookback = lookback
        self.finalized = finalized
        self._space = space
        self._rules = rules
        self._use(storage)
        return self

    def _use(self, storage: Storage) -> None:
        """Store in `storage` from now on."""
        self._storage = storage
        self.push = storage.push
        space = self._space
        if space is None or type(storage) is not ListStorage:
            self.free_types = SCALAR_TYPES if type(storage) is ListStorage else _NO_TYPES
            self.row_dtype = self.row_shape = self.row_length = None
            return
        rules = self._rules
        if rules is None:
            rules = self._rules = rules_of(space)
        self.free_types = rules.free_types
        self.row_dtype, self.row_shape, self.row_length = rules.row_dtype, rules.row_shape, rules.row_length
        if rules.nested:
            storage.expect_nested()

    def admit(self, item: Any) -> Any:
        """Return a private copy of `item` for `push`, after checking its structure, shape and dtype."""
        if type(item) is ndarray and item.dtype is self.row_dtype:
            shape = self.row_shape
            if shape is None or item.shape == shape:
                return item.copy()
        storage = self._storage
        if type(storage) is ListStorage:
            if self._rules is not None:
                storage.alike = False
                return self._rules.admit(item)
            if type(item) is dict and storage._nested:
                return private(item)
            item = storage.admit(item)
            if type(item) is ndarray and item.dtype in PLAIN_DTYPES:
                self.row_dtype = np.dtype(item.dtype.type)
            return item
        if self._space is not None and not storage.holds_objects:
            item = self._rules_of_space().admit(item)
        return storage.admit(item)

    # --- What it holds ----------------------------------------------------------------------------------------------

    @property
    def space(self) -> Space[Any] | None:
        """The space of one item, if it is known."""
        return self._space

    @space.setter
    def space(self, space: Space[Any] | None) -> None:
        self._space = as_space(space, "space")
        self._rules = None
        self._use(self._storage)
        if type(self._storage) is ListStorage:
            self._storage.alike = not len(self._storage)

    @property
    def space_struct(self) -> Any:
        """The leaf spaces of `space` in their nesting."""
        return None if self._space is None else structure_of(self._space)

    @property
    def object_leaves(self) -> Any:
        """The nesting of `space` with True at leaves whose items are not stacked; None without a space."""
        return None if self._space is None else self._rules_of_space().objects

    @property
    def holds_objects(self) -> bool:
        """Whether the items are opaque objects, such as infos, that are never stacked."""
        return self._storage.holds_objects

    # --- Writing ----------------------------------------------------------------------------------------------------

    def append(self, item: Any) -> None:
        """Add a copy of `item` at the end; amortised O(1) also when finalized.

        Raises:
            SpaceError: If the item's structure, shape or dtype is not that of the space.
            ShapeError: If the buffer is finalized and the item has another structure or shape than its rows.
        """
        self.push(self.admit(item))

    def extend(self, items: Any) -> None:
        """Add copies of several items: a list of them, or arrays with time as the first axis."""
        items = as_items(items)
        if self._space is not None and not self._storage.holds_objects:
            items = [self.admit(item) for item in items]
        self._storage.push_all(self._storage.admit_all(items))

    def concat(self, other: LookbackBuffer) -> None:
        """Add the items of `other`, without its lookback."""
        if not isinstance(other, LookbackBuffer):
            raise EpisodeError(f"found {describe(other)}, expected a buffer. Add a list of items with `extend`.")
        self.push_all(self.admit_all(other, 0))

    def admit_all(self, other: LookbackBuffer, start: int) -> Any:
        """Return the items of `other` from index `start` on, checked, for `push_all`."""
        stored = other._storage
        positions = slice(other.lookback + start, len(stored))
        if type(self._storage) is ArrayStorage:
            return self._storage.admit_all(stored.lend(positions))
        if type(stored) is ArrayStorage:
            # Rows become items without a copy. Shared, so that what is set in `other` later does not show in them.
            shared = stored.share(positions)
            return shared.arrays
        return stored.lend(positions)

    def lend(self, positions: slice | None = None) -> Any:
        """Return items as they are stored, all of them by default: arrays, or a list. They must not be changed.

        Positions count from the first item of the lookback.
        """
        return self._storage.lend(slice(0, len(self._storage)) if positions is None else positions)

    def snapshot(self, start: int, stop: int) -> Any:
        """Return the items from index `start` up to `stop`, as `get` does; what is set later does not show in them."""
        positions = slice(self.lookback + start, self.lookback + stop)
        if type(self._storage) is ArrayStorage:
            return self.fork()._pick(positions, False)
        return self._pick(positions, False)  # lists are copied anyway

    def push_all(self, items: Any) -> None:
        """Store what `admit_all` returned; this cannot fail."""
        self._storage.push_all(items)

    def fork(self) -> LookbackBuffer:
        """Return an equal buffer that shares the data until either of them is changed."""
        return self.share(slice(0, len(self._storage)), self.lookback)

    def replace_last(self, item: Any) -> None:
        """Put `item`, checked as by `append`, in the place of the last one."""
        self._storage.put(len(self._storage) - 1, self.admit(item))

    def truncate(self, length: int) -> None:
        """Remove the items from index `length` on."""
        while len(self) > length:
            self.pop()

    def pop(self, index: int = -1) -> None:
        """Remove the item at `index`, an index as in `get`."""
        index = indexing.as_int(index)
        size = len(self._storage)
        position = indexing.position_of(index, size, self.lookback, negative_is_lookback=False)
        if not 0 <= position < size:
            raise self._not_there(index)
        self._storage.delete(position)
        self.lookback -= position < self.lookback

    def finalize(self) -> None:
        """Turn the items into arrays, in place; nothing happens if they are arrays already.

        Raises:
            ShapeError: If items differ in structure or shape.
            SpaceError: If an item lies outside of the space.
        """
        if not self.finalized:
            storage = self.stacked()
            self.check_bounds(storage)
            self.adopt_stacked(storage)

    def stacked(self) -> Storage:
        """Return the storage that a finalized buffer has, without changing this one."""
        storage = self._storage
        if type(storage) is not ListStorage:
            return storage
        if len(storage):
            stored, objects = storage.lend(slice(0, len(storage))), self.object_leaves
            if type(stored) is np.ndarray and objects is not True:
                return ArrayStorage(stored, owned=False)
            rows = joined_rows(stored, alike=True) if self.holds_rows() else None
            return ArrayStorage(stack(list(stored), objects) if rows is None else rows, owned=True)
        return ArrayStorage(np.empty(0) if self._space is None else empty_batch(self._space), owned=True)

    def holds_rows(self) -> bool:
        """Tell whether all items are known to be arrays of one dtype and shape; some that are so are not known to be."""
        storage = self._storage
        return type(storage) is ListStorage and storage.alike and self.row_shape is not None

    def adopt_stacked(self, storage: Storage) -> None:
        """Become finalized on `storage`, which `stacked` returned; this cannot fail."""
        self.finalized = True
        self._storage, self.push = storage, storage.push
        self.free_types = _NO_TYPES
        self.row_dtype = self.row_shape = self.row_length = None

    def check_bounds(self, storage: Storage | None = None) -> None:
        """Check every item, or those of `storage` in their place, against the space, including its bounds.

        Raises:
            SpaceError: Naming the first item that lies outside.
        """
        if self._space is None:
            return
        storage = self.stacked() if storage is None else storage
        if type(storage) is ArrayStorage:
            self.check_batch(storage.arrays)

    def check_batch(self, batch: Any) -> None:
        """Check all items of `batch` as `check_bounds` does those of this buffer."""
        if self._space is not None:
            self._rules_of_space().check_bounds(batch)

    # --- Parts and wholes -------------------------------------------------------------------------------------------

    def share(self, positions: slice, lookback: int) -> LookbackBuffer:
        """Return a buffer of the items at absolute `positions`, without a copy; changes of either never show in the other."""
        return LookbackBuffer._adopt(
            self._storage.share(positions), lookback, self._space, finalized=self.finalized, rules=self._rules
        )

    def __add__(self, other: Any) -> LookbackBuffer:
        """Return a new buffer: a number is added to every item; items of a list or of another buffer are appended."""
        total = self.fork()
        if isinstance(other, LookbackBuffer):
            total.concat(other)
        elif isinstance(other, (int, float, complex, np.number)) and not isinstance(other, bool):
            items = self._storage.items(slice(0, len(self._storage)))
            added = [map_batch(lambda leaf: _sum(leaf, other), item) for item in items]
            if added:
                total._use(ArrayStorage(stack(added), owned=True) if self.finalized else ListStorage.copied(added))
            total.space = None if total._leaves_space() else self._space
        elif isinstance(other, (list, np.ndarray)):
            total.extend(other)
        else:
            return NotImplemented
        return total

    def _leaves_space(self) -> bool:
        try:
            self.check_bounds()
        except EpisodeError:
            return True
        return False

    __hash__ = None  # type: ignore[assignment]  # it changes
    # NumPy would compare an array with a buffer item by item.
    __array_ufunc__ = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LookbackBuffer):
            return NotImplemented
        return (
            self.lookback == other.lookback
            and self.finalized == other.finalized
            and len(self._storage) == len(other._storage)
            and self._space == other._space
            # An emptied column still knows the nesting of its items, a new one does not; neither has any.
            and (not len(self._storage) or equal(self.data, other.data))
        )

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return the buffer as plain data: lists, dicts, arrays and numbers."""
        state = {
            "data": self.snapshot(-self.lookback, len(self)),
            "lookback": self.lookback,
            "finalized": self.finalized,
            "space": encode_space(self._space),
        }
        return {**state, "objects": True} if self._storage.holds_objects else state

    @staticmethod
    def from_state(state: dict[str, Any]) -> LookbackBuffer:
        """Return the buffer that `get_state` described."""
        given: Any = state
        keys = ("data", "lookback", "finalized", "space")
        missing = [key for key in keys if not isinstance(given, dict) or key not in given]
        if missing:
            raise EpisodeError(f"found a buffer's state without {missing}, expected what `get_state()` returns.")
        if type(state["finalized"]) is not bool:
            raise EpisodeError(
                f"found `finalized={describe(state['finalized'])}` in a buffer's state, expected a bool."
            )
        if state.get("objects"):
            infos = ObjectStorage.copied(state["data"])
            return LookbackBuffer._adopt(infos, state["lookback"], None, finalized=state["finalized"])
        buffer = LookbackBuffer(state["data"], state["lookback"], decode_space(state["space"]))
        if state["finalized"] and not buffer.finalized:
            buffer.finalize()
        return buffer

    def __reduce__(self) -> tuple[Any, ...]:
        return LookbackBuffer.from_state, (self.get_state(),)

    def __repr__(self) -> str:
        return buffer_text(self)


InfiniteLookbackBuffer = LookbackBuffer

_NO_TYPES: frozenset[type] = frozenset()


def _sum(leaf: Any, number: Any) -> Any:
    """Return `leaf + number`, in a dtype that holds the sum: no integer wraps around."""
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biufc":
        return leaf + np.asarray(number)
    if isinstance(leaf, (int, float, complex)):
        return leaf + number
    raise EpisodeError(f"cannot add {number!r}: found {describe(leaf)} in the buffer, expected numbers.")
