"""The columns of a single-agent episode: made from data, compared in length, turned into arrays, extended by a step."""

from __future__ import annotations

from collections.abc import Mapping
from operator import countOf
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium import Space

from episodia.episodes.columns.indexing import as_count
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import REWARD_SPACE, check_rewards
from episodia.episodes.columns.storage import ListStorage, ObjectStorage, Storage
from episodia.errors import EpisodeError, EpisodiaError, SpaceError
from episodia.space_rules import each_with_float32, with_float32
from episodia.trees import SCALAR_TYPES, describe, own_info
from episodia.types import Item

if TYPE_CHECKING:
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

_AUTO = "auto"
_LENGTHS = "T actions, rewards and extra model outputs, and T + 1 observations and infos"


def fill_columns(
    episode: SingleAgentEpisode, data: Mapping[str, Any], extras: Mapping[str, Any], len_lookback_buffer: int | str
) -> None:
    """Give a new `episode` its columns, with copies of `data`.

    Args:
        episode: An episode that has its ids, spaces and `t_started`.
        data: `observations`, `actions`, `rewards` and `infos`: lists, arrays, buffers or None.
        extras: Further columns by name.
        len_lookback_buffer: How many of the steps are the past, or "auto" for all.
    """
    episode.t = episode.t_started
    if not (isinstance(len_lookback_buffer, str) and len_lookback_buffer == _AUTO):
        len_lookback_buffer = as_count("len_lookback_buffer", len_lookback_buffer, f"episode {episode.id_!r}")
    if not extras and all(column is None for column in data.values()):
        _make_empty(episode)
        return
    lookback = _lookback_of(episode, data["rewards"], len_lookback_buffer)
    given = [data["observations"], data["actions"], data["rewards"], *extras.values()]
    finalized = any(_is_finalized(column) for column in given)

    def column(name: str, items: Any, space: Space[Any] | None) -> LookbackBuffer:
        try:
            return _column(name, items, lookback, space, finalized)
        except EpisodiaError as error:
            raise_with_place(episode, error, name)

    observations = _recorded(episode, data["observations"])
    episode.observations = column("observations", observations, episode.observation_space)
    episode.actions = column("actions", data["actions"], episode.action_space)
    try:
        episode.rewards = _reward_column(data["rewards"], lookback, finalized)
    except EpisodiaError as error:
        raise_with_place(episode, error, "rewards")
    episode.extra_model_outputs = {key: column(key, items, None) for key, items in extras.items()}
    try:
        episode.infos = _info_column(episode.observations, data["infos"])
    except EpisodiaError as error:
        raise_with_place(episode, error, "infos")
    episode.t = episode.t_started + len(episode.rewards)
    check_lengths(episode)


def _recorded(episode: SingleAgentEpisode, observations: Any) -> Any:
    """Return observations as steps would record them: float64 is cast where the space says float32."""
    space = episode.observation_space
    if space is None or observations is None or isinstance(observations, LookbackBuffer):
        return observations
    try:
        if isinstance(observations, list):
            return each_with_float32(space, observations)
        return with_float32(space, observations)
    except SpaceError as error:
        raise_with_place(episode, error, "observations")


def _make_empty(episode: SingleAgentEpisode) -> None:
    adopt = LookbackBuffer.adopt
    episode.observations = adopt(ListStorage([], nested=False), 0, episode.observation_space, finalized=False)
    episode.actions = adopt(ListStorage([], nested=False), 0, episode.action_space, finalized=False)
    episode.rewards = adopt(ListStorage([], nested=False), 0, REWARD_SPACE, finalized=False)
    episode.infos = adopt(ObjectStorage([]), 0, None, finalized=False)
    episode.extra_model_outputs = {}


def _reward_column(data: Any, lookback: int, finalized: bool) -> LookbackBuffer:
    if isinstance(data, LookbackBuffer):
        check_rewards(data.data)
    elif type(data) is list and countOf(map(type, data), float) == len(data):
        # Floats need no further check.
        data = LookbackBuffer.adopt(ListStorage(list(data), nested=False), lookback, REWARD_SPACE, finalized=False)
    else:
        check_rewards(data)
    return _column("rewards", data, lookback, REWARD_SPACE, finalized)


