"""Adds for each step the discounted sum of the rewards from it to the end of the chunk."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from episodia import returns
from episodia.arguments import checked_flag, checked_number
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import mapped_rows
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.value_estimates import flat_column, made_column
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run, mark
from episodia.episodes import EpisodeList
from episodia.errors import BatchError, PipelineError


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
        whole_episodes: bool = False,
        name: str | None = None,
    ) -> None:
        """Discount by `gamma` per step; with `whole_episodes`, reject chunks that were cut before their episode ended."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)
        self.whole_episodes = checked_flag(PipelineError, self.name, "whole_episodes", whole_episodes)

    def work(self, run: Run) -> None:
        """Add the sums of every module."""
        for _, columns, rows in mapped_rows(run):
            if self.whole_episodes:
                self._check_ended(rows)
            rewards = flat_column(columns, Columns.REWARDS, rows)
            sums = returns.returns_to_go(rewards.values, rewards.offsets, self.gamma)
            columns[Columns.RETURNS_TO_GO] = made_column(
                self.name, Columns.RETURNS_TO_GO, sums, {Columns.REWARDS: rewards}, rows
            )

    def _check_ended(self, rows: EpisodeList) -> None:
        cut = (rows.lengths > 0) & ~rows.is_terminated & ~rows.is_truncated
        if cut.any():
            episode = rows.agents_for_reading()[int(cut.argmax())]
            error = BatchError(
                f"found {int(cut.sum())} of {len(rows)} episodes that were cut before their end, the first one at "
                f"t={episode.t}, expected whole ones: a return that ends at a cut lacks all later rewards. Ask the runner for "
                'whole episodes: `sample(num_episodes=...)`, or `batch_mode="complete_episodes"`; in `train`, set '
                "`num_episodes`."
            )
            mark(error, Columns.REWARDS, episode.id_)
            raise error
