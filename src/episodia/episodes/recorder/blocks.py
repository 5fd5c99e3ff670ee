"""The memory of a recorder: blocks of time steps, and the tape that says how far each lane has come in the current one.

A block has one array `[lanes, slots, ...]` for each column leaf. A slot holds an observation with its info, and the step
that was taken at it: action, reward and extra outputs. An episode of T steps takes T + 1 slots; its last slot has no step.
So all columns have the same slots, and one write position serves them all. A slot is written once; a block that was
returned by `take` is not written again.

While all lanes step together they have one cursor. Lanes that are reset or stepped on their own drift apart; each then has
a cursor of its own until the next block, at whose front they stand together again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any, final

import numpy as np

from episodia.episodes.columns.storage import NO_INFO
from episodia.episodes.recorder.recorder_columns import RecorderColumn, bytes_of_row
from episodia.episodes.recorder.vector_infos import InfoEntry
from episodia.types import Item


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
        """Whether the memory has no other reader: every view on an array, of any depth, holds a reference to it."""
        return sys.getrefcount(self.array) <= self._own_references + len(self._rows or ())

    def forget_rows(self) -> None:
        """Drop the views of `rows`, which take much more memory than small rows."""
        self._rows = None

    def write_all(self, values: Item, slot: int) -> None:
        """Write one value for each lane, all at `slot`."""
        if self.is_object:
            for lane, value in enumerate(values):
                self.array[lane, slot] = value
        else:
            self.array[:, slot] = values

    def write(self, values: Item, places: np.ndarray) -> None:
        """Write each value at its place in `flat`."""
        if self.is_object:
            for place, value in zip(places.tolist(), values, strict=True):
                self.flat[place] = value
        else:
            self.flat[places] = values


@final
class Block:
    """The arrays of all columns for `slots` time steps of all lanes.

    Attributes:
        leaves: The arrays of each column, one for each of its leaves.
    """

    __slots__ = ("_entries", "_entry_of", "leaves", "num_lanes", "slots")

    def __init__(
        self, num_lanes: int, slots: int, columns: dict[RecorderColumn, list[LeafArray]] | None = None
    ) -> None:
        self.num_lanes = num_lanes
        self.slots = slots
        self.leaves = {} if columns is None else columns
        # For infos: the entries, and for each lane and slot the number of its entry, from 1 on; 0 is an empty info.
        self._entries: list[InfoEntry] = []
        self._entry_of: np.ndarray | None = None

    def add(self, column: RecorderColumn) -> None:
        """Make room for `column`."""
        self.leaves[column] = [LeafArray(self.num_lanes, self.slots, leaf.shape, leaf.dtype) for leaf in column.leaves]

    def remove(self, column: RecorderColumn) -> None:
        """Give up the rows of `column`."""
        del self.leaves[column]

    def arrays(self) -> list[np.ndarray]:
        """Return all arrays; a block is not reused while its arrays are referenced."""
        return [leaf.array for arrays in self.leaves.values() for leaf in arrays]

    def forget_rows(self) -> None:
        """Drop the views that make writing cheap; the block is only read from now on."""
        for leaves in self.leaves.values():
            for leaf in leaves:
                leaf.forget_rows()

    def rows(self, column: RecorderColumn, lane: int, start: int, stop: int) -> Any:
        """Return the read-only batch of the slots from `start` to just before `stop` of one lane, without a copy."""
        leaves = self.leaves[column]
        if column.is_leaf:
            return leaves[0].alias[lane, start:stop]
        return column.nested([leaf.alias[lane, start:stop] for leaf in leaves])

    # --- Infos ------------------------------------------------------------------------------------------------------

    def write_infos(self, entry: InfoEntry, lanes: np.ndarray | slice, slots: np.ndarray | int) -> None:
        """Keep `entry` for `lanes` (indices, or a full slice), at one slot or at one for each of them."""
        if self._entry_of is None:
            self._entry_of = np.zeros((self.num_lanes, self.slots), np.int32)
        self._entries.append(entry)
        self._entry_of[lanes, slots] = len(self._entries)

    @property
    def has_infos(self) -> bool:
        """Whether a vector step had infos."""
        return self._entry_of is not None

    def infos(self, lane: int, start: int, stop: int) -> Callable[[], list[dict[Any, Any]]]:
        """Return a function that makes the infos of some slots; it does not hold the rest of the block."""
        if self._entry_of is None:
            return lambda: [NO_INFO] * (stop - start)
        entries, numbers = self._entries, self._entry_of[lane, start:stop]
        return lambda: [entries[number - 1].info(lane) if number else NO_INFO for number in numbers.tolist()]

    def info(self, lane: int, slot: int) -> dict[Any, Any]:
        """Return the info of one slot, in a dict of its own."""
        number = 0 if self._entry_of is None else self._entry_of.item(lane, slot)
        return self._entries[number - 1].info(lane) if number else {}

    # --- From one block to the next ---------------------------------------------------------------------------------

    def copy_last(self, other: Block, columns: Iterable[RecorderColumn], cursors: np.ndarray, keep: int) -> None:
        """Copy into the first `keep + 1` slots, for each lane, the slots of `other` up to its cursor.

        Where a lane has fewer slots, the slots in front are undefined.
        """
        slots = np.maximum(cursors[:, None] + np.arange(-keep, 1), 0)
        lanes = np.arange(self.num_lanes)[:, None]
        for column in columns:
            for leaf, old in zip(self.leaves[column], other.leaves[column], strict=True):
                leaf.array[:, : keep + 1] = old.array[lanes, slots]
        if other._entry_of is not None:
            used, places = np.unique(other._entry_of[lanes, slots], return_inverse=True)
            # The number 0 stays what it is, also if no lane has an empty info.
            numbers = np.cumsum(used > 0)
            self._entries = [other._entries[number - 1] for number in used.tolist() if number]
            self._entry_of = np.zeros((self.num_lanes, self.slots), np.int32)
            self._entry_of[:, : keep + 1] = np.where(used > 0, numbers, 0)[places].reshape(slots.shape)

    def is_free(self, slots: int, columns: list[RecorderColumn]) -> bool:
        """Tell whether the memory can be reused for such a block: it has no readers, and about this size."""
        return (
            slots <= self.slots <= 2 * slots
            and self.leaves.keys() == set(columns)
            and all(leaf.is_free for arrays in self.leaves.values() for leaf in arrays)
        )

    def reused(self) -> Block:
        """Return a new block on the same arrays, which must have no other reader."""
        return Block(self.num_lanes, self.slots, self.leaves)


# How many returned blocks are kept in view, to be reused when they have no more readers.
_MOST_SPARE_BLOCKS = 2
# How many times its usual length a block may have if samples are long, and how many bytes then: an episode that is kept
# keeps its whole block.
_MOST_LENGTHS, _MOST_BYTES = 16, 2**22


@final
class Tape:
    """A block and the cursors of its lanes: the slots of their last observations, -1 before the first.

    `cursor` is the one of all lanes, or None if they have different ones.
    """

    __slots__ = (
        "_block_steps",
        "_chained",
        "_cursors",
        "_first",
        "_highest",
        "_lane_starts",
        "_spare",
        "_steps_chained",
        "block",
        "cursor",
    )

    def __init__(self, num_lanes: int, block_steps: int) -> None:
        """Make an empty tape; `block_steps` is how many steps a block takes, unless much more is taken at once."""
        self._block_steps = block_steps
        self._first = -1  # where the cursors were when the block was begun
        self._highest = -1  # no cursor is beyond this
        self._cursors = np.full(num_lanes, -1)
        self._chained: list[Block] = []  # since the last `take`; chunks may refer to them
        self._steps_chained = 0  # how many steps they have
        self._spare: list[Block] = []
        self.cursor: int | None = -1
        self.block = Block(num_lanes, 1 + block_steps)
        self._lane_starts = np.arange(num_lanes) * self.block.slots

    @property
    def cursors(self) -> np.ndarray:
        """The cursor of each lane: int64 [lanes]."""
        return self._cursors if self.cursor is None else np.full(len(self._cursors), self.cursor)

    @property
    def places(self) -> np.ndarray:
        """The cursor of each lane, as a place in arrays whose first axis is that of lanes and slots: int64 [lanes]."""
        return self._lane_starts + (self._cursors if self.cursor is None else self.cursor)

    @property
    def has_chained(self) -> bool:
        """Whether there are blocks before the current one that were not returned yet."""
        return bool(self._chained)

    def cursor_of(self, lane: int) -> int:
        """Return the cursor of one lane."""
        return int(self._cursors[lane]) if self.cursor is None else self.cursor

    def has_room(self) -> bool:
        """Tell whether every lane can take one more slot."""
        if self.cursor is not None:
            return self.cursor + 1 < self.block.slots
        if self._highest + 1 >= self.block.slots:
            # It may be too high, because lanes that do not step do not lower it.
            self._highest = int(self._cursors.max())
        return self._highest + 1 < self.block.slots

    def write(self, column: RecorderColumn, values: list[Any], lanes: np.ndarray | None) -> None:
        """Write the next rows of `lanes` (all if None): after the cursor for tracks, at it for steps."""
        ahead = 1 if column.is_track else 0
        if lanes is None and self.cursor is not None:
            for leaf, value in zip(self.block.leaves[column], values, strict=True):
                leaf.write_all(value, self.cursor + ahead)
            return
        places = (self.places if lanes is None else self.places[lanes]) + ahead
        for leaf, value in zip(self.block.leaves[column], values, strict=True):
            leaf.write(value, places)

    def write_infos(self, entry: InfoEntry, lanes: np.ndarray | None) -> None:
        """Write the next infos of `lanes` (all if None), after the cursor."""
        if lanes is None and self.cursor is not None:
            self.block.write_infos(entry, slice(None), self.cursor + 1)
        else:
            chosen = np.arange(len(self._cursors)) if lanes is None else lanes
            self.block.write_infos(entry, chosen, self.cursors[chosen] + 1)

    def advance(self, lanes: np.ndarray | None) -> None:
        """Move the cursors of `lanes` (all if None) by one slot."""
        if lanes is None and self.cursor is not None:
            self.cursor += 1
            return
        if self.cursor is not None:
            self._cursors, self._highest, self.cursor = self.cursors, self.cursor, None
        self._highest += 1  # first, as it may be too high, but not too low
        self._cursors[slice(None) if lanes is None else lanes] += 1

    # --- From one block to the next ---------------------------------------------------------------------------------

    def next_block(self, columns: list[RecorderColumn], lookback: int, *, fitted: bool) -> tuple[Block, int]:
        """Return a block that starts with each lane's last `lookback` slots and its current one, and the cursor in it.

        Nothing changes before `switch`.

        Args:
            columns: What to make room for.
            lookback: How many slots before the current one are needed, as far as there are any.
            fitted: Make it about as large as the present sample, because the next sample will be alike.
        """
        cursors = self.cursors
        used = self._steps_chained + self._steps_here()
        keep = max(0, min(lookback, int(cursors.max())))
        steps = min(self._most_steps(columns), used + used // 8 + 2) if fitted else self._block_steps
        block = self._free_or_new_block(keep + 1 + steps, columns)
        block.copy_last(self.block, columns, cursors, keep)
        return block, keep

    def switch(self, block: Block, cursor: int) -> None:
        """Go on with `block`, in which all lanes stand at `cursor`."""
        if len(self._chained) >= _MOST_SPARE_BLOCKS:
            # The block that is too old now to become a spare one, which is written again.
            self._chained[-_MOST_SPARE_BLOCKS].forget_rows()
        self._steps_chained += self._steps_here()
        self._chained.append(self.block)
        self.block = block
        self._lane_starts = np.arange(len(self._cursors)) * block.slots
        self.cursor = self._first = cursor

    def restart(self, columns: list[RecorderColumn]) -> None:
        """Go on with an empty block, whatever an interrupt has left; no block before is used again before its time."""
        self._chained, self._spare = [self.block], []
        self.block = self._free_or_new_block(1 + self._block_steps, columns)
        self._lane_starts = np.arange(len(self._cursors)) * self.block.slots
        self._cursors = np.full(len(self._cursors), -1)
        self.cursor = self._first = self._highest = -1

    def release(self, still_read: Collection[Block] = ()) -> None:
        """Allow reuse of the blocks before the current one, except `still_read`, once they have no more readers."""
        released = [block for block in self._chained if block not in still_read]
        self._spare = [*self._spare, *released][-_MOST_SPARE_BLOCKS:]
        self._chained = [block for block in self._chained if block in still_read]
        self._steps_chained = 0

    def _steps_here(self) -> int:
        """Return how many steps the current block has of the lane with most of them."""
        return (int(self._cursors.max()) if self.cursor is None else self.cursor) - self._first

    def _most_steps(self, columns: list[RecorderColumn]) -> int:
        affordable = _MOST_BYTES // max(1, bytes_of_row(columns) * len(self._cursors))
        return max(self._block_steps, min(_MOST_LENGTHS * self._block_steps, affordable))

    def _free_or_new_block(self, slots: int, columns: list[RecorderColumn]) -> Block:
        for spare in self._spare:
            if spare.is_free(slots, columns):
                self._spare.remove(spare)
                return spare.reused()
        block = Block(len(self._cursors), slots)
        for column in columns:
            block.add(column)
        return block
