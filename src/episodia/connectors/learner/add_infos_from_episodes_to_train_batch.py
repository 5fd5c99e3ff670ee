"""Adds the info dict that came with each step's observation, as objects."""

from __future__ import annotations

from typing import Any, final

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, add_column
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.kinds import Kind
from episodia.episodes import EpisodeList
from episodia.episodes.lists.episode_list import Episodes


@final
class AddInfosFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the info dict that came with each step's observation, as objects."""

    reads = frozenset[str]()
    writes = frozenset({Columns.INFOS})
    lookback = 0
    kind = Kind.CAUSAL

    def __call__(self, *, batch: Batch, episodes: Episodes, **kwargs: Any) -> Batch:
        add_column(batch, Columns.INFOS, EpisodeList.of(episodes), lambda rows: rows.flat(Columns.INFOS))
        return batch
