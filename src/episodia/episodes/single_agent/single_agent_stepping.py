"""What may enter a single-agent episode with a reset or a step, and how a step that does not fit is refused."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from episodia.episodes.columns.indexing import as_flag
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.storage import ListStorage
from episodia.errors import EpisodeError, EpisodiaError
from episodia.trees import SCALAR_TYPES, describe, own, own_info

if TYPE_CHECKING:
    from episodia.episodes.single_agent.single_agent_access import SingleAgentAccess
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode


# Numbers that are rewards as they are; of Python's integers, not all fit into 64 bits.
REWARD_TYPES = frozenset(
    {float, bool} | {kind for kind in SCALAR_TYPES if issubclass(kind, (np.floating, np.integer, np.bool_))}
)


def as_reward(reward: Any) -> Any:
    """Return `reward`, a single number."""
    if type(reward) in REWARD_TYPES or (type(reward) is int and -(2**63) <= reward < 2**63):
        return reward
    if (
        isinstance(reward, (float, np.floating, np.integer))
        or (isinstance(reward, int) and -(2**63) <= reward < 2**63)
        or (isinstance(reward, np.ndarray) and reward.shape == () and reward.dtype.kind in "biuf")
    ):
        return own(reward)
    raise EpisodeError(f"found {describe(reward)}, expected a number of at most 64 bits. Pass `float(reward)`.")


def as_infos(infos: Any) -> dict[Any, Any]:
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


def as_extras(extras: Any) -> Mapping[str, Any]:
    """Return the extra model outputs of one step; an empty dict for None."""
    if extras is None:
        return {}
    if type(extras) is not dict and not isinstance(extras, Mapping):
        raise EpisodeError(f"found {describe(extras)}, expected a dict or None. Pass `{{'name': output}}`.")
    return extras


def extra_columns(episode: SingleAgentEpisode, extras: Mapping[str, Any]) -> dict[str, LookbackBuffer]:
    """Return the columns for the extra model outputs of a step.

    A chunk may start with other columns than the chunk before it had: those that are gone go with their lookback. Within a
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
    column = LookbackBuffer._adopt(ListStorage([], nested=False), 0, None, finalized=False)
    if episode.is_finalized:
        column.finalize()
    return column


def names(columns: Mapping[str, Any]) -> list[str]:
    """Return the names of columns, sorted."""
    return sorted(columns, key=str)


def add_with_care(
    episode: SingleAgentEpisode,
    observation: Any,
    action: Any,
    reward: Any,
    infos: Any,
    extras: Any,
    ends: tuple[Any, Any],
) -> None:
    """Store one step of any kind, or refuse it and say where it is wrong.

    An array may change its dtype when it takes an item, so all columns admit their items before any of them stores one.
    """
    place = "terminated and truncated"
    try:
        is_terminated, is_truncated = map(as_flag, ends)
        place = "observation"
        steps = [(episode.observations, episode.observations.admit(observation))]
        place = "action"
        steps.append((episode.actions, episode.actions.admit(action)))
        place = "reward"
        rewards = episode.rewards
        steps.append((rewards, reward if type(reward) in rewards.free_types else rewards.admit(as_reward(reward))))
        place = "infos"
        steps.append((episode.infos, as_infos(infos)))
        place = "extra_model_outputs"
        extras = as_extras(extras)
        columns = extra_columns(episode, extras)
        steps += [(columns[key], columns[key].admit(value)) for key, value in extras.items()]
    except EpisodiaError as error:
        raise_with_place(episode, error, place)
    try:
        for column, item in steps:
            column.push(item)
    except BaseException:  # an interrupt, or no memory: no half a step is left
        take_back(episode)
        raise
    episode.extra_model_outputs = columns
    episode.is_terminated, episode.is_truncated = is_terminated, is_truncated
    episode.t += 1
    episode._last_step_time = perf_counter()


def take_back(episode: SingleAgentEpisode) -> None:
    """Remove all items beyond the length of `episode`."""
    steps = len(episode)
    for column in (episode.observations, episode.infos):
        column.truncate(steps + 1)
    for column in (episode.actions, episode.rewards, *episode.extra_model_outputs.values()):
        column.truncate(steps)


def raise_with_place(episode: SingleAgentAccess, error: EpisodiaError, place: str) -> NoReturn:
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
