"""Masks of the actions that were allowed at each step, for the loss."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, mapped_rows
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, Ragged


class AddActionMasksFromEpisodes(ColumnPiece):
    """Adds the column `action_mask`, where observations are dicts that hold the mask of allowed actions.

    Masks are taken from the episodes, so that they are available even if a piece flattens the observations. Without masks,
    log-probabilities would differ from those of the sampled actions. Place it after `AgentToModuleMapping`.
    """

    reads = frozenset[str]()
    writes = fills = frozenset({Columns.ACTION_MASK})
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        action_mask_key: str = "action_mask",
        name: str | None = None,
    ) -> None:
        """Look for masks under `action_mask_key`."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.action_mask_key = action_mask_key

    def work(self, run: Run) -> None:
        """Add the masks of each module whose observations have masks."""
        for _, columns, rows in mapped_rows(run):
            observations = None if Columns.ACTION_MASK in columns else self._with_masks(columns, rows)
            if observations is not None:
                masks = observations.with_values(observations.values[self.action_mask_key])
                columns[Columns.ACTION_MASK] = masks.body()

    def _with_masks(self, columns: Batch, rows: EpisodeList) -> Ragged | None:
        """Return observations that hold masks, of the batch or of the episodes; None without masks."""
        found = columns.get(Columns.OBS)
        if isinstance(found, Ragged) and isinstance(found.values, dict) and self.action_mask_key in found.values:
            return found
        return rows.flat(Columns.OBS) if rows.has_in_observations(self.action_mask_key) else None
