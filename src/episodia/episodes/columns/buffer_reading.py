"""Reading one column: what an index, a fill and one-hot vectors make of stored items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import Space
from numpy import ndarray

from episodia.episodes.columns import indexing
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.indexing import Index
from episodia.episodes.columns.storage import ListStorage, Positions, Storage
from episodia.errors import EpisodeError, EpisodeIndexError
from episodia.space_rules import SpaceRules, rules_of
from episodia.spaces import filled_array, filled_item, fitting, one_hot, one_hot_space
from episodia.stacking import stack, unstack
from episodia.trees import fresh, frozen, map_batch


class BufferReading:
    """The reading half of a `LookbackBuffer`, which adds writing and makes buffers: never used alone."""

    __slots__ = ("_rules", "_space", "_storage", "finalized", "lookback")

    _rules: SpaceRules | None
    _space: Space[Any] | None
    _storage: Storage
    finalized: bool
    lookback: int

    def __len__(self) -> int:
        return len(self._storage) - self.lookback

    @property
    def data(self) -> Any:
        """All items, the lookback included: a list of them, or read-only arrays."""
        return self._pick(slice(0, len(self._storage)), False)

    def len_incl_lookback(self) -> int:
        """Return the number of items, the lookback included."""
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._storage.items(slice(self.lookback, len(self._storage))))

    def __getitem__(self, index: Index) -> Any:
        return self._get(index, False, None, False)

    def get(
        self,
        indices: Index = None,
        *,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
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
            EpisodeIndexError: If an index is not there and `fill` is not given, or is no index at all.
        """
        return self._get(indices, neg_index_as_lookback, fill, one_hot_discrete)

    def _get(self, indices: Index, negative_is_lookback: Any, fill: Any, hot: Any) -> Any:
        """`get` with positional arguments, which is what the episodes' getters call."""
        # Junk would count as a flag too. Nothing is as fast as this way of asking whether both are booleans.
        if not ((negative_is_lookback is False or negative_is_lookback is True) and (hot is False or hot is True)):
            negative_is_lookback = indexing.as_flag(negative_is_lookback, "neg_index_as_lookback")
            hot = indexing.as_flag(hot, "one_hot_discrete")
        storage: Any = self._storage
        if type(indices) is int:
            # A list is looked at here, because one item is what is read most, and calls would take longer than reading it.
            plain = type(storage) is ListStorage
            size = len(storage._items if plain else storage)
            position = indices + (size if indices < 0 and not negative_is_lookback else self.lookback)
            if not 0 <= position < size or hot:
                return self._one(position, indices, fill, hot)
            if plain and position < storage._frozen and not storage._nested:
                item = storage._items[position]
                return item[...] if type(item) is ndarray else item
            return storage.item(position)
        if indices is None:
            return self._pick(slice(self.lookback, len(storage)), hot)
        if type(indices) is slice:
            if fill is None and not hot:
                key = indexing.clip_slice(indices, len(storage), self.lookback, negative_is_lookback)
                return storage.batch(key) if self.finalized else storage.items(key)
            return self._span(indices, negative_is_lookback, fill, hot)
        if type(indices) is list or isinstance(indices, (tuple, range)) or indexing.num_axes(indices) == 1:
            several = indices if type(indices) is list else indexing.as_list(indices)
            return self._several(several, negative_is_lookback, fill, hot)
        return self._get(indexing.as_int(indices), negative_is_lookback, fill, hot)

    def _one(self, position: int, index: int, fill: Any, hot: bool) -> Any:
        if 0 <= position < len(self._storage):
            return one_hot(self._known_space(), self._storage.item(position))
        if fill is None:
            raise self._not_there(index)
        return self._filling(fill, hot)

    def _span(self, key: slice, negative_is_lookback: bool, fill: Any, hot: bool) -> Any:
        size = len(self._storage)
        if fill is None:
            return self._pick(indexing.clip_slice(key, size, self.lookback, negative_is_lookback), hot)
        positions = indexing.positions_of_slice(key, size, self.lookback, negative_is_lookback)
        before, inside, after = indexing.split(positions, size)
        found = self._pick(indexing.as_slice(inside), hot)
        return self._padded(found, before, after, fill, hot) if before or after else found

    def _several(self, indices: Any, negative_is_lookback: bool, fill: Any, hot: bool) -> Any:
        storage: Any = self._storage
        lookback = self.lookback
        if type(storage) is ListStorage:
            size = len(storage._items)
            is_plain = storage._frozen == size and not (storage._nested or hot)
        else:
            size, is_plain = len(storage), False
        # Plain items are read right here, of others the positions.
        source = storage._items if is_plain else range(size)
        origin_of_negative = lookback if negative_is_lookback else size
        found = []
        for index in indices:  # of plain ints inside, as most are; all others are translated below
            if type(index) is not int:
                break
            position = index + (origin_of_negative if index < 0 else lookback)
            if not 0 <= position < size:
                break
            found.append(source[position])
        else:
            return found if is_plain else self._pick(found, hot)
        return self._several_with_care(indices, negative_is_lookback, fill, hot)

    def _several_with_care(self, indices: Any, negative_is_lookback: bool, fill: Any, hot: bool) -> Any:
        """Return items at indices of any kind, of which some may not be there."""
        size, lookback = len(self._storage), self.lookback
        positions = indexing.positions_of_list(indices, size, lookback, negative_is_lookback)
        missing = [place for place, position in enumerate(positions) if not 0 <= position < size]
        if not missing:
            return self._pick(positions, hot)
        if fill is None:
            raise self._not_there(int(indices[missing[0]]))
        there = [position for position in positions if 0 <= position < size]
        found = self._pick(there, hot)
        padded = self._padded(found, 0, len(missing), fill, hot)
        # The filled items stand at the end: bring each to its place.
        rows = iter(range(len(there)))
        fillers = iter(range(len(there), len(positions)))
        order = [next(rows) if 0 <= position < size else next(fillers) for position in positions]
        if isinstance(padded, list):
            return [padded[row] for row in order]
        return map_batch(lambda leaf: frozen(leaf[order]), padded)

    def _pick(self, positions: Positions, hot: bool) -> Any:
        """Return items that are there, in the form of this buffer."""
        found = self._storage.batch(positions) if self.finalized else self._storage.items(positions)
        if not hot:
            return found
        space = self._known_space()
        if self.finalized:
            return one_hot(space, found)
        return unstack(one_hot(space, stack(found, self._rules_of_space().objects))) if found else []

    def _padded(self, found: Any, before: int, after: int, fill: Any, hot: bool) -> Any:
        if isinstance(found, list):
            filling = self._filling(fill, hot)
            if isinstance(filling, (dict, tuple, list)):  # containers are the caller's own, each of them
                return [fresh(filling) for _ in range(before)] + found + [fresh(filling) for _ in range(after)]
            return [filling] * before + found + [filling] * after
        if not len(self._storage) and self._space is None:
            # Nothing is known of the items yet.
            return stack([fill] * (before + after))
        return map_batch(lambda leaf: _padded_array(leaf, before, after, fill), found)

    def _filling(self, fill: Any, hot: bool) -> Any:
        """Return one item in place of one that is not there."""
        if hot:
            return filled_item(one_hot_space(self._known_space()), fill)
        if self.finalized and len(self._storage) and type(self._storage) is ArrayStorage:
            return map_batch(lambda leaf: filled_array(leaf.shape[1:], leaf.dtype, fill), self._storage.arrays)
        if self._space is not None:
            return self._rules_of_space().filling(fill)
        if self._storage.holds_objects or not len(self._storage):
            return fresh(fill)
        return map_batch(lambda leaf: _filled_like(leaf, fill), self._storage.item(0))

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


def _padded_array(found: np.ndarray, before: int, after: int, fill: Any) -> np.ndarray:
    count = len(found)
    padded = np.empty((before + count + after, *found.shape[1:]), found.dtype)
    value = fitting(fill, found.dtype)
    # Unlike an assignment, `fill` takes a container as one object.
    padded[:before].fill(value)
    padded[before : before + count] = found
    padded[before + count :].fill(value)
    padded.setflags(write=False)
    return padded


def _filled_like(leaf: Any, fill: Any) -> Any:
    """Return an array of `fill` for an array; a scalar is replaced by `fill` itself, if it can stand in its place."""
    if isinstance(leaf, np.ndarray):
        return filled_array(leaf.shape, leaf.dtype, fill)
    if isinstance(leaf, (int, float, np.number, np.bool_)):
        fitting(fill, np.asarray(leaf).dtype)
    return fill
