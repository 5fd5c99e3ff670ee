"""Adds V-trace advantages and value targets, for steps of older policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import Space

from episodia import returns
from episodia.arguments import checked_number, checked_whole
from episodia.columns import Columns
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import check_tracks
from episodia.connectors.learner.current_policies import current_logp
from episodia.connectors.learner.value_estimates import check_values, flat_column, valued_steps
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.pipelines.current_run import Run
from episodia.errors import PipelineError
from episodia.modules.protocol import Modules


class VTrace(ColumnPiece):
    """Adds advantages and value targets of the current policy, estimated from steps that an older policy took.

    The module computes values and log-probabilities as it is now; the recorded `action_logp` is that of the policy that acted.
    The value after the last step is that of the episode's last observation; it is 0 for an episode that terminated. Modules
    without `compute_values` are treated as by `GeneralAdvantageEstimation`.

    Place it before `BatchIndividualItems`, while observations are tracks.

    Args:
        input_observation_space: The space of the observations that reach the piece.
        input_action_space: The same for actions.
        gamma: The discount per step.
        lambda_: See `episodia.returns.v_trace`, also for the following two.
        clip_ratio: The largest ratio with which the error of a step counts.
        clip_trace: The largest ratio with which errors of later steps count for earlier ones.
        max_seq_len: For recurrent modules, as in `AddTimeDimToBatchAndZeroPad`.
        device: The device of the module; the CPU by default.
        name: The name of the piece in its pipeline.

    Raises:
        PipelineError: If a number is out of its range.

    >>> VTrace(gamma=0.9)
    VTrace(gamma=0.9)
    """

    # `action_logp` is left out, because episodes have it only if a runner recorded it; `flat_column` reports its absence.
    reads = frozenset({Columns.OBS, Columns.REWARDS, Columns.TERMINATEDS, Columns.ACTIONS})
    writes = frozenset({Columns.ADVANTAGES, Columns.VALUE_TARGETS})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def __init__(  # noqa: PLR0913  # each is an independent choice
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        gamma: float = 0.99,
        lambda_: float = 1.0,
        clip_ratio: float = 1.0,
        clip_trace: float = 1.0,
        max_seq_len: int | None = None,
        device: str | torch.device | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, name=name)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)
        self.lambda_ = checked_number(PipelineError, self.name, "lambda_", lambda_, 0.0, 1.0)
        self.clip_ratio = checked_number(PipelineError, self.name, "clip_ratio", clip_ratio, np.nextafter(0.0, 1.0))
        self.clip_trace = checked_number(PipelineError, self.name, "clip_trace", clip_trace, 0.0, 1.0)
        self.max_seq_len = max_seq_len
        if max_seq_len is not None:
            self.max_seq_len = checked_whole(PipelineError, self.name, "max_seq_len", max_seq_len, 1)
        self.device = device

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Reject a place where the observation after the last step is no longer in the batch."""
        check_tracks(self, pipeline)

    def check_module(self, rl_module: Modules) -> None:
        """Reject a module that computes no values, see `check_values`."""
        check_values(self.name, rl_module)

    def work(self, run: Run) -> None:
        """Add both columns for every module that computes values."""
        for steps in valued_steps(self.name, run, self.max_seq_len, self.device):
            rewards, columns, rows = steps.rewards, steps.columns, steps.rows
            # Without rows, there are no recorded outputs either.
            acted = flat_column(columns, Columns.ACTION_LOGP, rows) if len(rows) else rewards
            ratios = current_logp(steps.module, columns, rows, self.max_seq_len, self.device) - acted.values
            advantages, targets = returns.v_trace(
                rewards.values,
                steps.values,
                steps.bootstraps,
                steps.terminated,
                ratios,
                rewards.offsets,
                discount=self.gamma,
                lambda_=self.lambda_,
                clip_ratio=self.clip_ratio,
                clip_trace=self.clip_trace,
            )
            also = {"log-probabilities minus recorded ones": rewards.with_values(ratios)}
            steps.add(self.name, advantages, targets, also)
