"""The rows of chunks that a recorder returned: columns are read from its block, and packed without making episodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, final
from weakref import ref

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Dict

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.episodes.lists import list_state
from episodia.episodes.lists.ragged import counted, even_offsets, offsets_of, rows_of_ranges
from episodia.episodes.lists.unmade_list import UnmadeList
from episodia.episodes.lists.unmade_rows import ChunkFacts, RowsInPlace, StoredColumn, UnmadeRows
from episodia.episodes.recorder.blocks import LeafArray
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorded_episode import Prepared, handed_out
from episodia.episodes.recorder.recorder_columns import RecorderColumn, RecorderLayout
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.episodes.single_agent.weights_versions import Versions
from episodia.space_codec import encoded_once
from episodia.trees import fresh, frozen
from episodia.types import State

# NumPy takes a dtype faster than the type of a number.
_INT, _BYTE = np.dtype(np.int64), np.dtype(np.uint8)

_IN_BLOCK = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS)

# Fields of episodes: those that only agents have, and those that chunks have under the same name.
_OF_AGENTS = ("agent_id", "module_id", "multi_agent_episode_id")
_OF_CHUNKS = ("id_", "is_terminated", "is_truncated", "t_started")


def recorded_list(
    chunks: list[Chunk], layout: RecorderLayout, storages: list[Prepared]
) -> UnmadeList[SingleAgentEpisode]:
    """Return the list of chunks that a recorder has finished together.

    Args:
        chunks: The chunks.
        layout: The columns.
        storages: Of each chunk, the columns that cannot be read from its block.
    """
    rows = RecordedRows(chunks, layout, storages)
    listed: UnmadeList[SingleAgentEpisode] = UnmadeList(rows)
    # Episodes that users have already, or that cannot be read from one block, are made at once.
    if rows.num_blocks > 1 or any(storages) or any(chunk.episode is not None for chunk in chunks):
        listed.list_episodes()
    this = ref(listed)
    for chunk in chunks:
        chunk.handed_to = this
    return listed


@final
class RecordedRows(UnmadeRows):
    """The rows of chunks in the block of a recorder, shared by their list and its forks."""

    def __init__(self, chunks: list[Chunk], layout: RecorderLayout, storages: list[Prepared]) -> None:
        self.chunks = chunks
        self.layout = layout
        self._storages = storages
        self._places = _Places(chunks)
        self.lengths = self._places.lengths
        self.modules = {DEFAULT_MODULE_ID: np.arange(len(chunks))}
        blocks = {chunk.block for chunk in chunks}
        self.num_blocks = len(blocks)
        # A block is reused when its arrays have no readers; views on them are made with the episodes only.
        self._held = [array for block in blocks for array in block.arrays()]

    def __len__(self) -> int:
        return len(self.chunks)

    def make(self) -> list[Any]:
        """Make the episodes."""
        pairs = zip(self.chunks, self._storages, strict=True)
        return [handed_out(chunk, self.layout, storages) for chunk, storages in pairs]

    @property
    def extras(self) -> Collection[str]:  # type: ignore[override]  # it is only read
        """The names of the extra model outputs."""
        return self.layout.extras.keys()

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each chunk's first step: int64 [B]."""
        return np.array([chunk.t_started for chunk in self.chunks], _INT)

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each chunk that is terminated: bool [B]."""
        return np.array([chunk.is_terminated for chunk in self.chunks], np.bool_)

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each chunk that is truncated: bool [B]."""
        return np.array([chunk.is_truncated for chunk in self.chunks], np.bool_)

    @property
    def lookbacks(self) -> np.ndarray:
        """The number of earlier steps that each chunk keeps: int64 [B]."""
        return np.array([chunk.lookback for chunk in self.chunks], _INT)

    @property
    def origins(self) -> list[Any]:
        """The id of each episode."""
        return [chunk.id_ for chunk in self.chunks]

    @property
    def weights_versions(self) -> list[Versions]:
        """The versions of the weights that acted in each chunk."""
        return [chunk.weights_versions for chunk in self.chunks]

    def in_place(self) -> RowsInPlace | None:
        """Return where all columns but infos are in the block; None if a chunk has no steps."""
        columns = self.layout.stored_columns
        if columns is None or self._places.has_empty:
            return None
        leaves = self.chunks[0].block.leaves
        arrays = {
            name: leaves[column][0].flat if column.is_leaf else _flat(column, leaves[column])
            for name, column in columns.items()
        }
        return RowsInPlace(self._places.facts(), arrays, self._places.zeros)

    def has_extra(self, name: str) -> bool:
        """Tell whether all chunks have the extra model output `name`."""
        return name in self.layout.extras

    def has_in_observations(self, key: str) -> bool:
        """Tell whether observations are dicts with `key`."""
        space = self.layout.observation_space
        return isinstance(space, Dict) and key in space.spaces

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of observations or actions."""
        return {
            Columns.OBS: self.layout.observation_space,
            Columns.ACTIONS: self.layout.action_space,
        }.get(column)

    def _column(self, name: str) -> RecorderColumn | None:
        is_in_block = name in _IN_BLOCK or name in self.layout.extras
        return self.layout.column(name) if is_in_block else None

    def stored(self, column: str) -> StoredColumn | None:
        """Return where `column` is in the block."""
        found = self._column(column)
        if found is None:
            return None
        leaves = self.chunks[0].block.leaves[found]
        places = self._places
        return StoredColumn(partial(_taken, found, leaves), places.zeros, places.lookbacks(found), found.is_track)

    def extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the rows of each chunk begin when they lie one after another, and how many it has."""
        return self._places.extent(extra)

    def flat(self, column: str, extra: int) -> Any:
        """Return the steps of all chunks, with `extra` rows after the last one of each."""
        found = self._column(column)
        if found is None or extra > found.is_track:
            return None  # after its steps, the block has rows of other chunks
        return _taken(found, self.chunks[0].block.leaves[found], self._places.rows(extra))

    # --- The way to another process ---------------------------------------------------------------------------------

    def packed(self) -> State | None:
        """Return the rows as a table, without making episodes."""
        chunks, layout = self.chunks, self.layout
        is_plain = layout.actions is not None and layout.rewards is not None and self.num_blocks == 1
        if not is_plain or layout.episode_class is not SingleAgentEpisode or not all(chunk.t for chunk in chunks):
            return None
        fields: dict[str, Any] = {name: list_state.alike(None) for name in _OF_AGENTS}
        fields |= {
            "env_index": list_state.each([chunk.lane for chunk in chunks]),
            "agent_index": list_state.alike(0),
            "t": list_state.each([chunk.t for chunk in chunks]),
            "_observation_space": list_state.alike(encoded_once(layout.observation_space)),
            "_action_space": list_state.alike(encoded_once(layout.action_space)),
            "_start_time": list_state.each([chunk.start_time for chunk in chunks]),
            "_last_step_time": list_state.each([chunk.last_step_time for chunk in chunks]),
            "weights_versions": list_state.each([list(map(list, chunk.weights_versions)) for chunk in chunks]),
            "custom_data": list_state.each([{} for _ in chunks]),
        }
        fields |= {name: list_state.each([getattr(chunk, name) for chunk in chunks]) for name in _OF_CHUNKS}
        columns = {
            "observations": self._packed_column(layout.known_observations),
            "actions": self._packed_column(layout.known_actions),
            "rewards": self._packed_column(layout.known_rewards),
            "infos": [list_state.items_of(self._infos(), self.lookbacks.tolist())],
        }
        extras = {name: self._packed_column(column) for name, column in layout.extras.items()}
        return list_state.table_of(len(chunks), fields, columns, extras)

    def _packed_column(self, column: RecorderColumn) -> list[State]:
        lookbacks = self._places.lookbacks(column)
        if any(leaf.is_object for leaf in column.leaves):
            return [list_state.items_of([chunk.batch(column) for chunk in self.chunks], lookbacks.tolist())]
        counts = self.lengths + lookbacks + int(column.is_track)
        rows = rows_of_ranges(self._places.zeros - lookbacks, counts)
        taken = _taken(column, self.chunks[0].block.leaves[column], rows)
        return [list_state.values_of(taken, counts, lookbacks)]

    def _infos(self) -> list[Any]:
        """Return the infos of each chunk, and of a chunk without any their number."""
        if not self.chunks[0].block.has_infos:
            return [chunk.num_infos() for chunk in self.chunks]
        made = [chunk.infos()() for chunk in self.chunks]
        return [infos if any(infos) else len(infos) for infos in made]


