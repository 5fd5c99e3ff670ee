"""Finalizing the columns of many agents at once.

A column of a few items costs more for being a column than for its items. Columns of one space are therefore stacked and
checked together, and each agent gets its rows of the one array. That is the same as one by one if all items are plain
numbers or arrays of one dtype and shape; all other columns are left to be stacked one by one, which also says what is
wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter, countOf
from typing import Any, TypeAlias

import numpy as np

from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.storage import ListStorage, Storage
from episodia.episodes.single_agent.single_agent_columns import check_lengths
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError
from episodia.stacking import SCALAR_DTYPES, joined_rows
from episodia.trees import PLAIN_DTYPES

# Some columns, and what each of them is stored in.
Stacked: TypeAlias = tuple[list[LookbackBuffer], list[Storage]]
_COLUMNS = {name: attrgetter(name) for name in ("observations", "actions", "rewards")}


def finalize(episodes: Iterable[SingleAgentEpisode], *, check_bounds: bool = True) -> None:
    """Turn the columns of all `episodes` into arrays, in place; if one of them cannot be, none is.

    Raises:
        EpisodeError: If columns of an episode have different lengths.
        ShapeError: If the items of a column do not fit together.
        SpaceError: If an item lies outside of its space, and `check_bounds` asks for that.
    """
    growing = [episode for episode in episodes if not episode.is_finalized]
    if not growing:
        return
    for episode in growing:
        try:
            check_lengths(episode)
        except EpisodeError as error:
            raise EpisodeError(f"agent {episode.agent_id!r}: {error}") from error
    stacked: list[Stacked] = []
    for name, column_of in _COLUMNS.items():
        stacked += _stacked(name, growing, list(map(column_of, growing)), check_bounds)
    for name in {name: None for episode in growing for name in episode.extra_model_outputs}:
        owners = [episode for episode in growing if name in episode.extra_model_outputs]
        columns = [episode.extra_model_outputs[name] for episode in owners]
        stacked += _stacked(name, owners, columns, check_bounds)
    # Everything fits: from here on nothing can fail.
    for columns, storages in stacked:
        for column, storage in zip(columns, storages, strict=True):
            column.adopt_stacked(storage)
    for episode in growing:
        episode.infos.finalized = True


def _stacked(
    name: str, episodes: list[SingleAgentEpisode], columns: list[LookbackBuffer], check_bounds: bool
) -> list[Stacked]:
    """Return what `columns`, those called `name` of `episodes`, are stored in once finalized."""
    storages = _together(columns, check_bounds)
    if storages is not None:
        return [(columns, storages)]
    by_space: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        by_space.setdefault(id(column.space), []).append(place)
    stacked: list[Stacked] = []
    for places in by_space.values():
        own = [columns[place] for place in places]
        storages = _together(own, check_bounds) if len(by_space) > 1 else None
        stacked.append(
            (own, storages or [_alone(episodes[place], columns[place], name, check_bounds) for place in places])
        )
    return stacked


def _alone(episode: SingleAgentEpisode, column: LookbackBuffer, name: str, check_bounds: bool) -> Storage:
    try:
        storage = column.stacked()
        if check_bounds:
            column.check_bounds(storage)
    except EpisodiaError as error:
        raise type(error)(f"agent {episode.agent_id!r}, {name}: {error}") from error
    return storage


def _together(columns: list[LookbackBuffer], check_bounds: bool) -> list[Storage] | None:
    """Return what columns are stored in once finalized, None if they have not one space or have to be stacked one by one."""
    space = columns[0].space
    items: list[Any] = []
    lengths = []
    alike = columns[0].row_shape is not None
    for column in columns:
        storage = column.storage
        if type(storage) is not ListStorage or column.space is not space:
            return None  # of a borrowed array, there is nothing to stack
        part = storage.values
        items.extend(part)  # of a list or of the rows of an array
        lengths.append(len(part))
        alike = alike and storage.alike
    batch = _one_array(items, alike=alike) if len(columns) > 1 and items else None
    if batch is None:
        return None
    try:
        if check_bounds:
            columns[0].check_batch(batch)
    except EpisodiaError:
        return None
    rows: list[Storage] = [*ArrayStorage.in_rows_of(batch, lengths)]
    if 0 not in lengths:
        return rows
    # An empty column has the dtype of its space, not that of the others.
    return [own if len(own) else column.stacked() for own, column in zip(rows, columns, strict=True)]


def _one_array(items: list[Any], *, alike: bool) -> np.ndarray | None:
    """Return the items as rows, None if they differ in type, shape or dtype, or are not plain.

    `alike` says that they are known to be arrays of one dtype and shape.
    """
    kind = type(items[0])
    if kind is np.ndarray:
        return _rows(items, alike=alike)
    if kind not in SCALAR_DTYPES or not _all_of(kind, items):
        return None
    try:
        return np.fromiter(items, SCALAR_DTYPES[kind], len(items))
    except OverflowError:  # integers beyond 64 bits
        return None


def _all_of(kind: type, items: list[Any]) -> bool:
    return countOf(map(type, items), kind) == len(items)


def _rows(items: list[np.ndarray], *, alike: bool) -> np.ndarray | None:
    batch = joined_rows(items, alike=alike)
    shape, dtype = items[0].shape, items[0].dtype
    if batch is not None or not shape or dtype not in PLAIN_DTYPES or not _all_of(np.ndarray, items):
        return batch
    try:
        # Compares all lengths but the first.
        batch = np.concatenate(items, dtype=dtype, casting="no")
    except (TypeError, ValueError):
        return None
    return batch.reshape(len(items), *shape) if len(set(map(len, items))) == 1 else None
