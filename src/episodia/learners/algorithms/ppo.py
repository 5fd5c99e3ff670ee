"""PPO: several passes over one batch that stay close to the policy that collected it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from episodia.arguments import checked_flag, names_nearest_argument
from episodia.columns import Columns
from episodia.connectors import ConnectorV2, GeneralAdvantageEstimation, Schedule, Standardize
from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.gradient_processing import ClipByGlobalNorm, GradientProcessor
from episodia.learners.losses.coefficients import AdaptiveKL, Coefficient, check_positive, check_within
from episodia.learners.losses.evaluated_steps import EvaluatedSteps, explained_variance
from episodia.learners.losses.loss import LOSS, LossInputs, LossOutputs


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class PPOConfig(AlgorithmConfig):
    """Proximal policy optimisation with clipped ratios, with a penalty on the divergence, or with both.

    Args:
        lambda_: The parameter of generalised advantage estimation, from one-step differences (0) to whole returns (1).
        standardize_advantages: Whether advantages get mean 0 and standard deviation 1.
        clip: The distance from 1 beyond which a ratio of probabilities gains nothing; None does not clip.
        kl_coefficient: The weight of the divergence from the collecting policy: a number, a schedule, or an `AdaptiveKL`.
            0 switches the penalty off.
        value_coefficient: The weight of the squared error of the values.
        entropy_coefficient: The weight of the entropy of the policy.

    >>> PPOConfig(clip=None, kl_coefficient=AdaptiveKL(target=0.02)).kl_coefficient.target
    0.02
    """

    learning_rate: float | Schedule = 1e-3
    gradient_processors: tuple[GradientProcessor, ...] = (ClipByGlobalNorm(0.5),)
    lambda_: float = 0.95
    standardize_advantages: bool = True
    clip: float | Schedule | None = 0.2
    kl_coefficient: float | Schedule | AdaptiveKL = 0.0
    value_coefficient: float | Schedule = 0.5
    entropy_coefficient: float | Schedule = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        where = type(self).__name__
        checked_flag(LearnerError, where, "standardize_advantages", self.standardize_advantages)
        check_within(where, "lambda_", self.lambda_, 0.0, 1.0)
        for name in ("value_coefficient", "entropy_coefficient"):
            check_within(where, name, getattr(self, name), 0.0, may_change=True)
        if self.clip is not None:
            check_positive(where, "clip", self.clip, may_change=True)
        if not isinstance(self.kl_coefficient, AdaptiveKL):
            check_within(where, "kl_coefficient", self.kl_coefficient, 0.0, may_change=True)

    def targets(self, device: torch.device) -> list[ConnectorV2]:
        """Return the pieces that compute advantages and value targets."""
        estimation = GeneralAdvantageEstimation(
            gamma=self.gamma, lambda_=self.lambda_, max_seq_len=self.max_seq_len, device=device
        )
        return [estimation, *([Standardize()] if self.standardize_advantages else [])]

    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return the coefficients of the parts of the loss, and the clipping distance."""
        return {
            **({} if self.clip is None else {"clip": self.clip}),
            "kl_coefficient": self.kl_coefficient,
            "value_coefficient": self.value_coefficient,
            "entropy_coefficient": self.entropy_coefficient,
        }

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the mean of −surrogate(π/π_old, A) + c₁ · (V − target)² − c₂ · H + c₃ · KL(π_old ‖ π)."""
        steps, coefficients = EvaluatedSteps(inputs.module, inputs.batch), inputs.coefficients
        advantages = steps.numbers(
            Columns.ADVANTAGES, "`GeneralAdvantageEstimation`, for modules with `compute_values`"
        )
        log_ratios = steps.logp() - steps.numbers(Columns.ACTION_LOGP, "the episodes, in which `GetActions` records it")
        ratios, clip = log_ratios.exp(), torch.inf if self.clip is None else coefficients["clip"]
        policy_loss = -clipped_surrogates(ratios, advantages, clip).mean()
        value_targets = steps.numbers(Columns.VALUE_TARGETS, "`GeneralAdvantageEstimation`")
        value_loss = mse_loss(steps.values, value_targets)
        entropy = steps.entropy().mean()
        kl = (
            _divergence(steps, log_ratios)
            if coefficients["kl_coefficient"]
            else _estimated_divergence(log_ratios.detach())
        )
        loss = policy_loss + coefficients["value_coefficient"] * value_loss
        if coefficients["entropy_coefficient"]:
            loss = loss - coefficients["entropy_coefficient"] * entropy
        if coefficients["kl_coefficient"]:
            loss = loss + coefficients["kl_coefficient"] * kl
        clip_fraction = ((ratios.detach() - 1.0).abs() > clip).float().mean()
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "kl": kl}
        explained = explained_variance(steps.values, value_targets)
        return LossOutputs({LOSS: loss}, {**metrics, "clip_fraction": clip_fraction, "explained_variance": explained})


def clipped_surrogates(ratios: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return the advantages times the ratios of probabilities, clipped.

    >>> clipped_surrogates(torch.tensor([1.5, 0.5, 1.5]), torch.tensor([1.0, 1.0, -1.0]), clip=0.2)
    tensor([ 1.2000,  0.5000, -1.5000])
    """
    return torch.minimum(ratios * advantages, ratios.clamp(1.0 - clip, 1.0 + clip) * advantages)


def _divergence(steps: EvaluatedSteps, log_ratios: Tensor) -> Tensor:
    """Return KL(π_old ‖ π): exact if episodes hold the inputs of the distributions, else estimated from the actions."""
    if not steps.has(Columns.ACTION_DIST_INPUTS):
        return _estimated_divergence(log_ratios)
    old = steps.distribution_of(steps.column(Columns.ACTION_DIST_INPUTS))
    found: Tensor = old.kl(steps.distribution).mean()
    return found


def _estimated_divergence(log_ratios: Tensor) -> Tensor:
    # Its mean over actions of the old policy is the divergence, and each term is at least 0.
    return (log_ratios.exp() - 1.0 - log_ratios).mean()
