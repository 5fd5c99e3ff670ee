"""Columns that say where a row comes from: ids, indices, the version of the weights, and the fragment.

Episodes do not store them for each step. Versions stand at steps: that of the weights which chose the action. All others stand
at observations, so there is one more of them than there are steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import DroppedHistoryError
from episodia.stacking import object_array

Of = Callable[[SingleAgentEpisode], Any]

# The same at all steps of an episode, or of a fragment. A fragment is a chunk: it begins where the one before was cut.
IDS: Final[dict[str, Of]] = {
    Columns.EPS_ID: lambda row: row.id_ if row.multi_agent_episode_id is None else row.multi_agent_episode_id,
    Columns.AGENT_ID: lambda row: row.agent_id,
    Columns.MODULE_ID: lambda row: DEFAULT_MODULE_ID if row.module_id is None else row.module_id,
    Columns.FRAGMENT_ID: lambda row: f"{row.id_}:{row.t_started}",
}

AT_STEPS: Final = frozenset({Columns.WEIGHTS_VERSION})

# Stands where a number is not known, and outside of the episode.
UNKNOWN: Final = -1

_INDICES: Final[dict[str, Of]] = {
    Columns.ENV_INDEX: lambda row: UNKNOWN if row.env_index is None else row.env_index,
    Columns.AGENT_INDEX: lambda row: row.agent_index,
}

NUMBERS: Final = frozenset({*_INDICES, Columns.WEIGHTS_VERSION})
ORIGINS: Final = frozenset({*IDS, *NUMBERS})


def origin_windows(
    column: str, rows: Sequence[SingleAgentEpisode], owners: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """Return one of `ORIGINS` at each of `times`.

    Args:
        column: The column.
        rows: Episodes.
        owners: The position in `rows` of the episode of each row, ascending: int64 [N].
        times: Time steps: int64 [N, K].

    Raises:
        DroppedHistoryError: If a version of the weights is asked for that a chunk has dropped.

    >>> walk = SingleAgentEpisode("walk", observations=[0, 1], actions=[5], rewards=[0.5], len_lookback_buffer=0)
    >>> origin_windows("fragment_id", [walk], np.array([0]), np.array([[-1, 0]])).tolist()
    [[None, 'walk:0']]
    """
    found: np.ndarray
    if column == Columns.WEIGHTS_VERSION:
        found = np.full(times.shape, UNKNOWN, np.int64)
        bounds = np.searchsorted(owners, np.arange(len(rows) + 1))
        for position, row in enumerate(rows):
            own = slice(bounds[position], bounds[position + 1])
            found[own] = _versions(position, row, times[own])
        return found
    constant = _INDICES.get(column)
    if constant is not None:
        values = np.array([constant(row) for row in rows], np.int64)
        return np.repeat(values[owners][:, None], times.shape[1], axis=1)
    ids = object_array([IDS[column](row) for row in rows])
    found = np.repeat(ids[owners][:, None], times.shape[1], axis=1)
    if column == Columns.FRAGMENT_ID:
        # Steps of the past belong to other fragments.
        t_started = np.array([row.t_started for row in rows], np.int64)
        found[times < t_started[owners][:, None]] = None
    return found


def _versions(position: int, row: SingleAgentEpisode, times: np.ndarray) -> np.ndarray:
    """Return the version of the weights in use at each of `times` of an episode."""
    history = row.weights_versions
    if not history:
        return np.full(times.shape, UNKNOWN, np.int64)
    lookback = row.observations.lookback
    earliest = int(times.min(initial=row.t, where=times >= 0))
    if earliest < row.t_started - lookback:
        raise DroppedHistoryError(position, row.t_started - earliest, lookback, row.t_started)
    starts, versions = np.array(history, np.int64).T
    places = np.searchsorted(starts, times, side="right") - 1
    return np.where(places < 0, UNKNOWN, versions[places])
