"""Replaces each step by the next `n` together: rewards, next observation, flags, and the discount of the value after them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space

from episodia import returns
from episodia.arguments import checked_number, checked_whole
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import mapped_rows
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import (
    as_track,
    check_tracks,
    next_masks,
)
from episodia.connectors.learner.value_estimates import ends, flat_column, made_column
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.pipelines.current_run import Run
from episodia.errors import PipelineError


class NStepReturns(ColumnPiece):
    """Replaces each step by the next `n` together: rewards, next observation, flags, and the discount of the value after them.

    Near the end of a chunk, the remaining steps are used if there are fewer than `n`. `discounts` is gamma to the
    power of that number, and 0 where the steps end in a terminal state: `rewards + discounts * V(new_obs)` is the target.
    """

    reads = frozenset({Columns.OBS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS})
    writes = frozenset(
        {
            Columns.REWARDS,
            Columns.NEXT_OBS,
            Columns.NEXT_ACTION_MASK,
            Columns.TERMINATEDS,
            Columns.TRUNCATEDS,
            Columns.DISCOUNTS,
        }
    )
    fills = frozenset({Columns.NEXT_ACTION_MASK})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        n: int,
        gamma: float = 0.99,
        name: str | None = None,
    ) -> None:
        """Look `n` steps ahead."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.n = checked_whole(PipelineError, self.name, "n", n, 1)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Reject a place where the observation after the last step is no longer in the batch."""
        check_tracks(self, pipeline)

    def work(self, run: Run) -> None:
        """Look ahead in the columns of every module."""
        for _, columns, rows in mapped_rows(run):
            track = as_track(columns.get(Columns.OBS), type(self).__name__)
            rewards = flat_column(columns, Columns.REWARDS, rows)
            flags = {name: ends(flat_column(columns, name, rows)) for name in (Columns.TERMINATEDS, Columns.TRUNCATEDS)}
            found = returns.n_step_returns(
                rewards.values, rewards.offsets, flags[Columns.TERMINATEDS], n=self.n, discount=self.gamma
            )
            columns[Columns.REWARDS] = made_column(
                self.name, "n-step returns", found.returns, {Columns.REWARDS: rewards}, rows
            )
            columns[Columns.DISCOUNTS] = rewards.with_values(found.discounts.astype(np.float32))
            columns[Columns.NEXT_OBS] = rewards.with_values(track.take(found.next_rows))
            masks = next_masks(columns, rows, track)
            if masks is not None:
                # A track has one row more for each episode than there are steps.
                last_steps = found.next_rows - 1 - np.repeat(np.arange(len(track.lengths)), track.lengths)
                columns[Columns.NEXT_ACTION_MASK] = rewards.with_values(masks.take(last_steps))
            reaches_end = found.next_rows == np.repeat(track.offsets[1:] - 1, track.lengths)
            for name, flag in flags.items():
                columns[name] = rewards.with_values(reaches_end & np.repeat(flag, track.lengths))
