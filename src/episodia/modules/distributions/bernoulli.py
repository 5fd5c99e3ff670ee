"""Switches that are on or off: the distribution for `MultiBinary` spaces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from episodia.modules.distributions.action_distribution import (
    ActionDistribution,
    DistributionSpec,
    another_kind,
    check_finite,
    check_unmasked,
    checked_actions,
    checked_inputs,
)
from episodia.modules.distributions.categorical import classes_of, outside
from episodia.types import Item


@final
@dataclass(frozen=True)
class BernoulliSpec(DistributionSpec):
    """Distributions for `MultiBinary`; the inputs are the log-odds of 1, one for each element.

    >>> spec = BernoulliSpec((3,))
    >>> spec.from_logits(torch.tensor([[-1.0, 2.0, 0.0]])).mode()
    tensor([[0, 1, 0]], dtype=torch.int8)
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.int8

    @property
    def num_inputs(self) -> int:
        """One for each element of an action."""
        return math.prod(self.shape)

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> Bernoulli:
        """Make one distribution per row, see `DistributionSpec.from_logits`."""
        check_unmasked(self, action_mask)
        inputs = checked_inputs(self, logits)
        check_finite(self, inputs)
        return Bernoulli(self, inputs)


@final
class Bernoulli(ActionDistribution):
    """Independent elements, each 0 or 1.

    Args:
        spec: Shape and dtype of an action.
        logits: `[..., d]`, the log-odds of 1 for the `d` elements of an action one after another.
    """

    def __init__(self, spec: BernoulliSpec, logits: Tensor) -> None:
        self.spec: BernoulliSpec = spec
        self.logits = logits

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self.logits.shape[:-1]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action per row, see `ActionDistribution.sample`."""
        return self._actions(torch.bernoulli(self.logits.detach().sigmoid(), generator=generator))

    def mode(self) -> Tensor:
        """Return 1 where it is more probable than 0."""
        return self._actions(self.logits > 0)

    def logp(self, actions: Item) -> Tensor:
        """Return the log-probability of one action per row."""
        actions = checked_actions(self.spec, actions, (*self.batch_shape, *self.spec.shape))
        bits = classes_of(self.spec, actions, 0)
        if bool(((bits != 0) & (bits != 1)).any()):
            raise outside(self.spec, actions)
        signs = 2 * bits.reshape(self.logits.shape) - 1
        return logsigmoid(signs * self.logits).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of each row, in nats."""
        logits = self.logits
        return -(logits.sigmoid() * logsigmoid(logits) + (-logits).sigmoid() * logsigmoid(-logits)).sum(-1)

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return KL(self ‖ other), see `ActionDistribution.kl`."""
        if not isinstance(other, Bernoulli) or other.spec != self.spec:
            raise another_kind(self.spec, other)
        mine, theirs = self.logits, other.logits
        ones = mine.sigmoid() * (logsigmoid(mine) - logsigmoid(theirs))
        zeros = (-mine).sigmoid() * (logsigmoid(-mine) - logsigmoid(-theirs))
        return (ones + zeros).sum(-1)

    def _actions(self, flat: Tensor) -> Tensor:
        return flat.reshape((*self.batch_shape, *self.spec.shape)).to(self.spec.dtype)
