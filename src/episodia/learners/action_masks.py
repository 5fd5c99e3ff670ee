"""Which actions were allowed at each step, for the loss."""

from __future__ import annotations

from typing import Any, final

from episodia.columns import Columns
from episodia.connectors import ConnectorV2
from episodia.connectors.batch_columns import Batch, module_batches
from episodia.episodes import EpisodeList


@final
class AddActionMasksFromEpisodes(ConnectorV2):
    """Adds the column `action_mask`, where observations are dicts that hold the mask of allowed actions.

    They are taken from the episodes, so that they are there also if a piece makes vectors of the observations. Without them,
    log-probabilities would not be those that the actions were drawn with. Place it after `AgentToModuleMapping`.
    """

    reads = frozenset[str]()
    writes = fills = frozenset({Columns.ACTION_MASK})
    lookback = 0

    def __init__(self, *args: Any, action_mask_key: str = "action_mask", **kwargs: Any) -> None:
        """Look for masks under `action_mask_key`."""
        super().__init__(*args, **kwargs)
        self.action_mask_key = action_mask_key

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        """Add the masks of each module whose observations have some."""
        for _, columns, rows in list(module_batches(batch, EpisodeList.of(episodes))):
            if Columns.ACTION_MASK not in columns and self._have_masks(rows):
                observations = rows.flat(Columns.OBS)
                columns[Columns.ACTION_MASK] = observations.with_values(observations.values[self.action_mask_key])
        return batch

    def _have_masks(self, rows: EpisodeList) -> bool:
        # One look decides whether the observations of all episodes are worth collecting.
        first = next((episode for episode in rows.agent_episodes if len(episode)), None)
        if first is None:
            return False
        observation = first.get_observations(0)
        return isinstance(observation, dict) and self.action_mask_key in observation
