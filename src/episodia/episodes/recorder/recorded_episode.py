"""The episodes of a recorder: growing ones that look into its blocks, and finalized ones that are handed out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import REWARD_SPACE
from episodia.episodes.columns.storage import ListStorage, Storage
from episodia.episodes.recorder.lane_storage import LaneStorage
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorder_columns import RecorderColumn, bytes_of_row
from episodia.episodes.recorder.vector_infos import LazyInfos
from episodia.episodes.single_agent.single_agent_columns import raise_with_place
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodeKeyError, EpisodiaError
from episodia.trees import map_batch

_LARGE_ROW = 1024  # bytes

# What the columns of an episode will be stored in when it is handed out.
Prepared: TypeAlias = dict[RecorderColumn, Storage]


class Layout(NamedTuple):
    """The columns of a recorder. Those of steps are not known before the first step, observations not before a reset."""

    observation_space: Space[Any] | None
    action_space: Space[Any] | None
    observations: RecorderColumn | None = None
    actions: RecorderColumn | None = None
    rewards: RecorderColumn | None = None
    extras: Mapping[str, RecorderColumn] = {}

    def columns(self) -> list[RecorderColumn]:
        """Return all columns that are known."""
        all_columns = (self.observations, self.actions, self.rewards, *self.extras.values())
        return [column for column in all_columns if column is not None]

    def column(self, name: str) -> RecorderColumn:
        """Return the column `name`: one of `Columns`, or of an extra model output.

        Raises:
            EpisodeKeyError: If it is not known, or not yet.
        """
        if name == Columns.OBS:
            found = self.observations
        elif name == Columns.ACTIONS:
            found = self.actions
        else:
            found = self.rewards if name == Columns.REWARDS else self.extras.get(name)
        if found is None:
            raise EpisodeKeyError(
                f"recorder: found the column {name!r}, expected one of {[column.name for column in self.columns()]}. "
                "Observations are there after the first reset, all others after the first step."
            )
        return found

    @property
    def known_observations(self) -> RecorderColumn:
        """The column of observations, after the first reset."""
        return _known(self.observations)

    @property
    def known_actions(self) -> RecorderColumn:
        """The column of actions, after the first step."""
        return _known(self.actions)

    @property
    def known_rewards(self) -> RecorderColumn:
        """The column of rewards, after the first step."""
        return _known(self.rewards)

    def extras_of(self, chunk: Chunk) -> Mapping[str, RecorderColumn]:
        """Return the extra columns that the episode of `chunk` has: none before its first step."""
        return self.extras if chunk.t else {}

    @property
    def has_large_rows(self) -> bool:
        """Whether the memory of a step matters more than the time in which it is copied.

        An episode that goes on in another block is joined by a copy, and is there twice as long as somebody keeps the block.
        """
        return bytes_of_row(self.columns()) >= _LARGE_ROW

    def columns_of(self, chunk: Chunk) -> list[RecorderColumn]:
        """Return the columns that the episode of `chunk`, which has steps, has."""
        return [self.known_observations, self.known_actions, self.known_rewards, *self.extras_of(chunk).values()]


def _known(column: RecorderColumn | None) -> RecorderColumn:
    if column is None:
        raise EpisodeError("recorder: found a question about a column before its first data, expected `reset` first.")
    return column


@final
class _Rows:
    """The rows of one column of one chunk, for a `LaneStorage`."""

    __slots__ = ("_chunk", "_column")

    def __init__(self, chunk: Chunk, column: RecorderColumn) -> None:
        self._chunk = chunk
        self._column = column

    def count(self) -> int:
        return self._chunk.count(self._column)

    def batch(self) -> Any:
        return self._chunk.batch(self._column)

    def latest(self) -> Any:
        return self._chunk.latest(self._column)

    def on_detached(self) -> None:
        self._chunk.is_detached = True
        self._column.written.add(self._chunk.lane)


# --- Growing --------------------------------------------------------------------------------------------------------


def growing_episode(chunk: Chunk, layout: Layout) -> SingleAgentEpisode:
    """Return the episode of `chunk` in list form, as far as `chunk` knows of it; always the same object."""
    episode = chunk.episode
    if episode is None:
        episode = chunk.episode = _new_episode(chunk, layout)
        episode.observations = _growing(chunk, layout.observations, layout.observation_space)
        episode.actions = _growing(chunk, layout.actions, layout.action_space)
        episode.rewards = _growing(chunk, layout.rewards, REWARD_SPACE)
        episode.infos = LookbackBuffer.adopt(_lazy_infos(chunk), chunk.lookback, None, finalized=False)
        extras = layout.extras_of(chunk)
        episode.extra_model_outputs = {name: _growing(chunk, column, None) for name, column in extras.items()}
    else:
        _bring_up_to_date(episode, chunk, layout)
    return episode


def _growing(chunk: Chunk, column: RecorderColumn | None, space: Space[Any] | None) -> LookbackBuffer:
    if column is None:
        return LookbackBuffer([], 0, space)
    storage = LaneStorage(_Rows(chunk, column))
    lookback = chunk.lookback_of(column)
    return storage.bind(LookbackBuffer.adopt(storage, lookback, space, finalized=False, rules=column.rules))


def _lazy_infos(chunk: Chunk) -> LazyInfos:
    def make() -> list[dict[Any, Any]]:
        return chunk.infos()()  # all that there are when somebody asks, not now

    return LazyInfos(make, chunk.num_infos)


def _new_episode(chunk: Chunk, layout: Layout) -> SingleAgentEpisode:
    """Return an episode without columns."""
    episode = SingleAgentEpisode.__new__(SingleAgentEpisode)
    episode.id_ = chunk.id_
    episode.agent_id = episode.module_id = episode.multi_agent_episode_id = None
    episode._observation_space = layout.observation_space
    episode._action_space = layout.action_space
    episode._custom_data = {}
    episode._weights_versions = chunk.weights_versions
    episode.t_started = chunk.t_started
    _set_progress(episode, chunk)
    return episode


def _set_progress(episode: SingleAgentEpisode, chunk: Chunk) -> None:
    episode.t = chunk.t
    episode.is_terminated = chunk.is_terminated
    episode.is_truncated = chunk.is_truncated
    episode._start_time = chunk.start_time
    episode._last_step_time = chunk.last_step_time


def _bring_up_to_date(episode: SingleAgentEpisode, chunk: Chunk, layout: Layout) -> None:
    _set_progress(episode, chunk)
    if layout.actions is not None and layout.rewards is not None and _is_unused(episode.actions):
        episode.actions = _in_form(_growing(chunk, layout.actions, layout.action_space), episode)
        episode.rewards = _in_form(_growing(chunk, layout.rewards, REWARD_SPACE), episode)
    extras, known = layout.extras_of(chunk), episode.extra_model_outputs
    if extras.keys() != known.keys():
        episode.extra_model_outputs = {
            name: known[name] if name in known else _in_form(_growing(chunk, column, None), episode)
            for name, column in extras.items()
        }
    infos = episode.infos.storage
    if not isinstance(infos, LazyInfos) or infos.is_made:
        infos.push_all(chunk.last_infos(chunk.num_infos() - len(infos)))
    if chunk.is_detached:
        for buffer, column in columns_of(episode, layout):
            if type(buffer.storage) is not LaneStorage:
                _catch_up(episode, buffer, chunk, column)


def _is_unused(buffer: LookbackBuffer) -> bool:
    """Tell whether the column was made before the recorder knew what steps look like."""
    return isinstance(buffer.storage, ListStorage) and not len(buffer.storage)


def _in_form(buffer: LookbackBuffer, episode: SingleAgentEpisode) -> LookbackBuffer:
    buffer.finalized = episode.is_finalized
    return buffer


def columns_of(episode: SingleAgentEpisode, layout: Layout) -> list[tuple[LookbackBuffer, RecorderColumn]]:
    """Return the columns of `episode` with those of the recorder, as far as both have them."""
    pairs = [(episode.observations, layout.known_observations)]
    if layout.actions is not None and layout.rewards is not None:
        pairs += [(episode.actions, layout.actions), (episode.rewards, layout.rewards)]
    extras = episode.extra_model_outputs
    return pairs + [(extras[name], column) for name, column in layout.extras.items() if name in extras]


def _catch_up(episode: SingleAgentEpisode, buffer: LookbackBuffer, chunk: Chunk, column: RecorderColumn) -> None:
    """Append to a column that was changed what has been recorded since."""
    missing = chunk.count(column) - buffer.len_incl_lookback()
    if not missing:
        return
    rows = map_batch(lambda leaf: leaf[-missing:], chunk.batch(column))
    try:
        buffer.push_all(buffer.storage.admit_all(rows) if isinstance(buffer.storage, ArrayStorage) else rows)
    except EpisodiaError as error:
        raise_with_place(episode, error, column.name)


# --- Handing out ----------------------------------------------------------------------------------------------------


def prepared(chunks: Iterable[Chunk], layout: Layout, *, copied: bool) -> list[Prepared]:
    """Return for each chunk what cannot simply be read from a block when it is handed out, without changing anything.

    Those are columns that somebody wrote into, and all columns of a chunk that has to be joined from several blocks.

    Args:
        chunks: What is to be handed out.
        layout: The columns.
        copied: Whether all columns are to be copied, so that nobody keeps the blocks.

    Raises:
        ShapeError: If somebody wrote items into the episode that do not fit together.
    """
    return [
        _prepared(chunk, layout, copied=copied) if copied or chunk.parts or chunk.is_detached else {}
        for chunk in chunks
    ]


def _prepared(chunk: Chunk, layout: Layout, *, copied: bool) -> Prepared:
    storages: Prepared = {}
    if chunk.parts:
        storages = {column: ArrayStorage(chunk.batch(column), owned=True) for column in layout.columns_of(chunk)}
    elif copied:
        storages = {
            column: ArrayStorage(map_batch(np.copy, chunk.batch(column)), owned=True)
            for column in layout.columns_of(chunk)
        }
    if chunk.episode is not None and chunk.is_detached:
        episode = growing_episode(chunk, layout)
        for buffer, column in columns_of(episode, layout):
            if type(buffer.storage) is LaneStorage:
                continue
            try:
                storages[column] = buffer.stacked()
            except EpisodiaError as error:
                raise_with_place(episode, error, column.name)
    return storages


def _storage_of(chunk: Chunk, column: RecorderColumn, storages: Prepared) -> Storage:
    return storages[column] if column in storages else ArrayStorage(chunk.batch(column), owned=False)


def handed_out(chunk: Chunk, layout: Layout, storages: Prepared) -> SingleAgentEpisode:
    """Return the finalized episode of `chunk`: the object that users already have, if anybody asked for it."""
    episode = chunk.episode
    if episode is None:
        episode = chunk.episode = _new_episode(chunk, layout)
        _give_columns(episode, chunk, layout, storages)
    else:
        _bring_up_to_date(episode, chunk, layout)
        for buffer, column in columns_of(episode, layout):
            buffer.adopt_stacked(_storage_of(chunk, column, storages))
        if isinstance(episode.infos.storage, LazyInfos) and not episode.infos.storage.is_made:
            episode.infos.use(_fixed_infos(chunk))
        episode.infos.finalized = True
    chunk.is_handed_out = True
    return episode


def _give_columns(episode: SingleAgentEpisode, chunk: Chunk, layout: Layout, storages: Prepared) -> None:
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
    """Return infos that do not change with the chunk, and do not hold it."""
    count = chunk.num_infos()
    return LazyInfos(chunk.infos(), lambda: count)


def continue_episode(chunk: Chunk, following: Chunk, layout: Layout, lookback: int) -> None:
    """Give `following` the continuation of the episode of `chunk`, which somebody has asked for; before it is handed out.

    What users wrote into the episode, or keep with it, goes on with it.
    """
    episode_before = growing_episode(chunk, layout)
    episode = episode_before.cut(lookback)
    for (buffer, column), (before, _) in zip(
        columns_of(episode, layout), columns_of(episode_before, layout), strict=True
    ):
        if type(before.storage) is LaneStorage:
            storage = LaneStorage(_Rows(following, column))
            storage.bind(buffer).use(storage)
        else:
            following.is_detached = True
    if isinstance(episode.infos.storage, LazyInfos) and not episode.infos.storage.is_made:
        episode.infos.use(_lazy_infos(following))
    following.episode = episode
