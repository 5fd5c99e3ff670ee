"""Columns that no episode stores, because they follow from what it is: time steps, flags, ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.episodes.columns.filling import Fills, put
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged, offsets_of, sparse_rows
from episodia.episodes.lists.rows_by_module import DEFAULT_MODULE_ID
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.stacking import object_array

IDS: dict[str, Callable[[SingleAgentEpisode], Any]] = {
    Columns.EPS_ID: lambda row: row.id_ if row.multi_agent_episode_id is None else row.multi_agent_episode_id,
    Columns.AGENT_ID: lambda row: row.agent_id,
    Columns.MODULE_ID: lambda row: DEFAULT_MODULE_ID if row.module_id is None else row.module_id,
}

FLAGS = frozenset({Columns.TERMINATEDS, Columns.TRUNCATEDS})

COMPUTED = frozenset({Columns.T, *FLAGS, *IDS})


def computed_windows(
    rows: EpisodeList, column: str, *, shifts: Sequence[int], fills: Fills, tail: bool = False, every: int = 1
) -> Ragged:
    """Return for each row a column of `COMPUTED` at `shifts` from it: leaves `[N, K]`; see `EpisodeList.windows`.

    Flags stand at steps, the flag of an episode at its last one. Time steps and ids stand at observations, so there is one
    more of them, and the present moment has them too. None of them needs a lookback.

    >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.0, 1.0], len_lookback_buffer=0)
    >>> computed_windows(EpisodeList([walk]), "t", shifts=[-1, 0], fills=Fills((-1, -1))).values.tolist()
    [[-1, 0], [0, 1]]
    """
    lengths, extra = rows.lengths, 1 if tail and not rows.is_current else 0
    if rows.is_current:
        indices, counts = lengths, np.ones_like(lengths)
    else:
        indices, counts = sparse_rows(lengths, extra, every)
    owners = np.repeat(np.arange(len(counts)), counts)
    at = indices[:, None] + np.asarray(shifts, np.int64)
    times = rows.t_started[owners][:, None] + at
    last = lengths[owners][:, None] - (column in FLAGS)
    values: np.ndarray
    if column in FLAGS:
        ended = rows.is_terminated if column == Columns.TERMINATEDS else rows.is_truncated
        values = ended[owners][:, None] & (at == last)
    elif column == Columns.T:
        values = times
    else:
        ids = object_array([IDS[column](row) for row in rows._rows()])
        values = np.repeat(ids[owners][:, None], len(shifts), axis=1)
    outside = (times < 0) | (at > last)
    for part, fill in fills.runs():
        put(values[:, part], outside[:, part], fill)
    return Ragged(values, offsets_of(counts), extra, every)
