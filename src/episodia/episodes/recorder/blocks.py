"""A block: the memory of a recorder for a number of time steps, one array `[lanes, slots, ...]` for each column leaf.

A slot holds an observation with its info, and the step that was taken at it: action, reward and extra outputs. An episode
of T steps takes T + 1 slots; the step of its last one is not there. So all columns have the same slots, and one write
position serves them all. A slot that was written is never written again, nor is a block that was handed out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, final

import numpy as np

from episodia.episodes.recorder.recorder_columns import RecorderColumn
from episodia.episodes.recorder.vector_infos import InfoEntry


@final
class LeafArray:
    """One column leaf of a block: the array, and the views on it that make reading and writing cheap.

    `alias` is the same memory, read-only; `flat` has lanes and slots as one axis.
    """

    __slots__ = ("_own_references", "_rows", "alias", "array", "flat", "is_object")

    def __init__(self, num_lanes: int, slots: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.array = np.empty((num_lanes, slots, *shape), dtype)
        self.is_object = dtype.hasobject
        self.alias = self.array[...]
        self.alias.setflags(write=False)
        self.flat = self.array.reshape(num_lanes * slots, *shape)
        self._rows: list[np.ndarray] | None = None
        self._own_references = sys.getrefcount(self.array)

    @property
    def rows(self) -> list[np.ndarray]:
        """For each slot, the view of all lanes: writing into it costs half of what `array[:, slot] = x` costs."""
        if self._rows is None:
            self._rows = list(self.array.swapaxes(0, 1))
        return self._rows

    @property
    def is_free(self) -> bool:
        """Whether nobody else reads the memory: every view on an array, of whatever depth, holds a reference to it."""
        return sys.getrefcount(self.array) <= self._own_references + len(self._rows or ())

    def write_all(self, values: Any, slot: int) -> None:
        """Write one value for each lane, all at `slot`."""
        if self.is_object:
            for lane, value in enumerate(values):
                self.array[lane, slot] = value
        else:
            self.array[:, slot] = values

    def write(self, values: Any, places: np.ndarray) -> None:
        """Write each value at its place in `flat`."""
        if self.is_object:
            for place, value in zip(places.tolist(), values, strict=True):
                self.flat[place] = value
        else:
            self.flat[places] = values


@final
class Block:
    """The arrays of all columns for `slots` time steps of all lanes."""

    __slots__ = ("_columns", "_entries", "_entry_of", "num_lanes", "slots")

    def __init__(self, num_lanes: int, slots: int) -> None:
        self.num_lanes = num_lanes
        self.slots = slots
        self._columns: dict[RecorderColumn, list[LeafArray]] = {}
        # For infos: the entries, and for each lane and slot the number of its entry, from 1 on; 0 is an empty info.
        self._entries: list[InfoEntry] = []
        self._entry_of: np.ndarray | None = None

    def add(self, column: RecorderColumn) -> None:
        """Make room for `column`."""
        self._columns[column] = [
            LeafArray(self.num_lanes, self.slots, leaf.shape, leaf.dtype) for leaf in column.leaves
        ]

    def remove(self, column: RecorderColumn) -> None:
        """Give up the rows of `column`."""
        del self._columns[column]

    def leaves(self, column: RecorderColumn) -> list[LeafArray]:
        """Return the arrays of `column`, one for each of its leaves."""
        return self._columns[column]

    def arrays(self) -> list[np.ndarray]:
        """Return all arrays; who holds them keeps the block from being used again."""
        return [leaf.array for leaves in self._columns.values() for leaf in leaves]

    def rows(self, column: RecorderColumn, lane: int, start: int, stop: int) -> Any:
        """Return the read-only batch of the slots from `start` to just before `stop` of one lane, without a copy."""
        leaves = self._columns[column]
        if column.is_leaf:
            return leaves[0].alias[lane, start:stop]
        return column.nested([leaf.alias[lane, start:stop] for leaf in leaves])

    # --- Infos ------------------------------------------------------------------------------------------------------

    def write_infos(self, entry: InfoEntry, lanes: Any, slots: Any) -> None:
        """Keep `entry` for `lanes` (indices, or a full slice), at one slot or at one for each of them."""
        if self._entry_of is None:
            self._entry_of = np.zeros((self.num_lanes, self.slots), np.int32)
        self._entries.append(entry)
        self._entry_of[lanes, slots] = len(self._entries)

    def infos(self, lane: int, start: int, stop: int) -> Callable[[], list[dict[Any, Any]]]:
        """Return a function that makes the infos of some slots; it does not hold the rest of the block."""
        if self._entry_of is None:
            return lambda: [{} for _ in range(start, stop)]
        entries, numbers = self._entries, self._entry_of[lane, start:stop]
        return lambda: [entries[number - 1].info(lane) if number else {} for number in numbers.tolist()]

    # --- From one block to the next ---------------------------------------------------------------------------------

    def copy_last(self, other: Block, columns: Iterable[RecorderColumn], cursors: np.ndarray, keep: int) -> None:
        """Copy into the first `keep + 1` slots, for each lane, the slots of `other` up to its cursor.

        Where a lane has not so many, anything may stand in front.
        """
        slots = np.maximum(cursors[:, None] + np.arange(-keep, 1), 0)
        lanes = np.arange(self.num_lanes)[:, None]
        for column in columns:
            for leaf, old in zip(self._columns[column], other._columns[column], strict=True):
                leaf.array[:, : keep + 1] = old.array[lanes, slots]
        if other._entry_of is not None:
            used, places = np.unique(other._entry_of[lanes, slots], return_inverse=True)
            # The number 0 stays what it is, also if no lane has an empty info.
            numbers = np.cumsum(used > 0)
            self._entries = [other._entries[number - 1] for number in used.tolist() if number]
            self._entry_of = np.zeros((self.num_lanes, self.slots), np.int32)
            self._entry_of[:, : keep + 1] = np.where(used > 0, numbers, 0)[places].reshape(slots.shape)

    def is_free(self, slots: int, columns: list[RecorderColumn]) -> bool:
        """Tell whether the memory can be used again for such a block: nobody reads it, and it is as large."""
        return (
            slots <= self.slots <= 2 * slots
            and self._columns.keys() == set(columns)
            and all(leaf.is_free for leaves in self._columns.values() for leaf in leaves)
        )

    def reused(self) -> Block:
        """Return a new block on the same arrays, which nobody else must have."""
        block = Block(self.num_lanes, self.slots)
        block._columns = self._columns
        return block
