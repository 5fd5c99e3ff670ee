"""Where a recorder writes: the current block, and how far each lane has come in it.

As long as all lanes step together they have one cursor. Lanes that are reset or stepped on their own drift apart; from then
on each has a cursor of its own, until the next block, at whose front they all stand together again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, final

import numpy as np

from episodia.episodes.recorder.blocks import Block
from episodia.episodes.recorder.recorder_columns import RecorderColumn, bytes_of_row
from episodia.episodes.recorder.vector_infos import InfoEntry

# How many blocks that were handed out are kept in view, in case that their readers let them go.
_MOST_SPARE_BLOCKS = 2
# A block may be so many times as long as usual, if hand-outs are, and if it has no more bytes than these: whoever keeps one
# of its episodes keeps all of it.
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
        """Make an empty tape; `block_steps` is how many steps a block takes, unless much more is handed out at once."""
        self._block_steps = block_steps
        self._first = -1  # where the cursors were when the block was begun
        self._highest = -1  # no cursor is beyond this
        self._cursors = np.full(num_lanes, -1)
        self._chained: list[Block] = []  # since the last hand-out; chunks may refer to them
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
        """Whether there are blocks before the current one that were not handed out."""
        return bool(self._chained)

    def cursor_of(self, lane: int) -> int:
        """Return the cursor of one lane."""
        return int(self._cursors[lane]) if self.cursor is None else self.cursor

    def has_room(self) -> bool:
        """Tell whether every lane can take one more slot."""
        if self.cursor is not None:
            return self.cursor + 1 < self.block.slots
        if self._highest + 1 >= self.block.slots:
            # It may be too high, because it is not lowered by who does not step.
            self._highest = int(self._cursors.max())
        return self._highest + 1 < self.block.slots

    def write(self, column: RecorderColumn, values: list[Any], lanes: np.ndarray | None) -> None:
        """Write the next rows of `lanes` (all if None): after the cursor for tracks, at it for steps."""
        ahead = 1 if column.is_track else 0
        if lanes is None and self.cursor is not None:
            for leaf, value in zip(self.block.leaves(column), values, strict=True):
                leaf.write_all(value, self.cursor + ahead)
            return
        places = (self.places if lanes is None else self.places[lanes]) + ahead
        for leaf, value in zip(self.block.leaves(column), values, strict=True):
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
        self._cursors[slice(None) if lanes is None else lanes] += 1
        self._highest += 1

    # --- From one block to the next ---------------------------------------------------------------------------------

    def next_block(self, columns: list[RecorderColumn], lookback: int, *, fitted: bool) -> tuple[Block, int]:
        """Return a block that starts with each lane's last `lookback` slots and its current one, and the cursor in it.

        Nothing changes before `switch`.

        Args:
            columns: What to make room for.
            lookback: How many slots before the current one are needed, as far as there are any.
            fitted: Make it about as large as what is handed out now, because the next hand-out will be alike.
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
        self._steps_chained += self._steps_here()
        self._chained.append(self.block)
        self.block = block
        self._lane_starts = np.arange(len(self._cursors)) * block.slots
        self.cursor = self._first = cursor

    def release(self, still_read: Collection[Block] = ()) -> None:
        """Let the blocks before the current one, but `still_read`, be used again once nobody reads what was handed out."""
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
