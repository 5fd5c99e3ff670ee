"""Several choices at once: the distribution for `MultiDiscrete` spaces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, final

import torch
from torch import Tensor

from episodia.modules.distributions.action_distribution import (
    ActionDistribution,
    DistributionSpec,
    another_kind,
    checked_actions,
    checked_inputs,
)
from episodia.modules.distributions.categorical import (
    classes_of,
    divergence,
    draw,
    entropy,
    log_probabilities,
    masked,
    outside,
)
from episodia.types import Item


@final
@dataclass(frozen=True)
class MultiCategoricalSpec(DistributionSpec):
    """Distributions for `MultiDiscrete`; the inputs are the log-probabilities of all choices, one after another.

    Args:
        sizes: The number of classes that each choice has, in the order of `nvec.ravel()`.
        starts: The first class of each choice.
        shape: The shape of one action.
        dtype: The dtype of actions.

    >>> spec = MultiCategoricalSpec((2, 3), (0, 1), (2,))
    >>> spec.from_logits(torch.tensor([[1.0, 0.0, 0.0, 0.0, 1.0]])).mode()
    tensor([[0, 3]])
    """

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype = torch.int64

    @property
    def num_inputs(self) -> int:
        """The number of classes of all choices together."""
        return sum(self.sizes)

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> MultiCategorical:
        """Make one distribution per row, see `DistributionSpec.from_logits`."""
        logits = masked(self, checked_inputs(self, logits), action_mask)
        return MultiCategorical(self, log_probabilities(self, _as_matrix(self, logits)))


@final
class MultiCategorical(ActionDistribution):
    """Independent choices, each with its own number of classes.

    Args:
        spec: The sizes of the choices and the shape of an action.
        log_probabilities: `[..., K, n]` for `K` choices of at most `n` classes, normalised; -inf for what is not allowed
            and for what shorter choices lack.
    """

    def __init__(self, spec: MultiCategoricalSpec, log_probabilities: Tensor) -> None:
        self.spec: MultiCategoricalSpec = spec
        self.log_probabilities = log_probabilities

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self.log_probabilities.shape[:-2]

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw one action per row, see `ActionDistribution.sample`."""
        return self._actions(draw(self.log_probabilities, generator))

    def mode(self) -> Tensor:
        """Return the most probable action of each row; in each choice the first of several."""
        return self._actions(self.log_probabilities.argmax(-1))

    def logp(self, actions: Item) -> Tensor:
        """Return the log-probability of one action per row; -inf if a part of it is not allowed."""
        spec = self.spec
        actions = checked_actions(spec, actions, (*self.batch_shape, *spec.shape))
        layout = _layout(spec.sizes, spec.starts, actions.device)
        classes = classes_of(spec, actions.reshape(self.log_probabilities.shape[:-1]), layout.starts)
        if bool(((classes < 0) | (classes >= layout.sizes)).any()):
            raise outside(spec, actions)
        return self.log_probabilities.gather(-1, classes.unsqueeze(-1)).squeeze(-1).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of each row, in nats."""
        return entropy(self.log_probabilities).sum(-1)

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return KL(self ‖ other), see `ActionDistribution.kl`; inf where `other` forbids what this one allows."""
        if not isinstance(other, MultiCategorical) or other.spec != self.spec:
            raise another_kind(self.spec, other)
        return divergence(self.log_probabilities, other.log_probabilities).sum(-1)

    def _actions(self, classes: Tensor) -> Tensor:
        spec = self.spec
        if any(spec.starts):
            classes = classes + _layout(spec.sizes, spec.starts, classes.device).starts
        return classes.reshape((*self.batch_shape, *spec.shape)).to(spec.dtype)


class _Layout(NamedTuple):
    sizes: Tensor  # [K]
    starts: Tensor  # [K]
    sources: Tensor  # [K * n]: which input stands at each place of the matrix
    missing: Tensor  # [K, n]: where a choice has no such class


@lru_cache(maxsize=64)
def _layout(sizes: tuple[int, ...], starts: tuple[int, ...], device: torch.device) -> _Layout:
    """Return index tensors, made once for each action space and device."""
    widths = torch.tensor(sizes, dtype=torch.int64)
    # Without choices, `max` needs a default.
    classes = torch.arange(max(sizes, default=1))
    missing = classes >= widths.unsqueeze(-1)
    sources = (widths.cumsum(0) - widths).unsqueeze(-1) + classes
    layout = (widths, torch.tensor(starts, dtype=torch.int64), sources.masked_fill(missing, 0).reshape(-1), missing)
    return _Layout(*(tensor.to(device) for tensor in layout))


def _as_matrix(spec: MultiCategoricalSpec, logits: Tensor) -> Tensor:
    """Return concatenated logits as `[..., K, n]`, so that all choices are computed at once."""
    if len(set(spec.sizes)) == 1:
        return logits.reshape((*logits.shape[:-1], len(spec.sizes), spec.sizes[0]))
    layout = _layout(spec.sizes, spec.starts, logits.device)
    matrix = logits.index_select(-1, layout.sources).reshape((*logits.shape[:-1], *layout.missing.shape))
    return matrix.masked_fill(layout.missing, -torch.inf)
