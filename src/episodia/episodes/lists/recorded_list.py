"""The list that a recorder returns: columns are read from the block, and episodes are made when one is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final
from weakref import ref

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Dict

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.episodes.lists import gather
from episodia.episodes.lists.episode_list import READING, EpisodeList
from episodia.episodes.lists.list_columns import (
    DERIVED,
    STORED,
    check_asked,
    check_kept,
    check_name,
    check_windows,
    with_item_at,
)
from episodia.episodes.lists.ragged import Ragged, offsets_of, rows_of_ranges, sparse_rows
from episodia.episodes.recorder.blocks import LeafArray
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorded_episode import Prepared, handed_out
from episodia.episodes.recorder.recorder_columns import RecorderColumn, RecorderLayout
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.episodes.single_agent.weights_versions import Versions
from episodia.trees import fresh, frozen
from episodia.types import Item

_IN_BLOCK = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS)


@final
class RecordedList(EpisodeList[SingleAgentEpisode]):
    """Chunks that a recorder returned together.

    Making an episode of a chunk takes about ten microseconds, as long as many of its steps. All episodes are made when the
    first one is read. Until then they cannot have changed, and whole columns are taken from the block in one gather;
    afterwards this is a list of episodes like any other. Several threads may read it.
    """

    __slots__ = ("__weakref__", "_listed", "_origin", "_recording", "_storages")

    def __init__(self, chunks: list[Chunk], layout: RecorderLayout, storages: list[Prepared]) -> None:
        """Adopt chunks that the recorder has finished, and the columns that cannot be read from their block."""
        recording = _Recording(chunks, layout)
        self._open(recording, storages, None)
        # Episodes that users have already, or that cannot be read from one block, are made at once.
        if recording.num_blocks > 1 or any(storages) or any(chunk.episode is not None for chunk in chunks):
            self.list_episodes()
        this = ref(self)
        for chunk in chunks:
            chunk.handed_to = this

    def _open(self, recording: _Recording, storages: list[Prepared], origin: RecordedList | None) -> None:
        """Read from `recording`; `origin` is the list whose episodes are forked when ours are read."""
        self._recording = recording
        self._storages = storages
        self._origin = origin
        self._listed: list[SingleAgentEpisode] | None = None
        self._begin([], is_multi_agent=False, copies_on_access=origin is not None, modules=recording.modules)

    @property
    def is_untouched(self) -> bool:
        """Whether no episode has been read yet."""
        return self._listed is None and (self._origin is None or self._origin.is_untouched)

    @property
    def _episodes(self) -> list[Any]:
        return self.list_episodes() if self._listed is None else self._listed

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        """Ignore what the base lists: episodes are made of chunks."""

    def list_episodes(self) -> list[Any]:
        """Make all episodes now, if that has not happened, and return them."""
        with READING:
            if self._listed is None:
                self._listed = self._made()
                # From now on the episodes hold what they need of the blocks.
                self._recording, self._storages = _Recording([], self._recording.layout), []
            return self._listed

    def _made(self) -> list[Any]:
        if self._origin is not None:
            return list(self._origin.list_episodes())
        pairs = zip(self._recording.chunks, self._storages, strict=True)
        return [handed_out(chunk, self._recording.layout, storages) for chunk, storages in pairs]

    def _untouched(self) -> _Recording | None:
        """Return what columns are read from, None after an episode was read; another thread may read one meanwhile."""
        recording = self._recording
        return recording if self.is_untouched else None

    def _relist(self, episodes: list[Any]) -> None:
        self.list_episodes()
        self._listed = episodes

    def untouched_chunks(self) -> list[Chunk] | None:
        """Return the chunks that episodes will be made of; None if they have been made."""
        recording = self._untouched()
        return None if recording is None else recording.chunks

    def __len__(self) -> int:
        chunks = self._recording.chunks
        return len(chunks if self._listed is None else self._listed)

    def forked(self) -> EpisodeList[SingleAgentEpisode]:
        """Return an equal list whose episodes can be changed without changing ours."""
        recording = self._untouched()
        if recording is None:
            return super().forked()
        forked = RecordedList.__new__(RecordedList)
        forked._open(recording, [], self)
        return forked

    def _as_group(self) -> EpisodeList[SingleAgentEpisode]:
        # Also after an episode was read: this list sees forks as they are made.
        return self

    # --- Answers without episodes -----------------------------------------------------------------------------------

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each episode: int64 [B]."""
        recording = self._untouched()
        return super().lengths if recording is None else recording.places.lengths

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each episode's first step: int64 [B]."""
        recording = self._untouched()
        return super().t_started if recording is None else recording.t_started

    @property
    def is_terminated(self) -> np.ndarray:
        """Which episodes are terminated: bool [B]."""
        recording = self._untouched()
        if recording is None:
            return super().is_terminated
        return np.array([chunk.is_terminated for chunk in recording.chunks], np.bool_)

    @property
    def is_truncated(self) -> np.ndarray:
        """Which episodes are truncated: bool [B]."""
        recording = self._untouched()
        if recording is None:
            return super().is_truncated
        return np.array([chunk.is_truncated for chunk in recording.chunks], np.bool_)

    @property
    def origins(self) -> list[Any]:
        """The id of each episode."""
        recording = self._untouched()
        return super().origins if recording is None else [chunk.id_ for chunk in recording.chunks]

    @property
    def weights_versions(self) -> list[Versions]:
        """Which version of the weights chose the actions of each episode, from which time step on."""
        recording = self._untouched()
        return super().weights_versions if recording is None else [chunk.weights_versions for chunk in recording.chunks]

    def has(self, column: str) -> bool:
        """Tell whether every episode has `column`."""
        recording = self._untouched()
        if recording is None:
            return super().has(column)
        check_name(column)
        return column in STORED or column in DERIVED or column in recording.layout.extras

    def has_in_observations(self, key: str) -> bool:
        """Tell whether observations are dicts with `key`."""
        recording = self._untouched()
        if recording is None:
            return super().has_in_observations(key)
        space = recording.layout.observation_space
        return isinstance(space, Dict) and key in space.spaces

    def extra_columns(self) -> list[str]:
        """Return the names of the extra model outputs."""
        recording = self._untouched()
        return super().extra_columns() if recording is None else list(recording.layout.extras)

    def flat(self, column: str, *, tail: bool = False) -> Ragged:
        """Return the rows of all episodes, one after another; see `EpisodeList.flat`."""
        check_asked(column, tail)
        recording = self._with_block_of(column)
        if recording is None:
            return super().flat(column, tail=tail)
        found = recording.layout.column(column)
        leaves = recording.chunks[0].block.leaves(found)
        rows = recording.places.rows(int(tail))
        return Ragged(_taken(found, leaves, rows), recording.places.extent(int(tail))[0], int(tail))

    def _extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        recording = self._untouched()
        return super()._extent(extra) if recording is None else recording.places.extent(extra)

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column`, None if it is not known."""
        check_name(column)
        recording = self._untouched()
        if recording is None:
            return super().space_of(column)
        return {
            Columns.OBS: recording.layout.observation_space,
            Columns.ACTIONS: recording.layout.action_space,
        }.get(column)

    def windows(self, column: str, *, shifts: Sequence[int], fill: Item, tail: bool = False, every: int = 1) -> Ragged:
        """Return for each row the items at `shifts` from it; see `EpisodeList.windows`."""
        check_windows(column, shifts, tail, every)
        recording = self._with_block_of(column)
        if recording is None:
            return super().windows(column, shifts=shifts, fill=fill, tail=tail, every=every)
        found, places = recording.layout.column(column), recording.places
        lengths, lookbacks = places.lengths, places.lookbacks(found)
        indices, counts = sparse_rows(lengths, int(tail), every) if every > 1 else (None, lengths + int(tail))
        stretches = gather.Stretches(
            lookbacks=lookbacks,
            counts=lengths + int(found.is_track),
            t_started=recording.t_started,
            begins=np.zeros_like(counts),
            rows=counts,
            indices=indices,
        )
        rows = rows_of_ranges(places.zeros - lookbacks, lookbacks + stretches.counts)
        values = gather.windows(_taken(found, recording.chunks[0].block.leaves(found), rows), stretches, shifts, fill)
        return Ragged(values, offsets_of(counts), int(tail), every)

    def preceding(self, column: str, first: Item) -> Ragged:
        """Return for each step, and after the last one, the item of the step before it; see `EpisodeList.preceding`."""
        check_name(column)
        recording = self._with_block_of(column)
        if recording is None:
            return super().preceding(column, first)
        found, offsets = recording.layout.column(column), recording.places.extent(1)[0]
        lookbacks = recording.places.lookbacks(found)
        check_kept(lookbacks, recording.t_started)
        # Without a step before, this is a row of another lane, and is overwritten below.
        taken = _taken(found, recording.chunks[0].block.leaves(found), recording.places.rows(1) - 1)
        begins = offsets[:-1][lookbacks == 0]
        return Ragged(with_item_at(begins, first, taken), offsets, 1)

    @property
    def lookbacks(self) -> np.ndarray:
        """How many steps before its first one each episode keeps: int64 [B]."""
        recording = self._untouched()
        if recording is None:
            return super().lookbacks
        return np.array([chunk.lookback for chunk in recording.chunks], np.int64)

    def _with_block_of(self, column: str) -> _Recording | None:
        """Return what `column` is read from; None if it is read from episodes."""
        recording = self._untouched()
        is_in_block = recording is not None and (column in _IN_BLOCK or column in recording.layout.extras)
        return recording if is_in_block else None


@final
class _Recording:
    """The chunks that a recorder returned, shared by their list and its forks."""

    __slots__ = ("_held", "chunks", "layout", "modules", "num_blocks", "places")

    def __init__(self, chunks: list[Chunk], layout: RecorderLayout) -> None:
        self.chunks = chunks
        self.layout = layout
        self.places = _Places(chunks)
        self.modules = {DEFAULT_MODULE_ID: np.arange(len(chunks))}
        blocks = {chunk.block for chunk in chunks}
        self.num_blocks = len(blocks)
        # A block is reused when its arrays have no readers; views on them are made with the episodes only.
        self._held = [array for block in blocks for array in block.arrays()]

    @property
    def t_started(self) -> np.ndarray:
        """The time step of each chunk's first step: int64 [B]."""
        return np.array([chunk.t_started for chunk in self.chunks], np.int64)


@final
class _Places:
    """The places of chunks in their block, counted once for all columns.

    Lanes and slots are one axis here. `zeros` are the rows of the chunks' first steps, `lengths` the numbers of their steps;
    both int64 [B].
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self._rows: dict[int, np.ndarray] = {}
        self._extents: dict[int, tuple[np.ndarray, list[int]]] = {}
        # Not `num_steps`: there are hundreds of chunks in a list, and properties are calls.
        lengths = [chunk.t_at_slot_0 + chunk.cursor - chunk.t_started for chunk in chunks]
        self.lengths = frozen(np.array(lengths, np.int64))

    @cached_property
    def zeros(self) -> np.ndarray:
        """The row of each chunk's first step, and of the observation that it was taken at."""
        slots = self._chunks[0].block.slots
        zeros: np.ndarray = np.array([chunk.lane * slots + chunk.cursor for chunk in self._chunks], np.int64)
        zeros -= self.lengths
        return zeros

    def lookbacks(self, column: RecorderColumn) -> np.ndarray:
        """Return how many rows of the past `column` has in each chunk."""
        return np.array([chunk.lookback_of(column) for chunk in self._chunks], np.int64)

    def rows(self, extra: int) -> np.ndarray:
        """Return the rows of the steps of all chunks, with `extra` rows after the last one of each."""
        if extra not in self._rows:
            self._rows[extra] = rows_of_ranges(self.zeros, self.lengths + extra)
        return self._rows[extra]

    def extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the rows of each chunk begin when they lie one after another, and how many it has."""
        if extra not in self._extents:
            counts = self.lengths + extra
            self._extents[extra] = frozen(offsets_of(counts)), counts.tolist()
        return self._extents[extra]


def _taken(column: RecorderColumn, leaves: list[LeafArray], rows: np.ndarray) -> Any:
    return column.nested([fresh(leaf.flat.take(rows, 0)) for leaf in leaves])
