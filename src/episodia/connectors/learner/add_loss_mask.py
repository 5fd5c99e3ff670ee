"""Adds a mask of the steps that count for the loss: all of them, until later pieces (padding, burn-in) exclude some."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, add_column
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.lists.episode_list import Episodes


@final
class AddLossMask(ConnectorV2):
    """Adds a mask of the steps that count for the loss: all of them, until later pieces (padding, burn-in) exclude some."""

    reads = frozenset[str]()
    writes = frozenset({Columns.LOSS_MASK})
    lookback = 0

    def __call__(self, *, batch: Batch, episodes: Episodes, **kwargs: Any) -> Batch:
        def all_count(rows: EpisodeList) -> Ragged:
            return rows.flat(Columns.T).map(lambda times: np.ones(len(times), np.bool_))

        add_column(batch, Columns.LOSS_MASK, EpisodeList.of(episodes), all_count)
        return batch
