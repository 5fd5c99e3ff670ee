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
from episodia.episodes.lists.ragged import Ragged, rows_of_ranges
from episodia.episodes.single_agent.weights_versions import Versions, version_at
from episodia.replay.rows.row_columns import TRACKS
from episodia.replay.rows.row_index import TERMINATED, TRUNCATED
from episodia.replay.rows.row_writer import Chunks
from episodia.trees import map_batch
from episodia.types import Item

# Arrays without axes, which NumPy combines with others faster than numbers.
_TERMINATED, _TRUNCATED = np.array(TERMINATED, np.uint8), np.array(TRUNCATED, np.uint8)
_OF_SAMPLES = frozenset({Columns.KEYS, Columns.WEIGHTS})


class Ending(NamedTuple):
    """A chunk without steps that says how its episode has ended."""

    key: Hashable
    t: int
    flags: int


class Incoming(NamedTuple):
    """Chunks with at least one step each, which have the same columns.

    Attributes:
        chunks: Ids, times, lengths and flags.
        values: Nested arrays by column: one row for each step, and for tracks one more for each chunk.
        endings: Chunks without steps.
        spaces: Returns the spaces of observations and actions, by column.
        versions: Returns which versions of the weights each chunk has.
    """

    chunks: Chunks
    values: dict[str, Any]
    endings: list[Ending]
    spaces: Callable[[], dict[str, Space[Any] | None]]
    versions: Callable[[], list[Versions]]


def incoming(episodes: EpisodeList, *, infos: bool) -> list[Incoming]:
    """Return the single-agent `episodes` as chunks; one `Incoming` for neighbours with the same extra columns.

    Keys and weights, which episodes from a sample have, are left out: they belong to the buffer that the sample is from.
    """
    extras = [name for name in episodes.extra_columns() if name not in _OF_SAMPLES]
    if all(map(episodes.has, extras)):
        return [_incoming(episodes, extras, infos=infos)]
    parts = groupby(episodes, key=lambda episode: tuple(episode.extra_model_outputs))
    return [
        _incoming(EpisodeList(part), [name for name in names if name not in _OF_SAMPLES], infos=infos)
        for names, part in parts
    ]


def _incoming(episodes: EpisodeList, extras: list[str], *, infos: bool) -> Incoming:
    flags = episodes.is_terminated.view(np.uint8) * _TERMINATED
    flags |= episodes.is_truncated.view(np.uint8) * _TRUNCATED
    chunks = Chunks(episodes.origins, episodes.t_started, episodes.lengths, flags)
    if np.count_nonzero(chunks.lengths) == len(chunks.lengths):
        values = {name: _values(name, column) for name, column in _columns(episodes, extras, infos=infos)}
        return Incoming(chunks, values, [], partial(_spaces, episodes), lambda: episodes.weights_versions)
    kept = np.flatnonzero(chunks.lengths)
    versions = [episodes.weights_versions[chunk] for chunk in kept.tolist()]
    values = {}
    if len(kept):
        columns = _columns(episodes, extras, infos=infos)
        values = {name: _values(name, column.select(kept)) for name, column in columns}
    return Incoming(_selected(chunks, kept), values, _endings(chunks), partial(_spaces, episodes), lambda: versions)


def _spaces(episodes: EpisodeList) -> dict[str, Space[Any] | None]:
    return {name: episodes.space_of(name) for name in (Columns.OBS, Columns.ACTIONS)}


def _columns(episodes: EpisodeList, extras: list[str], *, infos: bool) -> Iterator[tuple[str, Ragged]]:
    names = [Columns.OBS, Columns.ACTIONS, Columns.REWARDS, *extras, *([Columns.INFOS] if infos else [])]
    return ((name, episodes.flat(name, tail=name in TRACKS)) for name in names)


def _values(name: str, column: Ragged) -> Any:
    """Return the rows of a column; rewards are floats, so that a buffer whose first rewards are integers takes all others."""
    if name == Columns.REWARDS and column.values.dtype.kind != "f":
        return column.values.astype(np.float64)
    return column.values


def _selected(chunks: Chunks, positions: np.ndarray) -> Chunks:
    keys = [chunks.keys[chunk] for chunk in positions.tolist()]
    return Chunks(keys, chunks.t_started[positions], chunks.lengths[positions], chunks.flags[positions])


def kept_chunks(found: Incoming, positions: np.ndarray) -> Incoming:
    """Return the chunks at `positions` alone."""
    lengths = found.chunks.lengths
    steps = rows_of_ranges((np.cumsum(lengths) - lengths)[positions], lengths[positions])
    tracks = rows_of_ranges((np.cumsum(lengths + 1) - lengths - 1)[positions], lengths[positions] + 1)
    values = {
        name: map_batch(lambda leaf, rows=tracks if name in TRACKS else steps: leaf.take(rows, 0), column)
        for name, column in found.values.items()
    }
    return found._replace(
        chunks=_selected(found.chunks, positions),
        values=values,
        versions=lambda: [found.versions()[position] for position in positions.tolist()],
    )


def _endings(chunks: Chunks) -> list[Ending]:
    at = np.flatnonzero((chunks.lengths == 0) & (chunks.flags != 0))
    return [Ending(chunks.keys[chunk], int(chunks.t_started[chunk]), int(chunks.flags[chunk])) for chunk in at.tolist()]


def in_parts(found: Incoming, reserve: int, most: int) -> Iterator[Incoming]:
    """Yield `found` in parts for which at most `most` rows are claimed: for each chunk as many as it has, or `reserve`."""
    if int(np.add.reduce(found.chunks.lengths)) + len(found.chunks.lengths) * (1 + reserve) <= most:
        yield found
        return
    rooms = np.maximum(found.chunks.lengths + 1, reserve)
    bounds, total = [0], 0
    for chunk, room in enumerate(rooms.tolist()):
        if total + room > most and chunk > bounds[-1]:
            bounds.append(chunk)
            total = 0
        total += room
    offsets = np.concatenate([[0], np.cumsum(found.chunks.lengths)])
    versions = found.versions()
    for start, stop in zip(bounds, [*bounds[1:], len(rooms)], strict=True):
        first, last = int(offsets[start]), int(offsets[stop])

        values = {
            name: _rows(column, first + start, last + stop) if name in TRACKS else _rows(column, first, last)
            for name, column in found.values.items()
        }
        chunks = _selected(found.chunks, np.arange(start, stop))
        yield Incoming(chunks, values, [], found.spaces, partial(list, versions[start:stop]))


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
