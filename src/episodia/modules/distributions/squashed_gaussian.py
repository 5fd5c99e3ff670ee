"""Real-valued actions between -1 and 1: a Gaussian, squashed by tanh, for `Box` spaces with bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from episodia.modules.distributions.base import (
    ActionDistribution,
    DistributionSpec,
    another_kind,
    checked_actions,
)
from episodia.modules.distributions.gaussian import Gaussian, GaussianSpec

# The largest number below 1 of which every float dtype's inverse tanh is finite; tanh itself reaches 1 in finite precision.
_LARGEST = 1.0 - 2.0**-20
# Points and weights with which the mean of a smooth function of a standard normal number is a short sum.
_POINTS, _WEIGHTS = (part.tolist() for part in np.polynomial.hermite_e.hermegauss(32))


@final
@dataclass(frozen=True)
class SquashedGaussianSpec(DistributionSpec):
    """Distributions for a bounded `Box` of floats; inputs are those of `GaussianSpec`, and tanh is applied to what is drawn.

    Actions are between -1 and 1, whatever the bounds of the space are: `NormalizeAndClipActions`, which is in the default
    pipelines, spreads them over the bounds.

    >>> spec = SquashedGaussianSpec((2,))
    >>> spec.from_logits(torch.tensor([[0.0, 9.0, 0.0, 0.0]])).mode()
    tensor([[0.0000, 1.0000]])
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32

    @property
    def num_inputs(self) -> int:
        """Two for each element of an action."""
        return 2 * math.prod(self.shape)

    def from_logits(self, logits: Tensor, action_mask: Any = None) -> SquashedGaussian:
        """Make one distribution per row, see `DistributionSpec.from_logits`."""
        # In the precision of the inputs: actions are rounded after they were squashed, not before.
        inner = GaussianSpec(
            self.shape, torch.float64 if getattr(logits, "dtype", None) == torch.float64 else torch.float32
        )
        return SquashedGaussian(self, inner.from_logits(logits, action_mask))


@final
class SquashedGaussian(ActionDistribution):
    """tanh of independent Gaussian elements.

    Args:
        spec: Shape and dtype of an action.
        gaussian: The distribution before tanh.
    """

    def __init__(self, spec: SquashedGaussianSpec, gaussian: Gaussian) -> None:
        self._spec = spec
        self.gaussian = gaussian

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self.gaussian.batch_shape

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action per row, see `ActionDistribution.sample`."""
        return self._squashed(self.gaussian.sample(generator))

    def mode(self) -> Tensor:
        """Return tanh of the means: half of the probability is on either side of each element."""
        return self._squashed(self.gaussian.mode())

    def logp(self, actions: Any) -> Tensor:
        """Return the log-density of one action per row; actions at or beyond ±1 count as those right before it."""
        found = checked_actions(self._spec, actions, (*self.batch_shape, *self._spec.shape))
        inner = torch.atanh(found.to(self.gaussian.mean.dtype).clamp(-_LARGEST, _LARGEST))
        slopes = _log_slope(inner).reshape((*self.batch_shape, math.prod(self._spec.shape)))
        return self.gaussian.logp(inner) - slopes.sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy of each row, in nats: that of the Gaussian, and the mean of the log-slope of tanh."""
        mean, std = self.gaussian.mean, self.gaussian.log_std.exp()
        weights = [weight / math.sqrt(2.0 * math.pi) for weight in _WEIGHTS]
        slopes = torch.zeros_like(mean)
        for point, weight in zip(_POINTS, weights, strict=True):
            slopes = slopes + weight * _log_slope(mean + point * std)
        return self.gaussian.entropy() + slopes.sum(-1)

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return KL(self ‖ other), see `ActionDistribution.kl`: tanh loses nothing, so it is that of the Gaussians."""
        if not isinstance(other, SquashedGaussian) or other._spec != self._spec:
            raise another_kind(self._spec, other)
        return self.gaussian.kl(other.gaussian)

    def _squashed(self, inner: Tensor) -> Tensor:
        return inner.tanh().clamp(-_LARGEST, _LARGEST).to(self._spec.dtype)


def _log_slope(inner: Tensor) -> Tensor:
    """Return log(1 − tanh²(x)), also where tanh is 1 in finite precision."""
    return 2.0 * (math.log(2.0) - inner - softplus(-2.0 * inner))
