"""Treats terminations as truncations: values are bootstrapped after them, as if the episode went on."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, change_column
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.lists.episode_list import Episodes


@final
class IgnoreTerminations(ConnectorV2):
    """Treats terminations as truncations: values are bootstrapped after them, as if the episode went on."""

    reads = writes = frozenset({Columns.TERMINATEDS, Columns.TRUNCATEDS})
    lookback = 0

    def __call__(self, *, batch: Batch, episodes: Episodes, **kwargs: Any) -> Batch:
        episodes = EpisodeList.of(episodes)
        ended: list[np.ndarray] = []

        def ignore(column: Ragged, _: EpisodeList) -> Ragged:
            ended.append(column.values)
            return column.map(np.zeros_like)

        change_column(batch, Columns.TERMINATEDS, episodes, ignore)
        flags = iter(ended)
        change_column(
            batch, Columns.TRUNCATEDS, episodes, lambda column, _: column.with_values(column.values | next(flags))
        )
        return batch
