"""REINFORCE: actions with large returns become more probable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from episodia.arguments import checked_flag, names_nearest_argument
from episodia.columns import Columns
from episodia.connectors import ComputeReturnsToGo, ConnectorV2, Schedule, Standardize
from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.losses.coefficients import Coefficient, check_within
from episodia.learners.losses.evaluated_steps import EvaluatedSteps
from episodia.learners.losses.loss import LOSS, LossInputs, LossOutputs


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class ReinforceConfig(AlgorithmConfig):
    """The policy gradient with whole returns. It does not bootstrap, so it rejects chunks that were cut in mid-episode.

    Args:
        standardize_returns: Whether returns get mean 0 and standard deviation 1, which replaces a baseline.
        entropy_coefficient: The weight of the entropy of the policy.

    >>> ReinforceConfig(learning_rate=1e-2).gamma
    0.99
    """

    learning_rate: float | Schedule = 3e-3
    standardize_returns: bool = True
    entropy_coefficient: float | Schedule = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        where = type(self).__name__
        checked_flag(LearnerError, where, "standardize_returns", self.standardize_returns)
        check_within(where, "entropy_coefficient", self.entropy_coefficient, 0.0, may_change=True)

    def targets(self, device: torch.device) -> list[ConnectorV2]:
        """Return the pieces that compute returns-to-go."""
        standardize = [Standardize(column=Columns.RETURNS_TO_GO)] if self.standardize_returns else []
        return [ComputeReturnsToGo(gamma=self.gamma, whole_episodes=True), *standardize]

    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return the coefficient of the entropy."""
        return {"entropy_coefficient": self.entropy_coefficient}

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the mean of −log π(a|s) · R − c · H."""
        steps, coefficients = EvaluatedSteps(inputs.module, inputs.batch), inputs.coefficients
        returns = steps.numbers(Columns.RETURNS_TO_GO, "`ComputeReturnsToGo`")
        policy_loss = -(steps.logp() * returns).mean()
        entropy = steps.entropy().mean()
        loss = policy_loss - coefficients["entropy_coefficient"] * entropy
        return LossOutputs({LOSS: loss}, {"policy_loss": policy_loss, "entropy": entropy})
