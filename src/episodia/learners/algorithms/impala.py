"""IMPALA: an actor and a critic that learn from what older policies have played, corrected with V-trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch

from episodia.arguments import names_nearest_argument
from episodia.connectors import ConnectorV2, Schedule, VTrace
from episodia.learners.algorithms.a2c import actor_critic_loss
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.gradient_processing import ClipByGlobalNorm, GradientProcessor
from episodia.learners.losses.coefficients import Coefficient, check_positive, check_within
from episodia.learners.losses.loss import LossInputs, LossOutputs


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class IMPALAConfig(AlgorithmConfig):
    """Actor-critic for plans in which runners play while the learner learns; meant for one gradient step per batch.

    Args:
        lambda_: Between one-step targets (0) and targets that look to the end of the chunk (1).
        clip_ratio: The largest ratio of probabilities with which the error of a step counts.
        clip_trace: The largest ratio, at most 1, with which errors of later steps count for earlier ones.
        value_coefficient: The weight of the squared error of the values.
        entropy_coefficient: The weight of the entropy of the policy.

    >>> IMPALAConfig(clip_ratio=2.0).clip_trace
    1.0
    """

    learning_rate: float | Schedule = 3e-3
    gradient_processors: tuple[GradientProcessor, ...] = (ClipByGlobalNorm(0.5),)
    lambda_: float = 0.95
    clip_ratio: float = 1.0
    clip_trace: float = 1.0
    value_coefficient: float | Schedule = 0.5
    entropy_coefficient: float | Schedule = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        where = type(self).__name__
        check_within(where, "lambda_", self.lambda_, 0.0, 1.0)
        check_positive(where, "clip_ratio", self.clip_ratio)
        check_within(where, "clip_trace", self.clip_trace, 0.0, 1.0)
        for name in ("value_coefficient", "entropy_coefficient"):
            check_within(where, name, getattr(self, name), 0.0, may_change=True)

    def targets(self, device: torch.device) -> list[ConnectorV2]:
        """Return the piece that computes advantages and value targets."""
        return [
            VTrace(
                gamma=self.gamma,
                lambda_=self.lambda_,
                clip_ratio=self.clip_ratio,
                clip_trace=self.clip_trace,
                max_seq_len=self.max_seq_len,
                device=device,
            )
        ]

    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return the coefficients of the values and of the entropy."""
        return {"value_coefficient": self.value_coefficient, "entropy_coefficient": self.entropy_coefficient}

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the mean of −log π(a|s) · A + c₁ · (V − target)² − c₂ · H."""
        return actor_critic_loss(inputs, "VTrace")
