"""A2C: actions that turn out better than expected become more probable, and the values follow the returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch.nn.functional import mse_loss

from episodia.arguments import checked_flag, names_nearest_argument
from episodia.columns import Columns
from episodia.connectors import ConnectorV2, GeneralAdvantageEstimation, Schedule, Standardize
from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.gradient_processing import ClipByGlobalNorm, GradientProcessor
from episodia.learners.losses.coefficients import Coefficient, check_within
from episodia.learners.losses.evaluated_steps import EvaluatedSteps, explained_variance
from episodia.learners.losses.loss import LOSS, LossInputs, LossOutputs


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class A2CConfig(AlgorithmConfig):
    """Advantage actor-critic, meant for one gradient step per batch.

    Args:
        lambda_: The parameter of generalised advantage estimation, from one-step differences (0) to whole returns (1).
        standardize_advantages: Whether advantages get mean 0 and standard deviation 1. Near the end of learning this turns
            small differences into large steps, which one gradient step per batch does not limit.
        value_coefficient: The weight of the squared error of the values.
        entropy_coefficient: The weight of the entropy of the policy.

    >>> A2CConfig(entropy_coefficient=0.0).lambda_
    0.95
    """

    learning_rate: float | Schedule = 3e-3
    gradient_processors: tuple[GradientProcessor, ...] = (ClipByGlobalNorm(0.5),)
    lambda_: float = 0.95
    standardize_advantages: bool = False
    value_coefficient: float | Schedule = 0.5
    entropy_coefficient: float | Schedule = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        where = type(self).__name__
        checked_flag(LearnerError, where, "standardize_advantages", self.standardize_advantages)
        check_within(where, "lambda_", self.lambda_, 0.0, 1.0)
        for name in ("value_coefficient", "entropy_coefficient"):
            check_within(where, name, getattr(self, name), 0.0, may_change=True)

    def targets(self, device: torch.device) -> list[ConnectorV2]:
        """Return the pieces that compute advantages and value targets."""
        estimation = GeneralAdvantageEstimation(
            gamma=self.gamma, lambda_=self.lambda_, max_seq_len=self.max_seq_len, device=device
        )
        return [estimation, *([Standardize()] if self.standardize_advantages else [])]

    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return the coefficients of the values and of the entropy."""
        return {"value_coefficient": self.value_coefficient, "entropy_coefficient": self.entropy_coefficient}

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the mean of −log π(a|s) · A + c₁ · (V − target)² − c₂ · H."""
        return actor_critic_loss(inputs, "GeneralAdvantageEstimation")


def actor_critic_loss(inputs: LossInputs, estimator: str) -> LossOutputs:
    """Return the mean of −log π(a|s) · A + c₁ · (V − target)² − c₂ · H.

    Args:
        inputs: The inputs, with the coefficients `value_coefficient` (c₁) and `entropy_coefficient` (c₂).
        estimator: The piece that adds advantages and value targets.
    """
    steps, coefficients = EvaluatedSteps(inputs.module, inputs.batch), inputs.coefficients
    advantages = steps.numbers(Columns.ADVANTAGES, f"`{estimator}`, for modules with `compute_values`")
    policy_loss = -(steps.logp() * advantages).mean()
    value_targets = steps.numbers(Columns.VALUE_TARGETS, f"`{estimator}`")
    value_loss = mse_loss(steps.values, value_targets)
    entropy = steps.entropy().mean()
    loss = policy_loss + coefficients["value_coefficient"] * value_loss - coefficients["entropy_coefficient"] * entropy
    metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
    explained = explained_variance(steps.values, value_targets)
    return LossOutputs({LOSS: loss}, {**metrics, "explained_variance": explained})
