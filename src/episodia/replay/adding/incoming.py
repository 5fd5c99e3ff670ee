"""Episodes on their way into a buffer: their chunks, and their columns one after another."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged, offsets_of, rows_of_ranges
from episodia.episodes.lists.unmade_rows import ChunkFacts
from episodia.episodes.single_agent.weights_versions import Versions, version_at
from episodia.replay.rows.row_columns import TRACKS
from episodia.replay.rows.row_index import TERMINATED
from episodia.trees import map_batch
from episodia.types import Item

# An array without axes, which NumPy combines with others faster than a number.
_ONE = np.array(1)
_OF_SAMPLES = frozenset({Columns.KEYS, Columns.WEIGHTS, Columns.NEXT_ACTION_MASK})


class Ending(NamedTuple):
    """A chunk without steps that says how its episode has ended."""

    key: Hashable
    t: int
    flags: int


class Incoming(NamedTuple):
    """Chunks with at least one step each, which have the same columns.

    Attributes:
        chunks: Ids, times, lengths and ends.
        values: Nested arrays by column: one row for each step, and for tracks one more for each chunk.
        starts: Where each chunk begins in `values`, if these are larger arrays: int64 [B]; None if all rows are those of the
            chunks, one after another.
        endings: Chunks without steps.
        episodes: The list that all of them are from.
        versions: Returns which versions of the weights each chunk has.
    """

    chunks: ChunkFacts
    values: dict[str, Any]
    starts: np.ndarray | None
    endings: list[Ending]
    episodes: EpisodeList
    versions: Callable[[], list[Versions]]

    def spaces(self) -> dict[str, Space[Any] | None]:
        """Return the spaces of observations and actions, by column."""
        return {name: self.episodes.space_of(name) for name in (Columns.OBS, Columns.ACTIONS)}

    def step_rows(self, num: int) -> np.ndarray | slice:
        """Return where the steps of all chunks, `num` of them, are in `values`."""
        return slice(None) if self.starts is None else _rows_of(self.starts, self.chunks.lengths, num)

    def track_rows(self, is_stored: np.ndarray | None, num: int) -> np.ndarray | slice:
        """Return where the `num` new observations of all chunks are in the `values` of tracks.

        Args:
            is_stored: Of which chunks the first observation is not new; None if that holds for all of them.
            num: The number of observations that are new.
        """
        starts, lengths = self.starts, self.chunks.lengths
        if starts is None:
            if is_stored is not None and not is_stored.any():
                return slice(None)
            starts = np.cumsum(lengths + 1) - lengths - 1
        if is_stored is None:
            return _rows_of(starts + _ONE, lengths, num)
        return _rows_of(starts + is_stored, lengths + ~is_stored, num)


def _rows_of(starts: np.ndarray, counts: np.ndarray, num: int) -> np.ndarray:
    """Return the rows of ranges that have at least one row each, `num` rows together."""
    return starts if num == len(starts) else rows_of_ranges(starts, counts)


def incoming(episodes: EpisodeList, *, infos: bool) -> list[Incoming]:
    """Return the single-agent `episodes` as chunks; one `Incoming` for neighbours with the same extra columns.

    Keys and weights, which episodes from a sample have, are left out: they belong to the buffer that the sample is from.
    """
    found = None if infos else episodes.in_place()
    # Else not all columns are stored as they are.
    if found and found.arrays[Columns.REWARDS].dtype.kind == "f" and _OF_SAMPLES.isdisjoint(found.arrays):
        return [Incoming(found.facts, found.arrays, found.starts, [], episodes, lambda: episodes.weights_versions)]
    extras = [name for name in episodes.extra_columns() if name not in _OF_SAMPLES]
    if all(map(episodes.has, extras)):
        return [_incoming(episodes, extras, infos=infos)]
    parts = groupby(episodes, key=lambda episode: tuple(episode.extra_model_outputs))
    return [
        _incoming(EpisodeList(part), [name for name in names if name not in _OF_SAMPLES], infos=infos)
        for names, part in parts
    ]


def _incoming(episodes: EpisodeList, extras: list[str], *, infos: bool) -> Incoming:
    chunks = episodes.facts()
    names = [Columns.OBS, Columns.ACTIONS, Columns.REWARDS, *extras, *([Columns.INFOS] if infos else [])]
    columns = ((name, episodes.flat(name, tail=name in TRACKS)) for name in names)
    lengths = chunks.lengths
    if np.count_nonzero(lengths) == len(lengths):
        values = {name: _values(name, column) for name, column in columns}
        return Incoming(chunks, values, None, [], episodes, lambda: episodes.weights_versions)
    kept = np.flatnonzero(lengths)
    versions = [episodes.weights_versions[chunk] for chunk in kept.tolist()]
    values = {name: _values(name, column.select(kept)) for name, column in columns} if len(kept) else {}
    return Incoming(chunks.at(kept), values, None, _endings(chunks), episodes, lambda: versions)


def _values(name: str, column: Ragged) -> Any:
    """Return the rows of a column; rewards are floats, so that a buffer whose first rewards are integers takes all others."""
    if name == Columns.REWARDS and column.values.dtype.kind != "f":
        return column.values.astype(np.float64)
    return column.values


def joined_chunks(parts: list[Incoming]) -> ChunkFacts:
    """Return the chunks of all parts, one part after another."""
    each = [part.chunks for part in parts]
    return ChunkFacts(
        [key for chunks in each for key in chunks.origins],
        np.concatenate([chunks.t_started for chunks in each]),
        np.concatenate([chunks.lengths for chunks in each]),
        np.concatenate([chunks.ends for chunks in each]),
        sum(chunks.num_steps for chunks in each),
    )


def kept_chunks(found: Incoming, positions: np.ndarray) -> Incoming:
    """Return the chunks at `positions` alone."""
    lengths, starts, values = found.chunks.lengths, found.starts, found.values
    if starts is None:
        steps = rows_of_ranges((np.cumsum(lengths) - lengths)[positions], lengths[positions])
        tracks = rows_of_ranges((np.cumsum(lengths + 1) - lengths - 1)[positions], lengths[positions] + 1)
        values = {
            name: map_batch(lambda leaf, rows=tracks if name in TRACKS else steps: leaf.take(rows, 0), column)
            for name, column in values.items()
        }
    return found._replace(
        chunks=found.chunks.at(positions),
        values=values,
        starts=None if starts is None else starts[positions],
        versions=lambda: [found.versions()[position] for position in positions.tolist()],
    )


def _endings(chunks: ChunkFacts) -> list[Ending]:
    ids, times, ends = chunks.origins, chunks.t_started.tolist(), chunks.ends.tolist()
    at = np.flatnonzero((chunks.lengths == 0) & (chunks.ends != 0))
    return [Ending(ids[chunk], times[chunk], TERMINATED * ends[chunk]) for chunk in at.tolist()]


def in_parts(found: Incoming, reserve: int, most: int) -> Iterator[Incoming]:
    """Yield `found` in parts for which at most `most` rows are claimed: for each chunk as many as it has, or `reserve`."""
    lengths, starts = found.chunks.lengths, found.starts
    if found.chunks.num_steps + len(lengths) * (1 + reserve) <= most:
        yield found
        return
    rooms = np.maximum(lengths + 1, reserve)
    bounds, total = [0], 0
    for chunk, room in enumerate(rooms.tolist()):
        if total + room > most and chunk > bounds[-1]:
            bounds.append(chunk)
            total = 0
        total += room
    offsets = offsets_of(lengths)
    versions = found.versions()
    for start, stop in zip(bounds, [*bounds[1:], len(rooms)], strict=True):
        first, last = int(offsets[start]), int(offsets[stop])
        values = found.values
        if starts is None:
            values = {
                name: _rows(column, first + start, last + stop) if name in TRACKS else _rows(column, first, last)
                for name, column in values.items()
            }
        yield found._replace(
            chunks=found.chunks.at(np.arange(start, stop)),
            values=values,
            starts=None if starts is None else starts[start:stop],
            endings=[],
            versions=partial(list, versions[start:stop]),
        )


def _rows(column: Item, start: int, stop: int) -> Any:
    return map_batch(lambda leaf: leaf[start:stop], column)


def versions_of_steps(found: Incoming) -> np.ndarray:
    """Return the version of the weights that chose the action of each step, -1 if it is not known: int64 [N]."""
    chunks, versions = found.chunks, found.versions()
    if all(len(history) <= 1 for history in versions):
        # Nearly always: a history begins before the chunk.
        known = [history[0] if history else (0, -1) for history in versions]
        starts, numbers = np.array(known, np.int64).reshape(-1, 2).T
        times = np.repeat(chunks.t_started, chunks.lengths) + rows_of_ranges(
            np.zeros_like(chunks.lengths), chunks.lengths
        )
        return np.where(times < np.repeat(starts, chunks.lengths), -1, np.repeat(numbers, chunks.lengths))
    found_versions = [
        -1 if (version := version_at(history, t)) is None else version
        for history, start, length in zip(versions, chunks.t_started.tolist(), chunks.lengths.tolist(), strict=True)
        for t in range(start, start + length)
    ]
    return np.array(found_versions, np.int64)