def _is_finalized(data: Any) -> bool:
    if isinstance(data, LookbackBuffer):
        return data.finalized
    return data is not None and not isinstance(data, list)


def _lookback_of(episode: SingleAgentEpisode, rewards: Any, len_lookback_buffer: Any) -> int:
    if isinstance(rewards, LookbackBuffer):
        return rewards.lookback
    if rewards is not None and not isinstance(rewards, (list, tuple)) and not np.ndim(rewards):
        raise_with_place(episode, EpisodeError(f"found {describe(rewards)}, expected a list or an array."), "rewards")
    steps = 0 if rewards is None else len(rewards)
    return steps if len_lookback_buffer == _AUTO else min(len_lookback_buffer, steps)


def _column(name: str, data: Any, lookback: int, space: Space[Any] | None, finalized: bool) -> LookbackBuffer:
    if isinstance(data, LookbackBuffer):
        column = data.fork()
        column.space = data.space if space is None else space
    else:
        column = LookbackBuffer(data, lookback, space)
        if column.lookback != lookback:
            raise EpisodeError(
                f"found {column.lookback} {name} and {lookback} steps of lookback; expected columns of one length: {_LENGTHS}."
            )
    if finalized and not column.finalized:
        column.adopt_stacked(column.stacked())
    return column


def _info_column(observations: LookbackBuffer, infos: Any) -> LookbackBuffer:
    lookback = observations.lookback
    if infos is None:
        infos = [None] * observations.len_incl_lookback()
    elif isinstance(infos, LookbackBuffer):
        infos, lookback = infos.data, infos.lookback
    if not isinstance(infos, (list, tuple, np.ndarray)) or (isinstance(infos, np.ndarray) and not infos.ndim):
        raise EpisodeError(f"found {describe(infos)}, expected a list of T + 1 dicts.")
    storage = ObjectStorage.copied(list(infos), as_infos)
    return LookbackBuffer.adopt(storage, min(lookback, len(storage)), None, finalized=observations.finalized)


def check_lengths(episode: SingleAgentEpisode) -> None:
    """Reject columns of different lengths.

    Raises:
        EpisodeError: With the columns whose lengths are not those of the steps.
    """
    steps = episode.t - episode.t_started
    observations = steps + 1 if steps or episode.observations.len_incl_lookback() else 0
    wrong = {name: len(column) for name, column in _array_columns(episode)[1:] if len(column) != steps}
    tracks = {"observations": len(episode.observations), "infos": len(episode.infos)}
    wrong |= {name: length for name, length in tracks.items() if length != observations}
    if wrong:
        raise EpisodeError(
            f"episode {episode.id_!r}: found columns of different lengths: {wrong} next to {steps} "
            f"{'steps' if 'rewards' in wrong else 'rewards'}. Expected {_LENGTHS} (all after the lookback)."
        )


def _array_columns(episode: SingleAgentEpisode) -> list[tuple[str, LookbackBuffer]]:
    """Return the columns that become arrays, all but the infos, with their names.

    Pairs, because an extra model output may be called "rewards" too.
    """
    return [
        ("observations", episode.observations),
        ("actions", episode.actions),
        ("rewards", episode.rewards),
        *episode.extra_model_outputs.items(),
    ]


def are_finalized(episode: SingleAgentEpisode) -> bool:
    """Tell whether all columns are arrays; a user may have finalized some columns only."""
    return (
        episode.observations.finalized
        and episode.actions.finalized
        and episode.rewards.finalized
        and all(column.finalized for column in episode.extra_model_outputs.values())
    )


def stacked(episode: SingleAgentEpisode) -> list[Storage]:
    """Return what the columns of the finalized episode would be stored in, checked, without changing `episode`."""
    check_lengths(episode)
    storages = []
    for name, column in _array_columns(episode):
        try:
            storage = column.stacked()
            column.check_bounds(storage)
        except EpisodiaError as error:
            raise_with_place(episode, error, name)
        storages.append(storage)
    return storages


def adopt_stacked(episode: SingleAgentEpisode, storages: list[Storage]) -> None:
    """Make `episode` finalized, on what `stacked` returned; this cannot fail."""
    for (_, column), storage in zip(_array_columns(episode), storages, strict=True):
        column.adopt_stacked(storage)
    episode.infos.adopt_stacked(episode.infos.stacked())


