"""Real-valued actions between -1 and 1: a Gaussian, squashed by tanh, for `Box` spaces with bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from episodia.modules.distributions.action_distribution import (
    ActionDistribution,
    DistributionSpec,
    another_kind,
    checked_actions,
)
from episodia.modules.distributions.gaussian import Gaussian, GaussianSpec
from episodia.types import Item

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
# The largest number below 1 of which every float dtype's inverse tanh is finite; tanh itself reaches 1 in finite precision.
_LARGEST = 1.0 - 2.0**-20


@final
@dataclass(frozen=True)
class SquashedGaussianSpec(DistributionSpec):
    """Distributions for a bounded `Box` of floats; inputs are those of `GaussianSpec`, and tanh is applied to what is drawn.

    Actions are between -1 and 1 for any bounds of the space: `NormalizeAndClipActions`, which is in the default
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

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> SquashedGaussian:
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
        self.spec: SquashedGaussianSpec = spec
        self.gaussian = gaussian

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self.gaussian.batch_shape

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action per row, see `ActionDistribution.sample`."""
        return self._squashed(self.gaussian.sample(generator))

    def rsample_with_logp(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw one action per row with gradients to the inputs; return actions and their log-densities."""
        mean, log_std = self.gaussian.mean, self.gaussian.log_std
        noise = torch.empty_like(mean).normal_(generator=generator)
        inner = mean + log_std.exp() * noise
        logp = -(0.5 * noise.square() + log_std + _HALF_LOG_TAU + _log_slope(inner)).sum(-1)
        return self._squashed(inner.reshape((*self.batch_shape, *self.spec.shape))), logp

    def mode(self) -> Tensor:
        """Return tanh of the means: half of the probability is on either side of each element."""
        return self._squashed(self.gaussian.mode())

    def logp(self, actions: Item) -> Tensor:
        """Return the log-density of one action per row; actions at or beyond ±1 count as those right before it."""
        found = checked_actions(self.spec, actions, (*self.batch_shape, *self.spec.shape))
        inner = torch.atanh(found.to(self.gaussian.mean.dtype).clamp(-_LARGEST, _LARGEST))
        slopes = _log_slope(inner).reshape((*self.batch_shape, math.prod(self.spec.shape)))
        return self.gaussian.logp(inner) - slopes.sum(-1)

    def entropy(self) -> Tensor:
        """Return the differential entropy of each row, in nats: that of the Gaussian, and the mean of the log-slope of tanh."""
        mean, variance = self.gaussian.mean.unsqueeze(-1), (2.0 * self.gaussian.log_std).exp().unsqueeze(-1)
        # log(2 cosh(x)) is the mean distance |x + k·z| of a logistic number from 0, and k·z is normal as x is.
        squares, weights = map(mean.new_tensor, _LOGISTIC)
        distances = (weights * _mean_distance(mean, variance + squares)).sum(-1)
        return self.gaussian.entropy() + 2.0 * (math.log(2.0) - distances).sum(-1)

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return KL(self ‖ other), see `ActionDistribution.kl`: tanh loses nothing, so it is that of the Gaussians."""
        if not isinstance(other, SquashedGaussian) or other.spec != self.spec:
            raise another_kind(self.spec, other)
        return self.gaussian.kl(other.gaussian)

    def _squashed(self, inner: Tensor) -> Tensor:
        return inner.tanh().clamp(-_LARGEST, _LARGEST).to(self.spec.dtype)


def _log_slope(inner: Tensor) -> Tensor:
    """Return log(1 − tanh²(x)), also where tanh is 1 in finite precision."""
    return 2.0 * (math.log(2.0) - inner - softplus(-2.0 * inner))


def _mean_distance(mean: Tensor, variance: Tensor) -> Tensor:
    """Return the mean of |x| for normal x."""
    root = (2.0 * variance).sqrt()
    ratio = mean / root
    return root / math.sqrt(math.pi) * torch.exp(-ratio.square()) + mean * torch.erf(ratio)


class _Mixture(NamedTuple):
    """Variances of normal numbers, and how often each is drawn from."""

    squares: list[float]
    weights: list[float]


def _logistic() -> _Mixture:
    """Return the logistic distribution with the density 1/2 (1 - tanh²) as a mixture of normal ones, to four digits.

    That is k·z, where z is standard normal and k has Kolmogorov's distribution, of which all but a hundred thousandth lies
    between the ends here.
    """
    low, high = 0.25, 2.5
    points, weights = np.polynomial.legendre.leggauss(12)
    k = low + (high - low) * (points + 1.0) / 2.0
    j = np.arange(1, 20)[:, None]
    density = 8.0 * k * ((-1.0) ** (j + 1) * j**2 * np.exp(-2.0 * (j * k) ** 2)).sum(0)
    shares = weights * density
    return _Mixture((k**2).tolist(), (shares / shares.sum()).tolist())


_LOGISTIC = _logistic()
