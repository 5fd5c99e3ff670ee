"""Actions without randomness: the best one of several values, or the one that the network returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from episodia.modules.distributions.action_distribution import (
    Deterministic,
    DistributionSpec,
    check_finite,
    check_unmasked,
    checked_inputs,
)
from episodia.modules.distributions.categorical import CategoricalSpec, actions_of, log_probabilities, masked
from episodia.types import Item


@final
@dataclass(frozen=True)
class GreedySpec(DistributionSpec):
    """The action with the largest value, for `Discrete` spaces; the inputs are one value for each action.

    >>> spec = GreedySpec(CategoricalSpec(3, start=5))
    >>> spec.from_logits(torch.tensor([[0.0, 1.0, 2.0]]), action_mask=torch.tensor([[1, 1, 0]])).mode()
    tensor([6])
    """

    choices: CategoricalSpec
    records_logp: ClassVar[bool] = False

    @property
    def num_inputs(self) -> int:
        """The number of actions."""
        return self.choices.n

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> Deterministic:
        """Make one distribution per row, see `DistributionSpec.from_logits`."""
        values = masked(self, checked_inputs(self, logits), action_mask)
        log_probabilities(self, values)  # rejects rows that are not finite or allow no action
        return Deterministic(actions_of(self.choices, values.argmax(-1)), values.shape[:-1])

    def sampled(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the actions, and 0 for each row."""
        return self.from_logits(logits).mode(), logits.new_zeros(logits.shape[:-1])

    def sampled_arrays(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Item, np.ndarray]:
        """Return the same as `sampled`, as arrays: runners come by here at every step."""
        if logits.is_cpu and not logits.requires_grad and logits.dim() > 1:
            values = checked_inputs(self, logits).numpy()
            # The largest value is NaN or infinite in each row that `from_logits` rejects.
            if np.isfinite(values.max(-1)).all():
                actions = actions_of(self.choices, torch.from_numpy(values.argmax(-1)))
                return actions.numpy(), np.zeros(actions.shape, values.dtype)
        return super().sampled_arrays(logits, generator)


@final
@dataclass(frozen=True)
class PointSpec(DistributionSpec):
    """The action that the network returns, for `Box` spaces of floats; the inputs are its elements.

    >>> PointSpec((2,)).from_logits(torch.tensor([[0.5, -1.0]])).mode()
    tensor([[ 0.5000, -1.0000]])
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    records_logp: ClassVar[bool] = False

    @property
    def num_inputs(self) -> int:
        """One for each element of an action."""
        return math.prod(self.shape)

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> Deterministic:
        """Make one distribution per row, see `DistributionSpec.from_logits`."""
        check_unmasked(self, action_mask)
        inputs = checked_inputs(self, logits)
        check_finite(self, inputs)
        batch_shape = inputs.shape[:-1]
        return Deterministic(inputs.reshape((*batch_shape, *self.shape)).to(self.dtype), batch_shape)

    def sampled(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return the actions, and 0 for each row."""
        return self.from_logits(logits).mode(), logits.new_zeros(logits.shape[:-1])
