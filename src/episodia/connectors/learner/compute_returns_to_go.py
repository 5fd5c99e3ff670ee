"""Adds for each step the discounted sum of the rewards from it to the end of the chunk."""

from __future__ import annotations

from typing import Any, final

from gymnasium import Space

from episodia import returns
from episodia.arguments import checked_number
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, module_batches
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.target_columns import flat_column, made_column
from episodia.episodes import EpisodeList
from episodia.episodes.lists.episode_list import Episodes
from episodia.errors import PipelineError


@final
class ComputeReturnsToGo(ConnectorV2):
    """Adds for each step the discounted sum of the rewards from it to the end of the chunk."""

    reads = frozenset({Columns.REWARDS})
    writes = frozenset({Columns.RETURNS_TO_GO})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        gamma: float = 0.99,
        name: str | None = None,
    ) -> None:
        """Discount by `gamma` per step."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)

    def __call__(self, *, batch: Batch, episodes: Episodes, **kwargs: Any) -> Batch:
        for _, columns, rows in list(module_batches(batch, EpisodeList.of(episodes))):
            rewards = flat_column(columns, Columns.REWARDS, rows)
            sums = returns.returns_to_go(rewards.values, rewards.offsets, self.gamma)
            columns[Columns.RETURNS_TO_GO] = made_column(
                self.name, Columns.RETURNS_TO_GO, sums, {Columns.REWARDS: rewards}, rows
            )
        return batch
