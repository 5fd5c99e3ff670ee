"""The episodes of a recorder: growing ones that read its blocks, and finalized ones that `take` returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space

from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import REWARD_SPACE
from episodia.episodes.columns.storage import ListStorage, ObjectStorage, Storage
from episodia.episodes.recorder.lane_storage import LaneInfos, LaneStorage, LaneWindow
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorder_columns import RecorderColumn, RecorderLayout
from episodia.episodes.recorder.vector_infos import LazyInfos
from episodia.episodes.single_agent.single_agent_columns import check_lengths, raise_with_place
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodiaError
from episodia.trees import map_batch

# The storages of the columns of an episode when `take` returns it.
Prepared: TypeAlias = dict[RecorderColumn, Storage]


# --- Growing --------------------------------------------------------------------------------------------------------


def growing_episodes(chunks: Iterable[Chunk], layout: RecorderLayout) -> list[SingleAgentEpisode]:
    """Return the episode of each of `chunks` in list form, up to the chunk's cursor; always the same object.

    This runs for all lanes at each step at which a connector reads episodes, so it touches only what changes.
    """
    episodes = []
    for chunk in chunks:
        episode = chunk.episode
        if episode is None:
            episode = _new_episode(chunk, layout)
            episode.observations = _growing(chunk, layout.observations, layout.observation_space)
            episode.actions = _growing(chunk, layout.actions, layout.action_space)
            episode.rewards = _growing(chunk, layout.rewards, REWARD_SPACE)
            episode.infos = _growing_infos(chunk)
            episode.extra_model_outputs = {}
            _add_step_columns(episode, chunk, layout)
            chunk.episode = episode
        elif not chunk.is_handed_out:
            episode.t = chunk.t_at_slot_0 + chunk.cursor
            episode.is_terminated, episode.is_truncated = chunk.is_terminated, chunk.is_truncated
            episode._last_step_time = chunk.last_step_time
            if chunk.layout is not layout:
                _add_step_columns(episode, chunk, layout)
            if chunk.detached:
                _catch_up(episode, chunk)
        episodes.append(episode)
    return episodes


def _new_episode(chunk: Chunk, layout: RecorderLayout) -> SingleAgentEpisode:
    """Return an episode without columns."""
    episode = layout.episode_class.__new__(layout.episode_class)
    spaces = layout.observation_space, layout.action_space
    episode._begin(chunk.id_, (None, None, None), spaces, (chunk.lane, 0))
    episode._set_history(chunk.weights_versions, {}, chunk.start_time, chunk.last_step_time)
    episode.t_started, episode.t = chunk.t_started, chunk.t
    episode.is_terminated, episode.is_truncated = chunk.is_terminated, chunk.is_truncated
    return episode


def _catch_up(episode: SingleAgentEpisode, chunk: Chunk) -> None:
    """Append the new rows to columns of `episode` that have a storage of their own."""
    for window in chunk.detached:
        try:
            window.catch_up()
        except EpisodiaError as error:
            raise_with_place(episode, error, window.name)


def _add_step_columns(episode: SingleAgentEpisode, chunk: Chunk, layout: RecorderLayout) -> None:
    """Give `episode` the columns of steps that `layout` has and `episode` does not have yet."""
    finalized = episode.is_finalized
    if layout.actions is not None and layout.rewards is not None and _is_unused(episode.actions):
        episode.actions = _growing(chunk, layout.actions, layout.action_space, finalized=finalized)
        episode.rewards = _growing(chunk, layout.rewards, REWARD_SPACE, finalized=finalized)
    extras, known = layout.extras_of(chunk), episode.extra_model_outputs
    if extras.keys() != known.keys():
        episode.extra_model_outputs = {
            name: known[name] if name in known else _growing(chunk, column, None, finalized=finalized)
            for name, column in extras.items()
        }
    chunk.layout = layout if chunk.t else None


def _is_unused(buffer: LookbackBuffer) -> bool:
    """Tell whether the column was made before the recorder knew what steps look like."""
    return isinstance(buffer.storage, ListStorage) and not len(buffer.storage)


def _growing(
    chunk: Chunk, column: RecorderColumn | None, space: Space[Any] | None, *, finalized: bool = False
) -> LookbackBuffer:
    if column is None:
        return LookbackBuffer([], 0, space)
    buffer = LookbackBuffer.adopt(
        ListStorage([], nested=False), chunk.lookback_of(column), space, finalized=finalized, rules=column.rules
    )
    buffer.use(LaneStorage(chunk, buffer, column))
    return buffer


def _growing_infos(chunk: Chunk) -> LookbackBuffer:
    buffer = LookbackBuffer.adopt(ObjectStorage([]), chunk.lookback, None, finalized=False)
    buffer.use(LaneInfos(chunk, buffer))
    return buffer


def columns_of(episode: SingleAgentEpisode, layout: RecorderLayout) -> list[tuple[LookbackBuffer, RecorderColumn]]:
    """Return the columns of `episode` with those of the recorder, as far as both have them."""
    pairs = [(episode.observations, layout.known_observations)]
    if layout.actions is not None and layout.rewards is not None:
        pairs += [(episode.actions, layout.actions), (episode.rewards, layout.rewards)]
    extras = episode.extra_model_outputs
    return pairs + [(extras[name], column) for name, column in layout.extras.items() if name in extras]


# --- Finished -------------------------------------------------------------------------------------------------------


def prepared(chunks: Iterable[Chunk], layout: RecorderLayout, *, copied: bool) -> list[Prepared]:
    """Return for each chunk the columns that cannot be read from one block; nothing is changed.

    Those are columns that a user wrote into, and all columns of a chunk that has to be joined from several blocks.

    Args:
        chunks: The chunks that `take` will return.
        layout: The columns.
        copied: Whether to copy all columns, so that episodes do not keep the blocks.

    Raises:
        ShapeError: If a user wrote items into the episode that do not fit together.
    """
    return [
        _prepared(chunk, layout, copied=copied) if copied or chunk.parts or chunk.detached else {} for chunk in chunks
    ]


def _prepared(chunk: Chunk, layout: RecorderLayout, *, copied: bool) -> Prepared:
    storages: Prepared = {}
    if chunk.parts:
        storages = {column: ArrayStorage(chunk.batch(column), owned=True) for column in layout.columns_of(chunk)}
    elif copied:
        storages = {
            column: ArrayStorage(map_batch(np.copy, chunk.batch(column)), owned=True)
            for column in layout.columns_of(chunk)
        }
    if chunk.detached:
        [episode] = growing_episodes((chunk,), layout)
        check_lengths(episode)
        for window in chunk.detached:
            if isinstance(window, LaneStorage):
                try:
                    storages[window.column] = window.buffer.stacked()
                except EpisodiaError as error:
                    raise_with_place(episode, error, window.name)
    return storages


def _storage_of(chunk: Chunk, column: RecorderColumn, storages: Prepared) -> Storage:
    return storages[column] if column in storages else ArrayStorage(chunk.batch(column), owned=False)


def handed_out(chunk: Chunk, layout: RecorderLayout, storages: Prepared) -> SingleAgentEpisode:
    """Return the finalized episode of `chunk`: the object that users have already, if they asked for it."""
    episode = chunk.episode
    if episode is None:
        episode = _new_episode(chunk, layout)
        _give_columns(episode, chunk, layout, storages)
        chunk.episode = episode
    elif not chunk.is_handed_out:
        growing_episodes((chunk,), layout)
        for buffer, column in columns_of(episode, layout):
            buffer.adopt_stacked(_storage_of(chunk, column, storages))
        if type(episode.infos.storage) is LaneInfos:
            episode.infos.use(_fixed_infos(chunk))
        episode.infos.finalized = True
    chunk.is_handed_out, chunk.detached = True, []
    return episode


def _give_columns(episode: SingleAgentEpisode, chunk: Chunk, layout: RecorderLayout, storages: Prepared) -> None:
    def buffer(column: RecorderColumn) -> LookbackBuffer:
        storage = storages[column] if storages else ArrayStorage(chunk.batch(column), owned=False)
        lookback = chunk.lookback_of(column)
        return LookbackBuffer.adopt(storage, lookback, column.space, finalized=True, rules=column.rules)

    episode.observations = buffer(layout.known_observations)
    episode.actions = buffer(layout.known_actions)
    episode.rewards = buffer(layout.known_rewards)
    episode.extra_model_outputs = {name: buffer(column) for name, column in layout.extras_of(chunk).items()}
    episode.infos = LookbackBuffer.adopt(_fixed_infos(chunk), chunk.lookback, None, finalized=True)


def _fixed_infos(chunk: Chunk) -> LazyInfos:
    """Return infos that do not follow the chunk and do not keep it alive."""
    return LazyInfos(chunk.infos(), chunk.num_infos())


def continue_episode(chunk: Chunk, following: Chunk, layout: RecorderLayout, lookback: int) -> None:
    """Give `following` the continuation of the episode of `chunk`, which a user has; before `take` returns that.

    Items that users wrote into the episode, and their custom data, are carried over.
    """
    [before] = growing_episodes((chunk,), layout)
    episode = before.cut(lookback)
    following.layout = chunk.layout
    pairs = zip(columns_of(episode, layout), columns_of(before, layout), strict=True)
    windows: list[tuple[LaneWindow, LookbackBuffer]] = [
        (LaneStorage(following, buffer, column), old) for (buffer, column), (old, _) in pairs
    ]
    for window, old in [*windows, (LaneInfos(following, episode.infos), before.infos)]:
        if isinstance(old.storage, LaneWindow):
            window.buffer.use(window)
        else:
            following.detached.append(window)
    following.episode = episode
