"""Adds the observations that a module acts on: one for each step, or the last one of each running episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, add_observations, has_column, shape_empty
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.episodes import EpisodeList
from episodia.episodes.lists.episode_list import Episodes

if TYPE_CHECKING:
    pass


@final
class AddObservationsFromEpisodesToBatch(ConnectorV2):
    """Adds the observations that a module acts on: one for each step, or the last one of each running episode.

    Observations that an earlier piece has added or changed stay as they are. In training, the observation after the last
    step goes along as the tail of a track, so that values can be bootstrapped from it.
    """

    reads = frozenset[str]()
    writes = fills = frozenset({Columns.OBS})
    lookback = 0

    def __call__(self, *, batch: Batch, episodes: Episodes, **kwargs: Any) -> Batch:
        if not has_column(batch, Columns.OBS):
            episodes = EpisodeList.of(episodes)
            add_observations(batch, episodes)
            if not len(episodes) and self.input_observation_space is not None:
                # Nobody else tells what observations look like that are not there.
                shape_empty(batch, Columns.OBS, episodes, self.input_observation_space)
        return batch
