"""One column of an episode: some items of the past, then the items of this chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
from gymnasium import Space
from numpy import ndarray

from episodia.episodes.columns import indexing
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.filling import filled_like, padded
from episodia.episodes.columns.indexing import Index
from episodia.episodes.columns.items_copy import ItemsCopy
from episodia.episodes.columns.rewards import REWARD_SPACE
from episodia.episodes.columns.storage import ListStorage, ObjectStorage, Positions, Storage
from episodia.episodes.display.episode_tables import buffer_text
from episodia.errors import EpisodeError, EpisodeIndexError
from episodia.space_codec import decode_space, encode_space
from episodia.space_rules import SpaceRules, rules_of
from episodia.spaces import (
    as_space,
    check_one_value,
    empty_batch,
    filled_array,
    filled_item,
    one_hot,
    one_hot_space,
    structure_of,
)
from episodia.stacking import joined_rows, stack, unstack
from episodia.trees import (
    PLAIN_DTYPES,
    SCALAR_TYPES,
    as_rows,
    batch_length,
    describe,
    equal,
    fresh,
    frozen,
    map_batch,
    private,
)
from episodia.types import Item

# The watch that notes columns that are written; None without a watch. See `watched_columns.py`.
WRITTEN: ContextVar[list[LookbackBuffer] | None] = ContextVar("episodia_written_columns", default=None)


class LookbackBuffer:
    """A column of items, of which the first `lookback` are the past and index 0 is the first after them.

    A buffer grows as a list of items and is turned into arrays by `finalize`. Readers get lists of items while it is open
    and arrays (nested, for nested items) once it is finalized; arrays are read-only.

    Not final, because a column that waits for its first reader (`watched_columns.py`) is the same thing.

    >>> buffer = LookbackBuffer([10, 11, 12, 13], lookback=2)
    >>> buffer
    LookbackBuffer([10, 11] <- lookback(2) | [12, 13])
    >>> buffer[0], buffer[-1], buffer.get(-1, neg_index_as_lookback=True)
    (12, 13, 11)
    >>> buffer.get(slice(-3, 1), neg_index_as_lookback=True, fill=0)
    [0, 10, 11, 12]
    """

    __slots__ = (
        "_rules",
        "_space",
        "finalized",
        "free_types",
        "lookback",
        "push",
        "row_dtype",
        "row_length",
        "row_shape",
        "storage",
    )

    _rules: SpaceRules | None
    _space: Space[Any] | None
    storage: Storage
    finalized: bool
    lookback: int

    # Stores an admitted item; fails only for lack of memory.
    push: Callable[[Any], None]
    # Types that `admit` returns unchanged, and the arrays that it only copies, so that the most frequent items skip it.
    # Such arrays have this very dtype object, as most arrays of one dtype do, and this shape. `row_dtype` is None if arrays
    # need `admit`; `row_shape` is None if any shape fits, which is the case without a space. `row_length` is the length of
    # vectors, because comparing lengths is faster than comparing shapes.
    free_types: frozenset[type]
    row_dtype: np.dtype[Any] | None
    row_shape: tuple[int, ...] | None
    row_length: int | None

    def __init__(self, data: Item = None, lookback: int = 0, space: Space[Any] | None = None) -> None:
        """Copy `data`: a list of items, or arrays (nested alike) with time as the first axis for a finalized buffer."""
        lookback = indexing.as_count("lookback", lookback, "buffer")
        space = as_space(space, "space")
        self.finalized = data is not None and not isinstance(data, list)
        self._rules = None
        self._space = space
        self.use(ArrayStorage.copied(data) if self.finalized else ListStorage.copied(data or []))
        self.lookback = min(lookback, len(self.storage))

    @classmethod
    def adopt(
        cls,
        storage: Storage,
        lookback: int,
        space: Space[Any] | None,
        *,
        finalized: bool,
        rules: SpaceRules | None = None,
    ) -> LookbackBuffer:
        """Return a buffer on `storage` without a copy; for cuts, slices and recorders."""
        self = cls.__new__(cls)
        self.lookback = lookback
        self.finalized = finalized
        self._space = space
        self._rules = rules
        self.use(storage)
        return self

    def use(self, storage: Storage) -> None:
        """Store in `storage` from now on."""
        self.storage = storage
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

    def admit(self, item: Item) -> Any:
        """Return a private copy of `item` for `push`, after checking its structure, shape and dtype."""
        if type(item) is ndarray and item.dtype is self.row_dtype:
            shape = self.row_shape
            if shape is None or item.shape == shape:
                return item.copy()
        storage = self.storage
        if type(storage) is ListStorage:
            if self._rules is not None:
                storage.alike = False
                return self._rules.admit(item)
            if type(item) is dict and storage.nested:
                return private(item)
            item = storage.admit(item)
            if type(item) is ndarray and item.dtype in PLAIN_DTYPES:
                self.row_dtype = np.dtype(item.dtype.type)
            return item
        if self._space is not None and not storage.holds_objects:
            item = self._rules_of_space().admit(item)
        return storage.admit(item)

    def takes_rows(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
        """Tell whether `admit` would change nothing about rows of an array, so that they can be pushed as they are."""
        if type(self.storage) is not ListStorage:
            return False
        if not shape:
            return dtype.type in self.free_types
        if self._space is None:
            return dtype in PLAIN_DTYPES
        return dtype == self.row_dtype and (self.row_shape is None or self.row_shape == shape)

    # --- What it holds ----------------------------------------------------------------------------------------------

    @property
    def space(self) -> Space[Any] | None:
        """The space of one item, if it is known."""
        return self._space

    @space.setter
    def space(self, space: Space[Any] | None) -> None:
        self._space = as_space(space, "space")
        self._rules = None
        self.use(self.storage)
        if type(self.storage) is ListStorage:
            self.storage.alike = not len(self.storage)

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
        return self.storage.holds_objects

    # --- Reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.storage) - self.lookback

    @property
    def data(self) -> Any:
        """All items, the lookback included: a copied list of them that cannot be changed, or read-only arrays."""
        found = self.pick(slice(0, len(self.storage)), False)
        return ItemsCopy(found) if type(found) is list else found

    @data.setter
    def data(self, new_data: Item) -> None:
        """Replace all items, the lookback included, by copies of `new_data`: a list of items, or arrays.

        The form of the buffer stays: open or finalized. The lookback becomes shorter if there are fewer items than that.
        """
        items = _as_items(new_data)
        self._note_write()
        storage: Storage
        if self.storage.holds_objects:
            storage = ObjectStorage.copied(items)
        elif self.finalized and items:
            storage = ArrayStorage(stack(self._inside(items), self.object_leaves), owned=True)
        else:
            storage = ListStorage.copied(items)
            if self.finalized:
                storage = LookbackBuffer.adopt(storage, 0, self._space, finalized=False).stacked()
        self.use(storage)
        self.lookback = min(self.lookback, len(storage))

    def len_incl_lookback(self) -> int:
        """Return the number of items, the lookback included."""
        return len(self.storage)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.storage.items(slice(self.lookback, len(self.storage))))

    def __getitem__(self, index: Index) -> Any:
        return self.read(index, False, None, False)

    def get(
        self,
        indices: Index = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Item = None,
        one_hot_discrete: bool = False,
    ) -> Any:
        """Return the items at `indices`.

        Args:
            indices: An int gives one item. None (all but the lookback), a slice, or a list or array of ints gives a list of
                items, or arrays once finalized. Index 0 is the first item after the lookback; negative indices count from
                the end and may reach into the lookback.
            neg_index_as_lookback: Let negative indices count from index 0 to the left instead, into the lookback.
            fill: What to put in place of items that are not there. Without it, slices are cut off at the ends, and other
                indices outside raise. With a space or with items to go by, it fills a whole item of their shape and dtype.
            one_hot_discrete: Return one-hot vectors for leaves that are Discrete or MultiDiscrete. Together with
                `fill=0`, items that are not there are all zero, unlike any class.

        Raises:
            EpisodeIndexError: If an index is not there and `fill` is not given, or has the wrong type.
        """
        return self.read(indices, neg_index_as_lookback, fill, one_hot_discrete)

    def read(self, indices: Index, negative_is_lookback: Any, fill: Item, hot: Any) -> Any:
        """`get` with positional arguments, which is what the episodes' getters call."""
        # Rejects objects that are not flags. No other test for two booleans is as fast.
        if not ((negative_is_lookback is False or negative_is_lookback is True) and (hot is False or hot is True)):
            negative_is_lookback = indexing.as_flag(negative_is_lookback, "neg_index_as_lookback")
            hot = indexing.as_flag(hot, "one_hot_discrete")
        storage: Any = self.storage
        if type(indices) is int:
            # Lists are read in place: single items are read most, and a call takes longer than the read.
            plain = type(storage) is ListStorage
            size = len(storage.values if plain else storage)
            position = indices + (size if indices < 0 and not negative_is_lookback else self.lookback)
            if not 0 <= position < size or hot:
                return self._one(position, indices, fill, hot)
            if plain and position < storage.num_frozen and not storage.nested:
                item = storage.values[position]
                return item[...] if type(item) is ndarray else item
            return storage.item(position)
        if indices is None:
            return self.pick(slice(self.lookback, len(storage)), hot)
        if type(indices) is slice:
            if fill is None and not hot:
                key = indexing.clip_slice(indices, len(storage), self.lookback, negative_is_lookback)
                return storage.batch(key) if self.finalized else storage.items(key)
            return self._span(indices, negative_is_lookback, fill, hot)
        if type(indices) is list or isinstance(indices, (tuple, range)) or indexing.num_axes(indices) == 1:
            several = indices if type(indices) is list else indexing.as_list(indices)
            return self._several(several, negative_is_lookback, fill, hot)
        return self.read(indexing.as_int(indices), negative_is_lookback, fill, hot)

    def _one(self, position: int, index: int, fill: Any, hot: bool) -> Any:
        if 0 <= position < len(self.storage):
            return one_hot(self._known_space(), self.storage.item(position))
        if fill is None:
            raise self._not_there(index)
        return self._filling(fill, hot)

    def _span(self, key: slice, negative_is_lookback: bool, fill: Any, hot: bool) -> Any:
        size = len(self.storage)
        if fill is None:
            return self.pick(indexing.clip_slice(key, size, self.lookback, negative_is_lookback), hot)
        positions = indexing.positions_of_slice(key, size, self.lookback, negative_is_lookback)
        before, inside, after = indexing.split(positions, size)
        found = self.pick(indexing.as_slice(inside), hot)
        return self._padded(found, before, after, fill, hot) if before or after else found

    def _several(self, indices: Any, negative_is_lookback: bool, fill: Any, hot: bool) -> Any:
        storage: Any = self.storage
        lookback = self.lookback
        if type(storage) is ListStorage:
            size = len(storage.values)
            is_plain = storage.num_frozen == size and not (storage.nested or hot)
        else:
            size, is_plain = len(storage), False
        # Plain items are read in this loop; for other items it collects positions.
        source = storage.values if is_plain else range(size)
        origin_of_negative = lookback if negative_is_lookback else size
        found = []
        for index in indices:  # most are ints inside; other indices are translated below
            if type(index) is not int:
                break
            position = index + (origin_of_negative if index < 0 else lookback)
            if not 0 <= position < size:
                break
            found.append(source[position])
        else:
            return found if is_plain else self.pick(found, hot)
        return self._several_with_care(indices, negative_is_lookback, fill, hot)

    def _several_with_care(self, indices: Any, negative_is_lookback: bool, fill: Any, hot: bool) -> Any:
        """Return items at indices of any type, some of which may be outside."""
        size, lookback = len(self.storage), self.lookback
        positions = indexing.positions_of_list(indices, size, lookback, negative_is_lookback)
        missing = [place for place, position in enumerate(positions) if not 0 <= position < size]
        if not missing:
            return self.pick(positions, hot)
        if fill is None:
            raise self._not_there(int(indices[missing[0]]))
        there = [position for position in positions if 0 <= position < size]
        found = self.pick(there, hot)
        padded = self._padded(found, 0, len(missing), fill, hot)
        # The filled items are at the end: move each to its place.
        rows = iter(range(len(there)))
        fillers = iter(range(len(there), len(positions)))
        order = [next(rows) if 0 <= position < size else next(fillers) for position in positions]
        if isinstance(padded, list):
            return [padded[row] for row in order]
        return map_batch(lambda leaf: frozen(leaf[order]), padded)

    def pick(self, positions: Positions, hot: bool) -> Any:
        """Return stored items in the form of this buffer."""
        found = self.storage.batch(positions) if self.finalized else self.storage.items(positions)
        if not hot:
            return found
        space = self._known_space()
        if self.finalized:
            return one_hot(space, found)
        return unstack(one_hot(space, stack(found, self._rules_of_space().objects))) if found else []

    def _padded(self, found: Any, before: int, after: int, fill: Any, hot: bool) -> Any:
        if isinstance(found, list):
            filling = self._filling(fill, hot)
            if isinstance(filling, (dict, tuple, list)):  # each caller gets containers of its own
                return [fresh(filling) for _ in range(before)] + found + [fresh(filling) for _ in range(after)]
            return [filling] * before + found + [filling] * after
        if not len(self.storage) and self._space is None:
            # Shape and dtype of items are not known yet.
            return stack([fill] * (before + after))
        return map_batch(lambda leaf: padded(leaf, before, after, fill), found)

    def _filling(self, fill: Any, hot: bool) -> Any:
        """Return the item that replaces a missing one."""
        if hot:
            return filled_item(one_hot_space(self._known_space()), fill)
        if self.finalized and len(self.storage) and type(self.storage) is ArrayStorage:
            return map_batch(lambda leaf: filled_array(leaf.shape[1:], leaf.dtype, fill), self.storage.arrays)
        if self._space is not None:
            try:
                return self._rules_of_space().filling(fill)
            except EpisodeError:
                if self.finalized or self._space is not REWARD_SPACE:
                    raise
                return fresh(fill)  # a list of rewards, whose space no user chose, holds any fill
        if self.storage.holds_objects or not len(self.storage):
            return fresh(fill)
        item = self.storage.item(0)
        if isinstance(item, (dict, tuple)):
            check_one_value(fill)
        return map_batch(lambda leaf: filled_like(leaf, fill), item)

    def _known_space(self) -> Space[Any]:
        if self._space is None:
            raise EpisodeError(
                "found a column without a space, expected one for `one_hot_discrete=True`, which needs the number of classes. "
                "Give the episode its `observation_space` and `action_space`."
            )
        return self._space

    def _not_there(self, index: int) -> EpisodeIndexError:
        return EpisodeIndexError(
            f"found the index {index}, expected one within the {len(self)} items and {self.lookback} items of lookback that "
            "are stored. Pass `fill=` to read over the ends."
        )

    def _rules_of_space(self) -> SpaceRules:
        if self._rules is None:
            self._rules = rules_of(self._known_space())
        return self._rules

    # --- Writing ----------------------------------------------------------------------------------------------------

    def append(self, item: Item) -> None:
        """Add a copy of `item` at the end; amortised O(1) also when finalized.

        Raises:
            SpaceError: If the item's structure, shape or dtype is not that of the space.
            ShapeError: If the buffer is finalized and the item has another structure or shape than its rows.
        """
        self.push(self.admit(item))

    def extend(self, items: Item) -> None:
        """Add copies of several items: a list of them, or arrays with time as the first axis."""
        items = _as_items(items)
        if self._space is not None and not self.storage.holds_objects:
            items = [self.admit(item) for item in items]
        self.storage.push_all(self.storage.admit_all(items))

    def concat(self, other: LookbackBuffer) -> None:
        """Add the items of `other`, without its lookback."""
        if not isinstance(other, LookbackBuffer):
            raise EpisodeError(f"found {describe(other)}, expected a buffer. Add a list of items with `extend`.")
        self.push_all(self.admit_all(other, 0))

    def admit_all(self, other: LookbackBuffer, start: int) -> Any:
        """Return the items of `other` from index `start` on, checked, for `push_all`."""
        stored = other.storage
        positions = slice(other.lookback + start, len(stored))
        if type(self.storage) is ArrayStorage:
            return self.storage.admit_all(stored.lend(positions))
        if type(stored) is ArrayStorage:
            # Rows become items without a copy; shared, so that later writes to `other` do not change them.
            shared = stored.share(positions)
            return shared.arrays
        return stored.lend(positions)

    def lend(self, positions: slice | None = None) -> Any:
        """Return items as they are stored, all of them by default: arrays, or a list. They must not be changed.

        Positions count from the first item of the lookback.
        """
        return self.storage.lend(slice(0, len(self.storage)) if positions is None else positions)

    def snapshot(self, start: int, stop: int) -> Any:
        """Return the items from index `start` up to `stop`, as `get` does; later writes do not change them."""
        positions = slice(self.lookback + start, self.lookback + stop)
        if type(self.storage) is ArrayStorage:
            return self.fork().pick(positions, False)
        return self.pick(positions, False)  # lists are copied anyway

    def push_all(self, items: Item) -> None:
        """Store the result of `admit_all`; this cannot fail."""
        self.storage.push_all(items)

    def fork(self) -> LookbackBuffer:
        """Return an equal buffer that shares the data until either of them is changed."""
        return self.share(slice(0, len(self.storage)), self.lookback)

    def replace_last(self, item: Item) -> None:
        """Put `item`, checked as by `append`, in the place of the last one."""
        self.storage.put(len(self.storage) - 1, self.admit(item))

    def truncate(self, length: int) -> None:
        """Remove the items from index `length` on."""
        while len(self) > length:
            self.pop()

    def pop(self, index: int = -1) -> None:
        """Remove the item at `index`, an index as in `get`."""
        index = indexing.as_int(index)
        size = len(self.storage)
        position = indexing.position_of(index, size, self.lookback, negative_is_lookback=False)
        if not 0 <= position < size:
            raise self._not_there(index)
        self.storage.delete(position)
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
        storage = self.storage
        if type(storage) is ObjectStorage:
            return storage.compact()
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
        """Tell whether all items are known to be arrays of one dtype and shape; a False may be wrong."""
        storage = self.storage
        return type(storage) is ListStorage and storage.alike and self.row_shape is not None

    def adopt_stacked(self, storage: Storage) -> None:
        """Become finalized on `storage`, which `stacked` returned; this cannot fail."""
        self.storage, self.push = storage, storage.push
        self.free_types = _NO_TYPES
        self.row_dtype = self.row_shape = self.row_length = None
        # Last: after an exception such as Ctrl-C before this line, the next call of `finalize` ends what this one began.
        self.finalized = True

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

    def check_batch(self, batch: Item) -> None:
        """Check all items of `batch` as `check_bounds` does those of this buffer."""
        if self._space is not None:
            self._rules_of_space().check_bounds(batch)

    # --- Overwriting ------------------------------------------------------------------------------------------------

    def set(self, new_data: Item, *, at_indices: Index = None, neg_index_as_lookback: bool = False) -> None:
        """Overwrite the items at `at_indices` (an index as in `get`) with copies of `new_data`.

        Args:
            new_data: One item for an int, otherwise a list of items or arrays with time as the first axis. An open buffer
                takes items of any shape. A finalized one takes rows of its own shape, or a whole new column.
            at_indices: Which items to overwrite; None means all but the lookback.
            neg_index_as_lookback: Let negative indices count from index 0 to the left.

        Raises:
            EpisodeIndexError: If an index is not there or the number of items differs from the number of indices.
            SpaceError: If the buffer is finalized and an item lies outside of its space.
        """
        self.write(new_data, at_indices, neg_index_as_lookback)

    def write(self, new_data: Item, indices: Index, negative_is_lookback: bool) -> None:
        """`set` with positional arguments, which is what the episodes' setters call."""
        if negative_is_lookback is not False:  # rejects objects that are not flags
            negative_is_lookback = indexing.as_flag(negative_is_lookback, "neg_index_as_lookback")
        if WRITTEN.get() is not None:
            self._note_write()
        storage = self.storage
        if type(indices) is int:
            # Lists are measured in place: a call takes longer than the write.
            size = len(storage.values if type(storage) is ListStorage else storage)
            position = indices + (size if indices < 0 and not negative_is_lookback else self.lookback)
            if 0 <= position < size:
                storage.put(position, self._inside([new_data])[0] if self.finalized else new_data)
                return
        positions, single = self._positions_to_set(indices, negative_is_lookback)
        items = [new_data] if single else _as_items(new_data)
        if len(items) != len(positions):
            raise EpisodeIndexError(
                f"found {len(items)} items to set at {len(positions)} places ({indices!r}), expected "
                "one item for each place. Pass as many items as there are indices; nothing was changed."
            )
        if self.finalized:
            items = self._inside(items)
        if single:
            storage.put(positions[0], items[0])
        else:
            storage.replace(positions, items)

    def _note_write(self) -> None:
        written = WRITTEN.get()
        if written is not None:
            written.append(self)

    def _inside(self, items: list[Any]) -> list[Any]:
        """Return private copies of `items` after checking that they lie in the space, if rows have one."""
        if self._space is None or not items or type(self.storage) is not ArrayStorage:
            return items
        rules = self._rules_of_space()
        items = [rules.admit(item) for item in items]
        rules.check_bounds(stack(items, rules.objects))
        return items

    def _positions_to_set(self, indices: Index, negative_is_lookback: bool) -> tuple[list[int], bool]:
        size = len(self.storage)
        if indices is None:
            indices = slice(None)
        if isinstance(indices, slice):
            return list(range(size)[indexing.clip_slice(indices, size, self.lookback, negative_is_lookback)]), False
        single = not isinstance(indices, (list, tuple, range)) and indexing.num_axes(indices) == 0
        several: Any = [indexing.as_int(indices)] if single else indexing.as_list(indices)
        found = indexing.positions_of_list(several, size, self.lookback, negative_is_lookback)
        for index, position in zip(several, found, strict=True):
            if not 0 <= position < size:
                raise EpisodeIndexError(
                    f"found the index {index} to set, expected one within the {len(self)} items and {self.lookback} items "
                    "of lookback that are stored. Items are added with `add_env_step`; nothing was changed."
                )
        return found, single

    def __setitem__(self, index: Index, new_data: Any) -> None:
        self.set(new_data, at_indices=index)

    # --- Parts and wholes -------------------------------------------------------------------------------------------

    def share(self, positions: slice, lookback: int) -> LookbackBuffer:
        """Return a buffer of the items at absolute `positions`, without a copy; changes of either never show in the other."""
        return LookbackBuffer.adopt(
            self.storage.share(positions), lookback, self._space, finalized=self.finalized, rules=self._rules
        )

    def __add__(self, other: Any) -> LookbackBuffer:
        """Return a new buffer: a number is added to every item; items of a list or of another buffer are appended."""
        total = self.fork()
        if isinstance(other, LookbackBuffer):
            total.concat(other)
        elif isinstance(other, (int, float, complex, np.number)) and not isinstance(other, bool):
            items = self.storage.items(slice(0, len(self.storage)))
            added = [map_batch(lambda leaf: _sum(leaf, other), item) for item in items]
            if added:
                total.use(ArrayStorage(stack(added), owned=True) if self.finalized else ListStorage.copied(added))
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
            and len(self.storage) == len(other.storage)
            and self._space == other._space
            # An emptied column knows the nesting of its items, a new one does not; both are empty.
            and (not len(self.storage) or equal(self.data, other.data))
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
        return {**state, "objects": True} if self.storage.holds_objects else state

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
            return LookbackBuffer.adopt(infos, state["lookback"], None, finalized=state["finalized"])
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


def _as_items(data: Item) -> list[Any]:
    """Return a list of items: `data` itself, or the rows of its arrays."""
    if isinstance(data, list):
        return data
    if isinstance(data, LookbackBuffer):
        return list(data)
    batch = map_batch(as_rows, data)
    batch_length(batch)
    return unstack(batch)
