"""The environment steps at which stored observations were shown to agents, and the rows of agents at such steps."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from episodia.episodes.lists.episode_list import EpisodeList
from episodia.replay.adding.incoming import Incoming
from episodia.replay.rows.row_columns import ENV_T
from episodia.replay.rows.row_index import STEP
from episodia.replay.table import Table

_EnvTimes = dict[tuple[Hashable, int], list[int]]


def env_times_of(episodes: EpisodeList) -> _EnvTimes:
    """Return at which environment steps the observations of each chunk of an agent were shown, by origin and time step."""
    found: _EnvTimes = {}
    if not episodes.is_multi_agent:
        return found
    listed = list(episodes)
    for position, agent in episodes.row_owners():
        episode = listed[position]
        single = episode.agent_episodes[agent]
        if len(single):
            shown_at = episode.roster.records[agent].shown_at()
            found[(episode.id_, agent), single.t_started] = shown_at[single.observations.lookback :][: len(single) + 1]
    return found


def with_env_times(part: Incoming, known: _EnvTimes) -> Incoming:
    """Return chunks with the environment steps of their observations."""
    times = [known[key, t] for key, t in zip(part.chunks.origins, part.chunks.t_started.tolist(), strict=True)]
    return part._replace(values={**part.values, ENV_T: np.array([t for chunk in times for t in chunk], np.int64)})


def env_times_at(table: Table, rows: np.ndarray) -> np.ndarray:
    """Return the environment step of each row; in tables of single-agent episodes it is the time step."""
    found: np.ndarray = (
        table.columns.take(ENV_T, rows) if ENV_T in table.columns else table.writer.index.places(rows).times
    )
    return found


def are_known(table: Table, rows: np.ndarray) -> np.ndarray:
    """Tell for which steps it is known at which environment step they were taken: bool [B]."""
    mask = f"{ENV_T}_mask"
    known: np.ndarray = table.columns.take(mask, rows) if mask in table.columns else np.ones(len(rows), np.bool_)
    return known


def steps_at(table: Table, episodes: np.ndarray, env_times: np.ndarray) -> np.ndarray:
    """Return the row of the step that each stored episode has at an environment step, -1 without such a step: int64 [B]."""
    index = table.writer.index
    stored = index.episodes
    first, begin, end = stored.first.take(episodes), stored.t_kept.take(episodes), stored.t_stop.take(episodes)
    anchors = index.runs.start.take(first)

    def rows_at(times: np.ndarray) -> np.ndarray:
        return index.walk(anchors, first, (times - begin)[:, None])[:, 0]

    low, high = begin, end
    while (low < high).any():  # a binary search in all episodes at once
        middle = (low + high) // 2
        is_before = env_times_at(table, rows_at(middle)) < env_times
        is_open = low < high
        low, high = np.where(is_open & is_before, middle + 1, low), np.where(is_open & ~is_before, middle, high)
    rows = rows_at(low)
    found = (env_times_at(table, rows) == env_times) & ((index.kind.take(rows) & STEP) != 0) & are_known(table, rows)
    return np.where(found, rows, -1)
