"""Real-valued actions: the distribution for `Box` spaces of floats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from episodia.modules.distributions.action_distribution import (
    ActionDistribution,
    DistributionSpec,
    another_kind,
    check_finite,
    check_unmasked,
    checked_actions,
    checked_inputs,
)
from episodia.types import Item

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
# What exp makes of these, and of twice their distance, is far from both ends of float32.
_LOG_STD_RANGE = (-20.0, 20.0)


@final
@dataclass(frozen=True)
class GaussianSpec(DistributionSpec):
    """Distributions for a `Box` of floats; the inputs are all means, then the logarithms of all standard deviations.

    Logarithms below -20 or above 20 count as these, without a gradient: standard deviations are from 2e-9 to 5e8.

    A Gaussian has no bounds: actions are not clipped here, since their log-probability belongs to what was drawn. What the
    environment gets is made of them later.

    >>> spec = GaussianSpec((2,))
    >>> spec.from_logits(torch.tensor([[1.0, 2.0, 0.0, 0.0]])).mode()
    tensor([[1., 2.]])
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32

    @property
    def num_inputs(self) -> int:
        """Two for each element of an action."""
        return 2 * math.prod(self.shape)

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> Gaussian:
        """Make one distribution per row, see `DistributionSpec.from_logits`."""
        check_unmasked(self, action_mask)
        inputs = checked_inputs(self, logits)
        check_finite(self, inputs)
        size = self.num_inputs // 2
        return Gaussian(self, inputs[..., :size], inputs[..., size:].clamp(*_LOG_STD_RANGE))


@final
class Gaussian(ActionDistribution):
    """Independent normal distributions of the elements of an action.

    Args:
        spec: Shape and dtype of an action.
        mean: `[..., d]`, for the `d` elements of an action one after another.
        log_std: `[..., d]`, the logarithms of the standard deviations.
    """

    def __init__(self, spec: GaussianSpec, mean: Tensor, log_std: Tensor) -> None:
        self.spec: GaussianSpec = spec
        self.mean = mean
        self.log_std = log_std

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self.mean.shape[:-1]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action per row, see `ActionDistribution.sample`."""
        return self._actions(torch.normal(self.mean, self.log_std.exp(), generator=generator).detach())

    def mode(self) -> Tensor:
        """Return the mean of each row."""
        return self._actions(self.mean)

    def logp(self, actions: Item) -> Tensor:
        """Return the log-density of one action per row."""
        actions = checked_actions(self.spec, actions, (*self.batch_shape, *self.spec.shape))
        flat: Tensor = actions.reshape(self.mean.shape).to(self.mean.dtype)
        deviation = (flat - self.mean) * torch.exp(-self.log_std)
        return -(0.5 * deviation.square() + self.log_std + _HALF_LOG_TAU).sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy of each row, in nats."""
        return (self.log_std + (0.5 + _HALF_LOG_TAU)).sum(-1)

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return KL(self ‖ other), see `ActionDistribution.kl`."""
        if not isinstance(other, Gaussian) or other.spec != self.spec:
            raise another_kind(self.spec, other)
        ratio = torch.exp(2.0 * (self.log_std - other.log_std))
        distance = ((self.mean - other.mean) * torch.exp(-other.log_std)).square()
        return (other.log_std - self.log_std + 0.5 * (ratio + distance - 1.0)).sum(-1)

    def _actions(self, flat: Tensor) -> Tensor:
        return flat.reshape((*self.batch_shape, *self.spec.shape)).to(self.spec.dtype)
