"""One lane's part of a recording: which slots of which blocks are one chunk of an episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, final
from weakref import ref

import numpy as np

from episodia.episodes.recorder.blocks import Block
from episodia.episodes.recorder.recorder_columns import RecorderColumn
from episodia.episodes.single_agent import weights_versions as versions
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.trees import map_batch

if TYPE_CHECKING:
    from episodia.episodes.recorder.lane_storage import LaneWindow
    from episodia.episodes.recorder.recorder_columns import RecorderLayout


class BlockPart(NamedTuple):
    """Slots of a block that is full: tracks from `first_track` to `last`, steps from `first_step` to just before it."""

    block: Block
    first_track: int
    first_step: int
    last: int

    def bounds(self, column: RecorderColumn) -> tuple[int, int]:
        """Return where the rows of `column` start and stop."""
        return (self.first_track, self.last + 1) if column.is_track else (self.first_step, self.last)


@final
class Chunk:
    """A chunk that is being recorded, or has been.

    Usually its rows are the slots of one block from `start` (the lookback included) to `cursor` (its last observation). A
    chunk that outgrew a block has its earlier rows in `parts`, and in the last block only what comes after `seam`, the
    slot of the observation with which the part before ended.

    `cursor` is a copy of the recorder's cursor, which is brought up to date when the chunk is read.
    """

    __slots__ = (
        "block",
        "cursor",
        "detached",
        "episode",
        "handed_to",
        "id_",
        "is_handed_out",
        "is_terminated",
        "is_truncated",
        "lane",
        "last_step_time",
        "layout",
        "lookback",
        "parts",
        "seam",
        "shorter",
        "start",
        "start_time",
        "t_at_slot_0",
        "t_started",
        "weights_versions",
    )

    def __init__(self, lane: int, id_: str, block: Block, cursor: int, *, t: int = 0, lookback: int = 0) -> None:
        self.lane = lane
        self.id_ = id_
        self.block = block
        self.cursor = cursor
        self.start = cursor - lookback
        self.seam: int | None = None
        self.parts: list[BlockPart] = []
        self.lookback = lookback
        self.shorter: dict[RecorderColumn, int] = {}  # lookbacks that are shorter
        self.t_started = t
        self.t_at_slot_0 = t - cursor
        self.is_terminated = False
        self.is_truncated = False
        self.start_time: float | None = None
        self.last_step_time: float | None = None
        self.weights_versions: versions.Versions = ()
        # The episode that users see, once it was asked for; in list form until `take` returns it.
        self.episode: SingleAgentEpisode | None = None
        self.detached: list[LaneWindow] = []  # of the columns of `episode` that have a storage of their own
        self.layout: RecorderLayout | None = None  # whose columns `episode` has; None before its first step
        self.is_handed_out = False
        self.handed_to: ref[Any] | None = None  # the list that `take` returned it in

    @property
    def t(self) -> int:
        """The time step of the last observation."""
        return self.t_at_slot_0 + self.cursor

    @property
    def num_steps(self) -> int:
        """The number of steps, without the lookback."""
        return self.t_at_slot_0 + self.cursor - self.t_started

    @property
    def is_done(self) -> bool:
        """Whether the episode has ended with this chunk."""
        return self.is_terminated or self.is_truncated

    def is_only_in(self, block: Block) -> bool:
        """Tell whether the last rows are in `block`, of all columns from the same slot on, and were not returned."""
        return self.block is block and not (self.is_handed_out or self.shorter)

    # --- Rows -------------------------------------------------------------------------------------------------------

    def lookback_of(self, column: RecorderColumn) -> int:
        """Return how many rows of the past `column` has: fewer than other columns if it was added later."""
        return self.shorter.get(column, self.lookback) if self.shorter else self.lookback

    def add_without_past(self, column: RecorderColumn) -> None:
        """Register a column that begins with the next step, the first of this chunk."""
        if self.lookback:
            self.shorter[column] = 0

    def count(self, column: RecorderColumn) -> int:
        """Return how many rows `column` has, the lookback included."""
        return self.lookback_of(column) + self.num_steps + column.is_track

    def batch(self, column: RecorderColumn) -> Any:
        """Return all rows of `column`, the lookback included: read-only, and without a copy if they are in one block."""
        if not self.parts:
            start = self.start + self.lookback - self.lookback_of(column) if self.shorter else self.start
            return self.block.rows(column, self.lane, start, self.cursor + column.is_track)
        pieces = []
        skipped = self.lookback - self.lookback_of(column)
        for part in self._all_parts():
            start, stop = part.bounds(column)
            pieces.append(part.block.rows(column, self.lane, start + skipped, stop))
            skipped = 0
        return map_batch(lambda *leaves: np.concatenate(leaves), *pieces)

    def infos(self) -> Callable[[], list[dict[Any, Any]]]:
        """Return a function that makes the infos up to now, the lookback included."""
        if not self.parts:
            return self.block.infos(self.lane, self.start, self.cursor + 1)
        makers = [part.block.infos(self.lane, part.first_track, part.last + 1) for part in self._all_parts()]
        return lambda: [info for make in makers for info in make()]

    def num_infos(self) -> int:
        """Return how many infos there are, the lookback included."""
        return self.lookback + self.num_steps + 1

    def _all_parts(self) -> Iterator[BlockPart]:
        yield from self.parts
        yield self._last_part()

    def _last_part(self) -> BlockPart:
        if self.seam is None:
            return BlockPart(self.block, self.start, self.start, self.cursor)
        return BlockPart(self.block, self.seam + 1, self.seam, self.cursor)

    # --- From one block to the next ---------------------------------------------------------------------------------

    def move(self, block: Block, cursor: int) -> None:
        """Go on in `block`, which has the last slots of ours up to `cursor`."""
        if self.num_steps:
            self.parts.append(self._last_part())
            self.seam = cursor
        # At most so many slots were copied, and at most so many are of this episode.
        self.start = cursor - min(cursor, self.cursor - self.start)
        self.t_at_slot_0 += self.cursor - cursor
        self.block, self.cursor = block, cursor

    def successor(self, block: Block, cursor: int) -> Chunk:
        """Return the chunk that continues this one in `block`, which has the last slots of ours up to `cursor`."""
        lookback, t = min(cursor, self.cursor - self.start), self.t_at_slot_0 + self.cursor
        following = Chunk(self.lane, self.id_, block, cursor, t=t, lookback=lookback)
        following.start_time = self.last_step_time
        if self.shorter:
            reached = {column: known + self.num_steps for column, known in self.shorter.items()}
            following.shorter = {column: rows for column, rows in reached.items() if rows < lookback}
        if self.weights_versions:
            following.weights_versions = versions.between(self.weights_versions, t - lookback, t + 1)
        return following