@final
class _Places:
    """The places of chunks in their block, counted once for all columns.

    Lanes and slots are one axis here. `zeros` are the rows of the chunks' first steps, `lengths` the numbers of their steps;
    both int64 [B]. `has_empty` tells whether a chunk has no steps.
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self._zeros: np.ndarray | None = None
        self._rows: dict[int, np.ndarray] = {}
        self._extents: dict[int, tuple[np.ndarray, list[int]]] = {}
        # Not `num_steps`: there are hundreds of chunks in a list, and properties are calls.
        lengths = [chunk.t_at_slot_0 + chunk.cursor - chunk.t_started for chunk in chunks]
        self.lengths = frozen(np.array(lengths, _INT))
        self.has_empty = 0 in lengths
        # The length of all chunks, if it is the same: chunks of one vector step, for example.
        self._width = lengths[0] if len(set(lengths)) == 1 else None

    def facts(self) -> ChunkFacts:
        """Return what is known of the chunks beside their columns."""
        chunks, lengths = self._chunks, self.lengths
        return ChunkFacts(
            [chunk.id_ for chunk in chunks],
            np.array([chunk.t_started for chunk in chunks], _INT),
            lengths,
            np.array([chunk.is_terminated + 2 * chunk.is_truncated for chunk in chunks], _BYTE),
            int(lengths.sum()) if self._width is None else self._width * len(lengths),
        )

    @property
    def zeros(self) -> np.ndarray:
        """The row of each chunk's first step, and of the observation that it was taken at."""
        # Not a `cached_property`: its lock takes longer than this for a list of few chunks.
        if self._zeros is None:
            slots = self._chunks[0].block.slots
            zeros = [chunk.lane * slots + chunk.t_started - chunk.t_at_slot_0 for chunk in self._chunks]
            self._zeros = np.array(zeros, _INT)
        return self._zeros

    def lookbacks(self, column: RecorderColumn) -> np.ndarray:
        """Return how many rows of the past `column` has in each chunk."""
        return np.array([chunk.lookback_of(column) for chunk in self._chunks], _INT)

    def rows(self, extra: int) -> np.ndarray:
        """Return the rows of the steps of all chunks, with `extra` rows after the last one of each."""
        if extra not in self._rows:
            if self._width is None:
                self._rows[extra] = rows_of_ranges(self.zeros, self.lengths + extra)
            else:
                self._rows[extra] = (self.zeros[:, None] + counted(self._width + extra)).reshape(-1)
        return self._rows[extra]

    def extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the rows of each chunk begin when they lie one after another, and how many it has."""
        if extra not in self._extents:
            if self._width is None:
                counts = self.lengths + extra
                self._extents[extra] = frozen(offsets_of(counts)), counts.tolist()
            else:
                num, width = len(self.lengths), self._width + extra
                self._extents[extra] = even_offsets(num, width), [width] * num
        return self._extents[extra]


def _flat(column: RecorderColumn, leaves: list[LeafArray]) -> Any:
    return column.nested([leaf.flat for leaf in leaves])


def _taken(column: RecorderColumn, leaves: list[LeafArray], rows: np.ndarray) -> Any:
    return column.nested([fresh(leaf.flat.take(rows, 0)) for leaf in leaves])
