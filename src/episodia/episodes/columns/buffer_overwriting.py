"""Overwriting items of one column: which places an index means, and what may stand there."""

from __future__ import annotations

from typing import Any

from episodia.episodes.columns import indexing
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.buffer_reading import BufferReading
from episodia.episodes.columns.indexing import Index
from episodia.episodes.columns.storage import ListStorage
from episodia.errors import EpisodeIndexError
from episodia.stacking import stack, unstack
from episodia.trees import as_rows, batch_length, map_batch


class BufferOverwriting(BufferReading):
    """A `LookbackBuffer` that takes new items in the places of old ones only: never used alone."""

    __slots__ = ()

    def set(self, new_data: Any, *, at_indices: Index = None, neg_index_as_lookback: bool = False) -> None:
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
        self._set(new_data, at_indices, neg_index_as_lookback)

    def _set(self, new_data: Any, indices: Index, negative_is_lookback: bool) -> None:
        """`set` with positional arguments, which is what the episodes' setters call."""
        if negative_is_lookback is not False:  # junk would count as a flag too
            negative_is_lookback = indexing.as_flag(negative_is_lookback, "neg_index_as_lookback")
        storage = self._storage
        if type(indices) is int:
            # A list is looked at here, because writing one item takes less time than a call does.
            size = len(storage._items if type(storage) is ListStorage else storage)
            position = indices + (size if indices < 0 and not negative_is_lookback else self.lookback)
            if 0 <= position < size:
                storage.put(position, self._inside([new_data])[0] if self.finalized else new_data)
                return
        positions, single = self._positions_to_set(indices, negative_is_lookback)
        items = [new_data] if single else as_items(new_data)
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

    def _inside(self, items: list[Any]) -> list[Any]:
        """Return private copies of `items` after checking that they lie in the space, if rows have one."""
        if self._space is None or not items or type(self._storage) is not ArrayStorage:
            return items
        rules = self._rules_of_space()
        items = [rules.admit(item) for item in items]
        rules.check_bounds(stack(items, rules.objects))
        return items

    def _positions_to_set(self, indices: Index, negative_is_lookback: bool) -> tuple[list[int], bool]:
        size = len(self._storage)
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


def as_items(data: Any) -> list[Any]:
    """Return a list of items: `data` itself, or the rows of its arrays."""
    if isinstance(data, list):
        return data
    if isinstance(data, BufferReading):
        return list(data)
    batch = map_batch(as_rows, data)
    batch_length(batch)
    return unstack(batch)
