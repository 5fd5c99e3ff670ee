"""Adds for each step the discounted sum of the rewards from it to the end of the chunk."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from episodia import returns
from episodia.arguments import checked_number
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import mapped_rows
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.value_estimates import flat_column, made_column
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.errors import PipelineError


class ComputeReturnsToGo(ColumnPiece):
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

    def work(self, run: Run) -> None:
        """Add the sums of every module."""
        for _, columns, rows in mapped_rows(run):
            rewards = flat_column(columns, Columns.REWARDS, rows)
            sums = returns.returns_to_go(rewards.values, rewards.offsets, self.gamma)
            columns[Columns.RETURNS_TO_GO] = made_column(
                self.name, Columns.RETURNS_TO_GO, sums, {Columns.REWARDS: rewards}, rows
            )
