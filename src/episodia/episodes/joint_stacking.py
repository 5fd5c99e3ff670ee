"""Finalizing the columns of many agents at once.

A column of a few items costs more for being a column than for its items. Columns of one space are therefore stacked and
checked together, and each agent gets its rows of the one array. That is the same as one by one if all items are plain
numbers or arrays of one dtype and shape; all other columns are left to be stacked one by one, which also says what is
wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter, countOf
from typing import Any

import numpy as np

from episodia.episodes.array_storage import ArrayStorage
from episodia.episodes.lookback_buffer import LookbackBuffer
from episodia.episodes.single_agent_episode import SingleAgentEpisode
from episodia.episodes.storage import ListStorage, Storage
from episodia.errors import EpisodiaError
from episodia.trees import PLAIN_DTYPES, SCALAR_DTYPES, joined_rows

_ALL = slice(None)
_COLUMNS = {name: attrgetter(name) for name in ("observations", "actions", "rewards")}


def finalize(episodes: Iterable[SingleAgentEpisode]) -> None:
    """Turn the columns of all `episodes` into arrays, in place; if one of them cannot be, none is.

    Raises:
        ShapeError: If the items of a column do not fit together.
        SpaceError: If an item lies outside of its space.
    """
    growing = [episode for episode in episodes if not episode.observations.finalized]
    if not growing:
        return
    stacked: list[tuple[LookbackBuffer, Storage]] = []
    for name, owners, columns in _groups(growing):
        storages = _together(columns) or [_alone(*place, name) for place in zip(owners, columns, strict=True)]
        stacked += zip(columns, storages, strict=True)
    # Everything fits: from here on nothing can fail.
    for column, storage in stacked:
        column.adopt_stacked(storage)
    for episode in growing:
        episode.infos.finalized = True


def _groups(
    episodes: list[SingleAgentEpisode],
) -> Iterator[tuple[str, list[SingleAgentEpisode], list[LookbackBuffer]]]:
    """Yield each name of a column with the episodes that have it and their columns, those of one space together."""
    for name, column_of in _COLUMNS.items():
        yield from _by_space(name, episodes, list(map(column_of, episodes)))
    for name in {name: None for episode in episodes for name in episode.extra_model_outputs}:
        owners = [episode for episode in episodes if name in episode.extra_model_outputs]
        yield from _by_space(name, owners, [episode.extra_model_outputs[name] for episode in owners])


def _by_space(
    name: str, episodes: list[SingleAgentEpisode], columns: list[LookbackBuffer]
) -> Iterator[tuple[str, list[SingleAgentEpisode], list[LookbackBuffer]]]:
    spaces = [id(column._space) for column in columns]
    if countOf(spaces, spaces[0]) == len(spaces):
        yield name, episodes, columns
        return
    for space in dict.fromkeys(spaces):
        own = [place for place, other in enumerate(spaces) if other == space]
        yield name, [episodes[place] for place in own], [columns[place] for place in own]


def _alone(episode: SingleAgentEpisode, column: LookbackBuffer, name: str) -> Storage:
    try:
        storage = column.stacked()
        column.check_bounds(storage)
    except EpisodiaError as error:
        raise type(error)(f"agent {episode.agent_id!r}, {name}: {error}") from error
    return storage


def _together(columns: list[LookbackBuffer]) -> list[Storage] | None:
    """Return what columns of one space are stored in once finalized, None if they have to be stacked one by one."""
    items: list[Any] = []
    lengths = []
    for column in columns:
        storage = column._storage
        if type(storage) is not ListStorage:
            return None  # a borrowed array: there is nothing to stack
        part = storage.lend(_ALL)
        items += part
        lengths.append(len(part))
    batch = _one_array(items) if len(columns) > 1 and items else None
    if batch is None:
        return None
    try:
        columns[0].check_batch(batch)
    except EpisodiaError:
        return None
    rows: list[Storage] = [*ArrayStorage.in_rows_of(batch, lengths)]
    if all(lengths):
        return rows
    # An empty column has the dtype of its space, not that of the others.
    return [own if len(own) else column.stacked() for own, column in zip(rows, columns, strict=True)]


def _one_array(items: list[Any]) -> np.ndarray | None:
    """Return the items as rows, None if they differ in type, shape or dtype, or are not plain."""
    kind = type(items[0])
    if kind is np.ndarray:
        return _rows(items)
    if kind not in SCALAR_DTYPES or not _all_of(kind, items):
        return None
    try:
        return np.fromiter(items, SCALAR_DTYPES[kind], len(items))
    except OverflowError:  # integers beyond 64 bits
        return None


def _all_of(kind: type, items: list[Any]) -> bool:
    return countOf(map(type, items), kind) == len(items)


def _rows(items: list[np.ndarray]) -> np.ndarray | None:
    batch = joined_rows(items)
    shape, dtype = items[0].shape, items[0].dtype
    if batch is not None or not shape or dtype not in PLAIN_DTYPES or not _all_of(np.ndarray, items):
        return batch
    try:
        # Compares all lengths but the first.
        batch = np.concatenate(items, dtype=dtype, casting="no")
    except (TypeError, ValueError):
        return None
    return batch.reshape(len(items), *shape) if len(set(map(len, items))) == 1 else None
