"""Choices among finitely many actions: the maths on the last axis, and the distribution for `Discrete` spaces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
import torch
from torch import Tensor

from episodia.errors import ModuleError
from episodia.modules.distributions.action_distribution import (
    FULL_PRECISION,
    ActionDistribution,
    DistributionSpec,
    another_kind,
    checked_actions,
    checked_inputs,
    describe,
    not_finite,
)
from episodia.types import Item


@final
@dataclass(frozen=True)
class CategoricalSpec(DistributionSpec):
    """Distributions for `Discrete(n, start=start)`; the inputs are unnormalised log-probabilities.

    >>> spec = CategoricalSpec(3, start=5)
    >>> spec.from_logits(torch.tensor([[0.0, 1.0, 0.0]])).mode()
    tensor([6])
    """

    n: int
    start: int = 0
    dtype: torch.dtype = torch.int64

    @property
    def num_inputs(self) -> int:
        """The number of actions."""
        return self.n

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> Categorical:
        """Make one distribution per row, see `DistributionSpec.from_logits`."""
        logits = masked(self, checked_inputs(self, logits), action_mask)
        return Categorical(self, log_probabilities(self, logits))

    def sampled(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw one action per row, see `DistributionSpec.sampled`: runners come by here at every step."""
        if logits.is_cpu and not logits.requires_grad and logits.dim() > 1:
            arrays = self.sampled_arrays(logits, generator)
            return torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1])
        logits = checked_inputs(self, logits)
        normalised = torch.log_softmax(logits, -1)
        classes = draw(normalised, generator)
        logp = normalised.gather(-1, classes.unsqueeze(-1)).squeeze(-1)
        # In a row that is not finite everything is NaN, also the draw.
        if math.isnan(logp.sum().item()):
            raise _unusable(self, logits)
        return actions_of(self, classes), logp

    def sampled_arrays(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw one action per row, see `DistributionSpec.sampled_arrays`: runners come by here at every step."""
        if not logits.is_cpu or logits.requires_grad or logits.dim() < 2:
            return super().sampled_arrays(logits, generator)
        if logits.dtype not in FULL_PRECISION or logits.shape[-1] != self.n:
            logits = checked_inputs(self, logits)
        logps = logits.log_softmax(-1).numpy()
        # The race of `draw`. NumPy needs a fraction of the time that torch needs for a few rows.
        times = np.empty(logps.shape, logps.dtype)
        torch.from_numpy(times).exponential_(generator=generator)
        classes = (np.exp(logps) / times).argmax(-1)
        logp = logps.take(classes + _row_starts(classes.shape, self.n))
        summary = logp.ravel()
        if math.isnan(summary.dot(summary)):
            raise _unusable(self, logits)
        if self.start or self.dtype is not torch.int64:
            classes = actions_of(self, torch.from_numpy(classes)).numpy()
        return classes, logp


@lru_cache(maxsize=64)
def _row_starts(shape: tuple[int, ...], width: int) -> np.ndarray:
    """Return where each row begins in a flat array of rows of this `width`; read-only."""
    starts = (np.arange(math.prod(shape)) * width).reshape(shape)
    starts.setflags(write=False)
    return starts


@final
class Categorical(ActionDistribution):
    """One of `n` actions per row.

    Args:
        spec: How many actions there are and which is the first.
        log_probabilities: `[..., n]`, normalised; -inf for actions that are not allowed.
    """

    def __init__(self, spec: CategoricalSpec, log_probabilities: Tensor) -> None:
        self.spec: CategoricalSpec = spec
        self.log_probabilities = log_probabilities

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self.log_probabilities.shape[:-1]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action per row, see `ActionDistribution.sample`."""
        return actions_of(self.spec, draw(self.log_probabilities, generator))

    def sample_with_logp(self, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw one action per row, see `ActionDistribution.sample_with_logp`."""
        classes = draw(self.log_probabilities, generator)
        return actions_of(self.spec, classes), self.log_probabilities.gather(-1, classes.unsqueeze(-1)).squeeze(-1)

    def mode(self) -> Tensor:
        """Return the most probable action of each row; the first of several."""
        return actions_of(self.spec, self.log_probabilities.argmax(-1))

    def logp(self, actions: Item) -> Tensor:
        """Return the log-probability of one action per row; -inf for actions that are not allowed."""
        spec = self.spec
        classes = classes_of(spec, checked_actions(spec, actions, self.batch_shape), spec.start)
        try:
            return self.log_probabilities.gather(-1, classes.unsqueeze(-1)).squeeze(-1)
        except (IndexError, RuntimeError) as error:
            # `gather` looks at each index anyway, so a check of our own would be paid for twice.
            raise outside(spec, actions) from error

    def entropy(self) -> Tensor:
        """Return the entropy of each row, in nats."""
        return entropy(self.log_probabilities)

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return KL(self ‖ other), see `ActionDistribution.kl`; inf where `other` forbids what this one allows."""
        if not isinstance(other, Categorical) or other.spec != self.spec:
            raise another_kind(self.spec, other)
        return divergence(self.log_probabilities, other.log_probabilities)


# --- The maths, on the last axis ------------------------------------------------------------------------------------


def masked(spec: DistributionSpec, logits: Tensor, action_mask: Item) -> Tensor:
    """Return `logits` with -inf where `action_mask` is zero."""
    if action_mask is None:
        return logits
    if not isinstance(action_mask, Tensor) or action_mask.shape != logits.shape:
        raise ModuleError(
            f"{spec}: found the action mask {describe(action_mask)}, expected a tensor {list(logits.shape)}, nonzero where "
            "an action is allowed. Pass one entry for each input."
        )
    return logits.masked_fill(action_mask == 0, -torch.inf)


def log_probabilities(spec: DistributionSpec, logits: Tensor) -> Tensor:
    """Return `logits` normalised; -inf stays, but each row needs something finite."""
    normalised = torch.log_softmax(logits, -1)
    # The sum is NaN if and only if a row has NaN, +inf, or nothing but -inf: one cheap reduction finds all three.
    if math.isnan(normalised.detach().sum().item()):
        raise _unusable(spec, logits)
    return normalised


def _unusable(spec: DistributionSpec, logits: Tensor) -> ModuleError:
    bad = torch.isnan(logits) | torch.isposinf(logits)
    if bool(bad.any()):
        return not_finite(spec, logits, bad)
    row = tuple(torch.isneginf(logits).all(-1).nonzero()[0].tolist())
    return ModuleError(
        f"{spec}: found no allowed action in row {row} of {describe(logits)}, expected at least one: all are masked or have "
        "logits of -inf. Allow an action there; in rows that are padding, allow all."
    )


def draw(log_probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw one class per row, `[..., n]` to `[...]`."""
    # A race: of independent exponential times with these rates, each is the shortest with its probability. That is what
    # `torch.multinomial` does, too, after checks that cost several times as much, and that are made elsewhere.
    rates = (log_probabilities.detach() if log_probabilities.requires_grad else log_probabilities).exp()
    return rates.div_(torch.empty_like(rates).exponential_(generator=generator)).argmax(-1)


def entropy(log_probabilities: Tensor) -> Tensor:
    """Return the entropy of each row; impossible classes add nothing to it and to its gradient."""
    # 0 · -inf is NaN, so impossible classes are taken out before the product.
    finite = log_probabilities.masked_fill(log_probabilities == -torch.inf, 0.0)
    return -(log_probabilities.exp() * finite).sum(-1)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return KL(p ‖ q) of each row; classes that are impossible under p add nothing."""
    impossible = log_p == -torch.inf
    difference = log_p.masked_fill(impossible, 0.0) - log_q.masked_fill(impossible, 0.0)
    return (log_p.exp() * difference).sum(-1)


def actions_of(spec: CategoricalSpec, classes: Tensor) -> Tensor:
    """Return classes that begin with 0 as actions of the space."""
    if spec.start:
        classes = classes + spec.start
    return classes if classes.dtype is spec.dtype else classes.to(spec.dtype)


def classes_of(spec: DistributionSpec, actions: Tensor, start: int | Tensor) -> Tensor:
    """Return integer `actions` as classes that begin with 0."""
    if actions.dtype.is_floating_point or actions.dtype.is_complex:
        raise ModuleError(
            f"{spec}: found actions {describe(actions)}, expected integers. Keep actions in the dtype of their space, "
            "or cast them with `actions.long()`."
        )
    return actions.long() - start


def outside(spec: DistributionSpec, actions: Tensor) -> ModuleError:
    """Return the error for actions that the space does not have."""
    return ModuleError(
        f"{spec}: found actions between {int(actions.min())} and {int(actions.max())}, some of them outside of the action "
        "space. Pass actions of this space, counted from its `start`; rows that are padding need one as well."
    )
