"""Episodes from and to plain dictionaries of arrays, the form of logged data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.columns import Columns
from episodia.errors import EpisodeError, EpisodeKeyError, EpisodiaError
from episodia.stacking import stack
from episodia.trees import as_rows, batch_length, describe, equal, map_batch

if TYPE_CHECKING:
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

_OWN_KEYS = (
    Columns.OBS,
    Columns.NEXT_OBS,
    Columns.ACTIONS,
    Columns.REWARDS,
    Columns.TERMINATEDS,
    Columns.TRUNCATEDS,
    Columns.INFOS,
)

# The arguments of the constructor that `from_arrays` makes of its dictionary.
_FROM_ARRAYS = frozenset(
    ("observations", "actions", "rewards", "infos", "terminated", "truncated", "extra_model_outputs")
) | {"len_lookback_buffer"}


def to_arrays(episode: SingleAgentEpisode) -> dict[str, Any]:
    """Return the columns of `episode`, without its lookback."""
    check_names(episode, _OWN_KEYS)
    # A fork, so that a growing episode stays growing, and later writes do not change the returned arrays.
    finalized = episode.slice(slice(None), len_lookback_buffer=0).finalize()
    arrays = {
        Columns.OBS: finalized.get_observations(),
        Columns.ACTIONS: finalized.get_actions(),
        Columns.REWARDS: finalized.get_rewards(),
        Columns.TERMINATEDS: _flags(episode, episode.is_terminated),
        Columns.TRUNCATEDS: _flags(episode, episode.is_truncated),
        **{key: column.get() for key, column in finalized.extra_model_outputs.items()},
    }
    infos = episode.get_infos()
    return {**arrays, Columns.INFOS: infos} if any(infos) else arrays


def data_dict(episode: SingleAgentEpisode) -> dict[str, Any]:
    """Return the transitions of `episode` as columns, with flags, time steps and its id: lists, or arrays if finalized."""
    start, stop, id_ = episode.t_started, episode.t, episode.id_
    steps = stop - start
    if episode.is_finalized:
        data: dict[str, Any] = {
            Columns.TERMINATEDS: _flags(episode, episode.is_terminated),
            Columns.TRUNCATEDS: _flags(episode, episode.is_truncated),
            Columns.T: np.arange(start, stop),
            Columns.EPS_ID: np.full(steps, id_),
        }
    else:
        before_end = [False] * (steps - 1)
        data = {
            Columns.TERMINATEDS: [*before_end, episode.is_terminated] if steps else [],
            Columns.TRUNCATEDS: [*before_end, episode.is_truncated] if steps else [],
            Columns.T: list(range(start, stop)),
            Columns.EPS_ID: [id_] * steps,
        }
    data[Columns.OBS] = episode.observations.snapshot(0, steps)
    data[Columns.INFOS] = episode.infos.snapshot(0, steps)
    data[Columns.ACTIONS] = episode.actions.snapshot(0, steps)
    data[Columns.REWARDS] = episode.rewards.snapshot(0, steps)
    check_names(episode, data)
    for key, column in episode.extra_model_outputs.items():
        data[key] = column.snapshot(0, steps)
    return data


def _flags(episode: SingleAgentEpisode, at_end: bool) -> np.ndarray:
    """Return one flag for each step, of which only the last may be true."""
    flags = np.zeros(len(episode), bool)
    flags[-1:] = at_end
    return flags


def check_names(episode: SingleAgentEpisode, taken: Iterable[str]) -> None:
    """Reject extra model outputs that have one of the names `taken`."""
    if not episode.extra_model_outputs.keys().isdisjoint(taken):
        clash = sorted(set(episode.extra_model_outputs) & set(taken))
        raise EpisodeError(
            f"episode {episode.id_!r}: found extra model outputs named {clash}, expected other names: these are columns of "
            "their own. Rename them."
        )


def from_arrays(cls: type[SingleAgentEpisode], arrays: Mapping[str, Any], **kwargs: Any) -> SingleAgentEpisode:
    """Return a finalized episode with a copy of `arrays`."""
    if not isinstance(arrays, Mapping):
        raise EpisodeError(f"found {describe(arrays)}, expected a dictionary of arrays. Pass `{{'obs': ..., ...}}`.")
    twice = sorted(kwargs.keys() & _FROM_ARRAYS)
    if twice:
        raise EpisodeError(
            f"found the arguments {twice}, expected ids, spaces and `t_started` only: all data comes from the dictionary. "
            f"Put it there, under names such as {Columns.OBS!r} and {Columns.TERMINATEDS!r}."
        )
    if Columns.OBS not in arrays:
        raise EpisodeKeyError(f"found the keys {sorted(arrays, key=str)}, expected {Columns.OBS!r} among them.")
    columns = {key: _as_batch(key, value) for key, value in arrays.items() if key != Columns.INFOS}
    observations = _observation_track(columns)
    known = columns.get(Columns.REWARDS)
    steps = max(0, batch_length(observations) - 1) if known is None else batch_length(known)
    return cls(
        observations=observations,
        actions=_steps_of(columns, Columns.ACTIONS, steps),
        rewards=_steps_of(columns, Columns.REWARDS, steps),
        terminated=_flag_at_end(columns, Columns.TERMINATEDS, steps),
        truncated=_flag_at_end(columns, Columns.TRUNCATEDS, steps),
        infos=arrays.get(Columns.INFOS),
        extra_model_outputs={key: column for key, column in columns.items() if key not in _OWN_KEYS},
        len_lookback_buffer=0,
        **kwargs,
    )


def _as_batch(key: str, column: Any) -> Any:
    """Return arrays: of arrays, of lists of numbers, of lists of nested items."""
    try:
        if isinstance(column, list) and column:
            return stack(column)
        column = map_batch(as_rows, column)
        batch_length(column)
    except EpisodiaError as error:
        raise type(error)(f"{key!r}: {error}") from error
    except (RuntimeError, TypeError) as error:  # tensors that cannot become arrays
        raise EpisodeError(
            f"{key!r}: found {describe(column)}, which does not become an array ({error}); expected arrays or numbers."
        ) from error
    return column


def _observation_track(columns: dict[str, Any]) -> Any:
    """Return T + 1 observations, joined from `obs` and `new_obs` if both are there."""
    observations = columns[Columns.OBS]
    if Columns.NEXT_OBS not in columns:
        return observations
    following = columns[Columns.NEXT_OBS]
    if not equal(map_batch(lambda leaf: leaf[1:], observations), map_batch(lambda leaf: leaf[:-1], following)):
        raise EpisodeError(
            f"found {Columns.NEXT_OBS!r} that is not {Columns.OBS!r} one step later, expected the transitions of one episode "
            "in order. Split the data where episodes end, and make one episode of each part."
        )
    return map_batch(lambda leaf, following: np.concatenate([leaf, following[-1:]]), observations, following)


def _steps_of(columns: dict[str, Any], key: str, steps: int) -> Any:
    if key in columns:
        return columns[key]
    if steps:
        raise EpisodeKeyError(
            f"found the keys {sorted(columns, key=str)} and {steps + 1} rows of {Columns.OBS!r}, "
            f"expected {key!r} with {steps} rows."
        )
    return np.empty(0)


def _flag_at_end(columns: dict[str, Any], key: str, steps: int) -> bool:
    flags = np.asarray(columns.get(key, np.zeros(steps, bool)))
    if flags.shape != (steps,):
        raise EpisodeError(
            f"found {key!r} with the shape {list(flags.shape)}, expected [{steps}]: one flag for each step."
        )
    # NumPy accepts everything as a flag: the text "False" is true, and so is NaN.
    if flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise EpisodeError(
            f"found {key!r} with {describe(flags.tolist())}, expected flags: booleans, or numbers that are 0 or 1. "
            "Turn them into booleans first."
        )
    early = np.flatnonzero(flags[:-1])
    if len(early):
        raise EpisodeError(
            f"found {key!r} set at step {early[0]} of {steps}, expected it at the last step only. "
            f"Split the data after step {early[0]}, and make one episode of each part."
        )
    return bool(flags[-1:].any())
