"""Adds advantages (GAE) and value targets, with values that the module computes in one forward pass."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import Space

from episodia import returns
from episodia.arguments import checked_number, checked_whole
from episodia.columns import Columns
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.add_next_observations_from_episodes_to_train_batch import check_tracks
from episodia.connectors.learner.value_estimates import check_values, valued_steps
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
from episodia.connectors.pipelines.current_run import Run
from episodia.errors import PipelineError
from episodia.modules.protocol import Modules


class GeneralAdvantageEstimation(ColumnPiece):
    """Adds advantages (GAE) and value targets, with values that the module computes in one forward pass.

    The value after the last step is that of the episode's last observation (for recurrent modules, in the state that follows
    the last step); it is 0 for an episode that terminated.

    A module without `compute_values` is rejected. Only members of a container that do not learn may lack it: members that are
    frozen or have no weights, such as rules. They get no advantages. Modules that are not in the container get no advantages
    either; a container with none of the modules is rejected.

    Place it before `BatchIndividualItems`, while observations are tracks; and `Standardize` after it.
    """

    reads = frozenset({Columns.OBS, Columns.REWARDS, Columns.TERMINATEDS})
    writes = frozenset({Columns.ADVANTAGES, Columns.VALUE_TARGETS})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        gamma: float = 0.99,
        lambda_: float = 0.95,
        max_seq_len: int | None = None,
        device: str | torch.device | None = None,
        name: str | None = None,
    ) -> None:
        """Discount rewards by `gamma` per step, and differences to the values by `gamma * lambda_`.

        Args:
            input_observation_space: The space of the observations that reach the piece.
            input_action_space: The same for actions.
            gamma: In [0, 1].
            lambda_: In [0, 1].
            max_seq_len: For recurrent modules, as in `AddTimeDimToBatchAndZeroPad`.
            device: Where the module is; on the CPU by default.
            name: The name of the piece in its pipeline.

        Raises:
            PipelineError: If a number is out of its range.
        """
        super().__init__(input_observation_space, input_action_space, name=name)
        self.gamma = checked_number(PipelineError, self.name, "gamma", gamma, 0.0, 1.0)
        self.lambda_ = checked_number(PipelineError, self.name, "lambda_", lambda_, 0.0, 1.0)
        self.max_seq_len = (
            None if max_seq_len is None else checked_whole(PipelineError, self.name, "max_seq_len", max_seq_len, 1)
        )
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
            advantages, targets = returns.advantages(
                steps.rewards.values,
                steps.values,
                steps.bootstraps,
                steps.terminated,
                steps.rewards.offsets,
                discount=self.gamma,
                lambda_=self.lambda_,
            )
            steps.add(self.name, advantages, targets, {})