def move_to_lookback(episode: SingleAgentEpisode, steps: int, t_started: int) -> None:
    """Make the first `steps` steps the past of a chunk that starts at time step `t_started`."""
    steps = min(steps, episode.rewards.len_incl_lookback())
    episode.infos.lookback = steps
    for _, column in _array_columns(episode):
        column.lookback = steps
    episode.t_started = t_started
    episode.t = t_started + len(episode.rewards)


# --- One step --------------------------------------------------------------------------------------------------------


def as_observation(column: LookbackBuffer, observation: Item) -> Any:
    """Return a private copy of `observation` for `column.push`; float64 numbers are cast if the space says float32."""
    try:
        return column.admit(observation)
    except SpaceError:
        cast = with_float32(column.space, observation) if column.space is not None else observation
        return column.admit(cast)


def as_infos(infos: object) -> dict[Any, Any]:
    """Return a private copy of an info dict; an empty one for None."""
    if infos is None or (type(infos) is dict and not infos):
        return {}
    if type(infos) is not dict and not isinstance(infos, Mapping):
        raise EpisodeError(f"found {describe(infos)}, expected a dict or None. Put it under a key: `{{'info': ...}}`.")
    mine: dict[Any, Any] = infos.copy() if type(infos) is dict else dict(infos)
    for key, value in mine.items():
        if type(value) not in SCALAR_TYPES:
            mine[key] = own_info(value)
    return mine


def as_extras(extras: object) -> Mapping[str, Any]:
    """Return the extra model outputs of one step; an empty dict for None."""
    if extras is None:
        return {}
    if type(extras) is not dict and not isinstance(extras, Mapping):
        raise EpisodeError(f"found {describe(extras)}, expected a dict or None. Pass `{{'name': output}}`.")
    return extras


def extra_columns(episode: SingleAgentEpisode, extras: Mapping[str, Any]) -> dict[str, LookbackBuffer]:
    """Return the columns for the extra model outputs of a step.

    A chunk may start with other columns than the chunk before: a column that ends takes its lookback with it. Within a
    chunk, columns have no holes.
    """
    known = episode.extra_model_outputs
    if extras.keys() == known.keys():
        return known
    if len(episode):
        raise EpisodeError(
            f"found the extra model outputs {names(extras)}, expected {names(known)} as in the steps before. "
            "Give the same names at each step, or `cut()` the episode first: a new chunk may have other columns."
        )
    return {key: known[key] if key in known else _new_column(episode) for key in extras}


def _new_column(episode: SingleAgentEpisode) -> LookbackBuffer:
    column = LookbackBuffer.adopt(ListStorage([], nested=False), 0, None, finalized=False)
    if episode.is_finalized:
        column.finalize()
    return column


def names(columns: Mapping[str, Any]) -> list[str]:
    """Return the names of columns, sorted."""
    return sorted(columns, key=str)


def take_back(episode: SingleAgentEpisode) -> None:
    """Remove all items beyond the length of `episode`."""
    steps = len(episode)
    for column in (episode.observations, episode.infos):
        column.truncate(steps + 1)
    for column in (episode.actions, episode.rewards, *episode.extra_model_outputs.values()):
        column.truncate(steps)


def raise_with_place(episode: SingleAgentEpisode, error: EpisodiaError, place: str) -> NoReturn:
    """Raise `error` again, saying also in which episode, at which time step and in which column."""
    raise type(error)(f"episode {episode.id_!r}, t={episode.t}, {place}: {error}") from error


def cannot_step(episode: SingleAgentEpisode) -> EpisodeError:
    """Return the error for a step that the state of the episode does not allow."""
    where = f"episode {episode.id_!r}"
    if episode.is_done:
        how = "terminated" if episode.is_terminated else "truncated"
        return EpisodeError(
            f"{where}: found a step after the end, expected none: it was {how} at t={episode.t}. "
            "Make a new `SingleAgentEpisode` after each end."
        )
    return EpisodeError(
        f"{where}: found a step before the reset, expected `add_env_reset` first. "
        "Store the observation that `env.reset()` returned with `add_env_reset(observation, infos)`."
    )
