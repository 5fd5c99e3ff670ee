"""Adds actions, rewards, both flags, and all extra model outputs but states; columns that are there already stay."""

from __future__ import annotations

from collections.abc import Collection
from operator import methodcaller
from typing import Any, final

from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, add_column, has_column, place_for, shape_empty
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.episodes import EpisodeList
from episodia.episodes.lists.episode_list import Episodes

_STEPS = frozenset({Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS})


@final
class AddColumnsFromEpisodesToTrainBatch(ConnectorV2):
    """Adds actions, rewards, both flags, and all extra model outputs but states; columns that are there already stay."""

    reads = frozenset[str]()
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        skip_columns: Collection[str] = frozenset(),
        name: str | None = None,
    ) -> None:
        """Add all columns but `skip_columns`."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.skip_columns = frozenset(skip_columns)

    @property
    def writes(self) -> frozenset[str]:
        """The columns that every episode has; extra model outputs are known only when episodes come."""
        return _STEPS - self.skip_columns

    @property
    def fills(self) -> frozenset[str]:
        """Columns that it leaves alone if an earlier piece has written them."""
        return self.writes

    def __call__(self, *, batch: Batch, episodes: Episodes, **kwargs: Any) -> Batch:
        episodes = EpisodeList.of(episodes)
        skipped = self.skip_columns | {Columns.STATE_IN, Columns.STATE_OUT}
        for column in sorted(_STEPS):
            if column not in skipped and not has_column(batch, column):
                add_column(batch, column, episodes, methodcaller("flat", column))
                if column == Columns.ACTIONS and not len(episodes) and self.input_action_space is not None:
                    shape_empty(batch, column, episodes, self.input_action_space)
        for module_id, rows in episodes.groups().items():
            for column in rows.extra_columns():
                if column not in skipped:
                    # Other modules may have other ones.
                    holder, key = place_for(batch, column, module_id, episodes)
                    if key not in holder:
                        holder[key] = rows.flat(column)
        return batch
