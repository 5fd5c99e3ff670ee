# ruff: noqa: D102  # What a storage method promises stands once, in the abstract class.
"""Columns of an episode that is being recorded: windows on a lane, in which new rows show up by themselves."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NoReturn, final

from episodia.columns import Columns
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.storage import ListStorage, ObjectStorage, Positions, Storage
from episodia.episodes.recorder.blocks import Block
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorder_columns import RecorderColumn
from episodia.episodes.recorder.vector_infos import LazyInfos
from episodia.errors import EpisodeError
from episodia.trees import fresh, map_batch
from episodia.types import Item


class LaneWindow(Storage):
    """The rows of one column of a chunk that is being recorded, read where they are.

    The first write gives the column a storage of its own (`detach`), which takes the same items as a column of
    a hand-built episode; the recorder's rows do not change. From then on `catch_up` appends the rows that were recorded
    since.

    `buffer` is the column. The row at position 0 belongs to time step `_first_t`, and there is a row of the last
    observation if the column is a track.
    """

    __slots__ = ("_chunk", "_first_t", "_is_track", "buffer", "name")

    def __init__(self, name: str, chunk: Chunk, buffer: LookbackBuffer, lookback: int, *, is_track: bool) -> None:
        """Read the rows of `chunk`, `lookback` of the past among them."""
        self._chunk = chunk
        self._first_t = chunk.t_started - lookback
        self._is_track = is_track
        self.name = name
        self.buffer = buffer

    @abstractmethod
    def _all_rows(self) -> Storage:
        """Return all rows that there are now."""

    @abstractmethod
    def _own_copy(self, positions: slice) -> Storage:
        """Return a storage of some of the rows that does not see later ones."""

    def detach(self) -> Storage:
        """Give the column a storage of its own, and return that."""
        own = self._own_copy(slice(0, len(self)))
        self.buffer.use(own)
        self._chunk.detached.append(self)
        return own

    def catch_up(self) -> None:
        """Append new rows to the column, which has a storage of its own."""
        buffer, storage, stop = self.buffer, self.buffer.storage, len(self)
        if type(storage) is ArrayStorage:
            buffer.push_all(storage.admit_all(self.lend(slice(len(storage), stop))))
        elif type(storage) is ListStorage:
            for position in range(len(storage.values), stop):
                storage.push_row(self.item(position))
        else:
            for position in range(len(storage), stop):
                buffer.push(self.item(position))

    def __len__(self) -> int:
        chunk = self._chunk
        return chunk.t_at_slot_0 + chunk.cursor - self._first_t + self._is_track

    def items(self, positions: Positions) -> list[Any]:
        return self._all_rows().items(positions)

    def batch(self, positions: Positions) -> Any:
        return self._all_rows().batch(positions)

    def lend(self, positions: slice) -> Any:
        return self._all_rows().lend(positions)

    def share(self, positions: slice) -> Storage:
        return self._own_copy(positions)

    def put(self, position: int, item: Item) -> None:
        self.detach().put(position, item)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        if positions:
            self.detach().replace(positions, items)

    def admit(self, item: Item) -> Any:
        self._reject()

    def admit_all(self, items: Item) -> Any:
        self._reject()

    def push(self, item: Item) -> None:
        self._reject()

    def push_all(self, items: Item) -> None:
        self._reject()

    def delete(self, position: int) -> None:
        self._reject()

    def _reject(self) -> NoReturn:
        raise EpisodeError(
            "found a change in the length of an episode that is being recorded, expected steps from its recorder only. "
            "Change a copy of it (`copy.copy(episode)`), or wait until `take` returns it."
        )


@final
class LaneStorage(LaneWindow):
    """A column of arrays."""

    __slots__ = ("_block", "_is_plain", "_lane_rows", "_rows", "column")

    def __init__(self, chunk: Chunk, buffer: LookbackBuffer, column: RecorderColumn) -> None:
        """Read the rows of `column`."""
        super().__init__(column.name, chunk, buffer, chunk.lookback_of(column), is_track=column.is_track)
        self.column = column
        self._is_plain = column.is_plain
        self._rows: ArrayStorage | None = None
        # The rows of all slots of the lane in its block, read-only.
        self._block: Block | None = None
        self._lane_rows: Any = None

    def item(self, position: int) -> Any:
        chunk = self._chunk
        slot = self._first_t - chunk.t_at_slot_0 + position
        if slot < chunk.start:  # in a block before
            return self._all_rows().item(position)
        if chunk.block is not self._block:
            self._block = chunk.block
            self._lane_rows = chunk.block.rows(self.column, chunk.lane, 0, chunk.block.slots)
        if self._is_plain:
            return self._lane_rows[slot]
        return fresh(map_batch(lambda leaf: leaf[slot], self._lane_rows))

    def detach(self) -> Storage:
        self.column.written.add(self._chunk.lane)
        return super().detach()

    def _all_rows(self) -> ArrayStorage:
        if self._rows is None or len(self._rows) != len(self):
            self._rows = ArrayStorage(self._chunk.batch(self.column), owned=False)
        return self._rows

    def _own_copy(self, positions: slice) -> Storage:
        rows = self._all_rows()
        if self.buffer.finalized:
            return rows.share(positions)
        # The rows themselves, not copies: no slot of a block is written twice.
        return ListStorage(rows.items(positions), nested=not self._is_plain)


@final
class LaneInfos(LaneWindow):
    """The infos, which are made one by one when they are read."""

    __slots__ = ("_made",)

    holds_objects = True

    def __init__(self, chunk: Chunk, buffer: LookbackBuffer) -> None:
        """Read the infos of `chunk`."""
        super().__init__(Columns.INFOS, chunk, buffer, chunk.lookback, is_track=True)
        self._made: ObjectStorage | None = None

    def item(self, position: int) -> Any:
        chunk = self._chunk
        slot = self._first_t - chunk.t_at_slot_0 + position
        if slot < chunk.start:
            return self._all_rows().item(position)
        return fresh(chunk.block.info(chunk.lane, slot))

    def _all_rows(self) -> ObjectStorage:
        if self._made is None or len(self._made) != len(self):
            self._made = ObjectStorage(self._chunk.infos()())
        return self._made

    def _own_copy(self, positions: slice) -> Storage:
        return LazyInfos(self._chunk.infos(), len(self)).share(positions)
