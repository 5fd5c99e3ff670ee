"""Episodes in parts: cutting, slicing, joining, and forking without a copy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from episodia.episodes.columns.indexing import as_count, with_int_bounds
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.lookback_trimming import num_kept, trimmed_slice, trimmed_tail
from episodia.episodes.single_agent import weights_versions as versions
from episodia.errors import EpisodeError, EpisodiaError, IndexTypeError
from episodia.trees import describe, equal, map_batch

if TYPE_CHECKING:
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

# Turns a column of an episode into the column of a chunk.
ColumnPart: TypeAlias = Callable[[LookbackBuffer], LookbackBuffer]


def cut(episode: SingleAgentEpisode, len_lookback_buffer: int) -> SingleAgentEpisode:
    """Return the chunk that continues `episode`."""
    if episode.is_done:
        raise EpisodeError(
            f"episode {episode.id_!r}: found `cut()` after the end (t={episode.t}), expected a running episode. "
            "A finished episode has no continuation; use `slice` to take it apart."
        )
    lookback = as_count("len_lookback_buffer", len_lookback_buffer, f"episode {episode.id_!r}")
    kept = min(lookback, episode.rewards.len_incl_lookback())
    return episode._derived(
        track=lambda column: trimmed_tail(column, lookback, 1),
        steps=lambda column: trimmed_tail(column, lookback, 0),
        weights_versions=versions.between(episode.weights_versions, episode.t - kept, episode.t + 1),
        goes_on=True,
    )


def part(episode: SingleAgentEpisode, slice_: slice, len_lookback_buffer: int | None) -> SingleAgentEpisode:
    """Return the steps that `slice_` picks."""
    if not isinstance(slice_, slice):
        raise IndexTypeError(
            f"episode {episode.id_!r}: found the index {slice_!r}, expected a slice such as `episode[3:7]`. "
            "Single items come from the getters, `episode.get_observations(3)`."
        )
    where = f"episode {episode.id_!r}"
    steps = range(len(episode))[with_int_bounds(slice_, where)]
    if steps.step < 0:
        raise EpisodeError(
            f"{where}: found a slice with step {steps.step}, expected a step of 1 or more: an episode cannot run backwards. "
            "Reverse what the getters return instead."
        )
    # As for lists, a slice that ends before it starts is empty at its start.
    stop = max(steps.stop, steps.start)
    wanted = episode.observations.lookback
    if len_lookback_buffer is not None:
        wanted = as_count("len_lookback_buffer", len_lookback_buffer, where)
    at_end = stop == len(episode)
    t_started = episode.t_started + steps.start
    kept = num_kept(episode.observations, steps, wanted)
    picked = episode._derived(
        track=lambda column: trimmed_slice(column, steps, stop, wanted, track=True),
        steps=lambda column: trimmed_slice(column, steps, stop, wanted, track=False),
        weights_versions=versions.between(
            episode.weights_versions, t_started - kept, episode.t_started + stop + at_end
        ),
    )
    picked.t_started, picked.t = t_started, t_started + len(steps)
    picked.is_terminated = at_end and episode.is_terminated
    picked.is_truncated = at_end and episode.is_truncated
    return picked


def pause(episode: SingleAgentEpisode, position: int, lookback: int) -> SingleAgentEpisode:
    """Return the chunk without steps that begins with the observation at `position`, counted from the first of the lookback."""
    size = episode.rewards.len_incl_lookback()

    def steps(column: LookbackBuffer) -> LookbackBuffer:
        # An extra column may have fewer steps of the lookback.
        stop = max(0, position - (size - column.len_incl_lookback()))
        return column.share(slice(max(0, stop - lookback), stop), min(stop, lookback))

    t = episode.t_started + position - episode.observations.lookback
    picked = episode._derived(
        track=lambda column: column.share(slice(position - lookback, position + 1), lookback),
        steps=steps,
        weights_versions=versions.between(episode.weights_versions, t - lookback, t + (position == size)),
    )
    picked.t_started = picked.t = t
    return picked


def fork(episode: SingleAgentEpisode) -> SingleAgentEpisode:
    """Return an equal episode that shares the data until either of them is changed."""
    return episode._derived(
        track=LookbackBuffer.fork, steps=LookbackBuffer.fork, weights_versions=episode.weights_versions
    )


def concat(episode: SingleAgentEpisode, other: SingleAgentEpisode) -> None:
    """Append the chunk `other` to `episode`, in place."""
    _check_continues(episode, other)
    try:
        # The observation at the seam is stored once.
        observations = episode.observations.admit_all(other.observations, 1)
        actions = episode.actions.admit_all(other.actions, 0)
        rewards = episode.rewards.admit_all(other.rewards, 0)
        infos = episode.infos.admit_all(other.infos, 1)
        extras = _joined_extras(episode, other)
        custom_data = copy.deepcopy(other.custom_data)
    except EpisodiaError as error:
        raise type(error)(f"episode {episode.id_!r}: the chunks do not fit together: {error}") from error
    # Everything fits: nothing can fail below.
    episode.infos.set(other.infos.get(0), at_indices=-1)
    episode.observations.push_all(observations)
    episode.actions.push_all(actions)
    episode.rewards.push_all(rewards)
    episode.infos.push_all(infos)
    for column, items in extras.values():
        column.push_all(items)
    episode.extra_model_outputs = {key: column for key, (column, _) in extras.items()}
    if other.weights_versions:
        episode._weights_versions = versions.joined(episode.weights_versions, other.weights_versions, episode.t)
    episode.t = other.t
    episode.is_terminated = other.is_terminated
    episode.is_truncated = other.is_truncated
    episode.custom_data.update(custom_data)


def _check_continues(episode: SingleAgentEpisode, other: SingleAgentEpisode) -> None:
    problem = None
    if not isinstance(other, type(episode)):
        problem = f"found {describe(other)}"
    elif other.id_ != episode.id_:
        problem = f"found a chunk of the episode {other.id_!r}"
    elif episode.is_done:
        problem = f"found a chunk after the end (t={episode.t})"
    elif other.t_started != episode.t:
        problem = f"found a chunk that starts at t={other.t_started}"
    elif not episode.is_reset or not other.is_reset:
        problem = "found a chunk without observations"
    elif not equal(_stored(episode.observations, len(episode)), _stored(other.observations, 0)):
        problem = f"found another observation at the seam (t={episode.t})"
    if problem:
        raise EpisodeError(
            f"episode {episode.id_!r}: {problem}, expected the continuation of this episode from t={episode.t} on, with its "
            "last observation as its first. Concatenate only what `cut()` returned, and in order."
        )


def _stored(column: LookbackBuffer, index: int) -> Any:
    """Return the item at `index` for a comparison, as it is stored: reading an item makes all items read-only."""
    position = column.lookback + index
    items = column.lend(slice(position, position + 1))
    return items[0] if isinstance(items, list) else map_batch(lambda leaf: leaf[0], items)


def _joined_extras(episode: SingleAgentEpisode, other: SingleAgentEpisode) -> dict[str, tuple[LookbackBuffer, Any]]:
    """Return every extra column of the joined episode, with the admitted items that are to be pushed to it."""
    ours, theirs = dict(episode.extra_model_outputs), dict(other.extra_model_outputs)
    if ours.keys() != theirs.keys():
        fill_missing(ours, theirs, len(episode), len(other), episode.is_finalized)
        fill_missing(theirs, ours, len(other), len(episode), other.is_finalized)
    return {key: (column, column.admit_all(theirs[key], 0)) for key, column in ours.items()}


def fill_missing(
    columns: dict[str, LookbackBuffer],
    others: dict[str, LookbackBuffer],
    steps: int,
    other_steps: int,
    finalized: bool,
) -> None:
    """Add to `columns`, which have `steps` items, those that only `others` have, filled and masked."""
    masks = {mask_name(key) for key in others}
    for key in [key for key in others if key not in columns and (key not in masks or not steps)]:
        columns[key] = _column_of([_zero_like(others[key])] * steps, finalized)
        if steps:
            columns[mask_name(key)] = _column_of([False] * steps, finalized)
            others.setdefault(mask_name(key), _column_of([True] * other_steps, others[key].finalized))
    for key in [key for key in others if key not in columns]:
        # A mask from an earlier seam, for a column that is real here.
        columns[key] = _column_of([True] * steps, finalized)


def mask_name(key: str) -> str:
    """Return the name of the boolean column that tells at which steps the column `key` is real."""
    return f"{key}_mask"


def _column_of(items: list[Any], finalized: bool) -> LookbackBuffer:
    column = LookbackBuffer(items)
    if finalized:
        column.finalize()
    return column


def _zero_like(column: LookbackBuffer) -> Any:
    """Return an item of zeros, with None at leaves that are not numbers."""
    if not column.len_incl_lookback():
        return 0.0
    item = column.get(0) if len(column) else column.get(-1)
    return map_batch(_zero_leaf, item)


def _zero_leaf(leaf: Any) -> Any:
    array = np.asarray(leaf)
    if array.dtype.kind not in "biufc":
        return None
    return np.zeros_like(array) if isinstance(leaf, np.ndarray) else type(leaf)(0)
