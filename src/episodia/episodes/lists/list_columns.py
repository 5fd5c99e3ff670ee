"""The columns of many agent episodes: finding them by name, and what to say about those that are not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, attrgetter
from typing import Any

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.lists.joined_columns import joined, joined_latest, joined_with_first
from episodia.episodes.lists.list_arguments import check_name
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import DroppedHistoryError, EpisodeIndexError, EpisodeKeyError, NotYetError

Rows = list[SingleAgentEpisode]

# What every episode stores, and how it is reached.
STORED: dict[str, Callable[[SingleAgentEpisode], LookbackBuffer]] = {
    Columns.OBS: attrgetter("observations"),
    Columns.INFOS: attrgetter("infos"),
    Columns.ACTIONS: attrgetter("actions"),
    Columns.REWARDS: attrgetter("rewards"),
}

# What is not stored per step.
COMPUTED = (Columns.TERMINATEDS, Columns.TRUNCATEDS, Columns.T)

_NOTHING = LookbackBuffer()


def columns_of(rows: Rows, column: str) -> list[LookbackBuffer]:
    """Return a stored column, or an extra model output, of each episode.

    Raises:
        EpisodeKeyError: If an episode does not have it, unless it has no step yet, and others have it.
    """
    check_name(column)
    if column in STORED:
        return list(map(STORED[column], rows))
    try:
        return [row.extra_model_outputs[column] for row in rows]
    except KeyError:
        missing = next((row for row in rows if column not in row.extra_model_outputs and not _is_new(row)), None)
        if missing is None and any(column in row.extra_model_outputs for row in rows):
            # Episodes without a step have no extra columns yet, and nothing in them.
            return [row.extra_model_outputs.get(column, _NOTHING) for row in rows]
        missing = missing or rows[0]
        raise EpisodeKeyError(
            f"episode {missing.id_!r}: found no column {column!r}, expected it in all {len(rows)} episodes. It has "
            f"{sorted([*STORED, *COMPUTED, *missing.extra_model_outputs], key=str)}."
        ) from None


def _is_new(row: SingleAgentEpisode) -> bool:
    return not row.rewards.len_incl_lookback()


def latest(rows: Rows, column: str) -> Any:
    """Return the last item of a column of each episode, as a batch.

    Raises:
        EpisodeIndexError: If an episode has no item in it.
    """
    columns = columns_of(rows, column)
    try:
        return joined_latest(columns)
    except IndexError:
        check_started(rows, column, columns)
        raise


def extra_columns(rows: Rows) -> list[str]:
    """Return the names of the extra model outputs, those of all episodes together."""
    distinct = dict.fromkeys(tuple(row.extra_model_outputs) for row in rows)
    return list(dict.fromkeys(name for names in distinct for name in names))


def not_yet(column: str) -> NotYetError:
    """Return the error to raise if a column is asked for that the next step will add."""
    return NotYetError(
        f"found the column {column!r} asked for at the present moment, expected a column of observations or infos: what a step "
        "adds is not there yet. Ask for `windows` with negative shifts to see the past."
    )


def check_started(rows: Rows, column: str, columns: list[LookbackBuffer]) -> None:
    """Refuse episodes that have no item in a column of observations or infos.

    Raises:
        EpisodeIndexError: If there is such an episode.
    """
    for row, buffer in zip(rows, columns, strict=True):
        if not buffer.len_incl_lookback():
            problem = f"episode {row.id_!r}: found no item in the column {column!r}, expected one."
            raise EpisodeIndexError(f"{problem} Start the episode with `add_env_reset`.") from None


def space_of(rows: Rows, column: str) -> Space[Any] | None:
    """Return the space of the items of a column in the first episode, None if it is not known."""
    check_name(column)
    row = next(iter(rows), None)
    spaces = {} if row is None else {Columns.OBS: row.observation_space, Columns.ACTIONS: row.action_space}
    return spaces.get(column)


def preceding(columns: list[LookbackBuffer], counts: list[int], t_started: np.ndarray, first: Any) -> Any:
    """Return the item before each of `counts` steps of each column, one after another; `first` before an episode's first.

    Raises:
        DroppedHistoryError: If a chunk does not have the step before its first one any more.
    """
    lookbacks = [buffer.lookback for buffer in columns]
    check_kept(np.array(lookbacks, np.int64), t_started)
    starts = [lookback - 1 for lookback in lookbacks]
    return joined_with_first(columns, starts, list(map(add, starts, counts)), first)


def check_kept(lookbacks: np.ndarray, t_started: np.ndarray) -> None:
    """Refuse chunks that begin in the middle of an episode and know nothing of the step before.

    Raises:
        DroppedHistoryError: If there is such a chunk.
    """
    dropped = np.flatnonzero((lookbacks == 0) & (t_started > 0))
    if len(dropped):
        raise DroppedHistoryError(int(dropped[0]), 1, 0, int(t_started[dropped[0]]))


def values_and_places(
    columns: list[LookbackBuffer], shifts: Sequence[int], *, at_end: bool
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the items of all columns that windows can reach, one after another, and where they lie.

    Args:
        columns: One of each episode.
        shifts: How far windows reach.
        at_end: Whether there are windows at the end of each column only.

    Returns:
        The items; and for each column, how many of them are its past, and how many follow: two arrays int64 [B].
    """
    lookbacks = np.array([buffer.lookback for buffer in columns], np.int64)
    sizes = [buffer.len_incl_lookback() for buffer in columns]
    starts = first_needed(shifts, sizes) if at_end else [0] * len(sizes)
    # An empty list would be taken for floats.
    past = lookbacks - np.array(starts, np.int64)
    return joined(columns, starts, sizes), past, np.array(sizes, np.int64) - lookbacks


def first_needed(shifts: Sequence[int], sizes: list[int]) -> list[int]:
    """Return the position in each column before which a window at its end does not reach.

    >>> first_needed([-2, 0], [10, 2])
    [7, 0]
    """
    # One more than the farthest shift: columns of steps end one earlier than those of observations.
    reach = 1 - min([0, *shifts])
    return [max(0, size - reach) for size in sizes]


def at_ends(flags: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return False for each row, but the flag of its stretch for the last one.

    >>> at_ends(np.array([True, False, True]), np.array([0, 2, 3, 3]))
    array([False,  True, False])
    """
    flat = np.zeros(offsets[-1], np.bool_)
    ended = flags & (offsets[1:] > offsets[:-1])
    flat[offsets[1:][ended] - 1] = True
    return flat
