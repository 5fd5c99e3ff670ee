"""Targets of values and of distributions of returns, and the losses that compare with them.

Axes: `...` are those of steps, `[B]` or `[B, T]`; the last axis are atoms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def positions(actions: Tensor, space: Any) -> Tensor:
    """Return the positions of Discrete actions among the values of a network, which begin at 0.

    >>> from gymnasium import spaces
    >>> positions(torch.tensor([3, 4]), spaces.Discrete(2, start=3))
    tensor([0, 1])
    """
    start = int(getattr(space, "start", 0))
    return actions - start if start else actions


def chosen(values: Tensor, actions: Tensor) -> Tensor:
    """Return the values of the chosen actions: `[..., n]` to `[...]`, or `[..., n, atoms]` to `[..., atoms]`.

    >>> chosen(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
    tensor([2., 3.])
    """
    axis, index = actions.dim(), actions.long().unsqueeze(-1)
    if values.dim() > index.dim():
        index = index.unsqueeze(-1).expand(*index.shape, values.shape[-1])
    return values.gather(axis, index).squeeze(axis)


def best_actions(values: Tensor, action_mask: Tensor | None = None) -> Tensor:
    """Return the position of the largest value of the allowed actions, `[..., n]` to `[...]`.

    >>> best_actions(torch.tensor([[1.0, 2.0]]), torch.tensor([[1, 0]]))
    tensor([0])
    """
    allowed = values if action_mask is None else values.masked_fill(action_mask == 0, -torch.inf)
    return allowed.argmax(-1)


def projected(returns: Tensor, shifted: Tensor, probabilities: Tensor) -> Tensor:
    """Return the probabilities of evenly spaced `returns` that stand for other returns: each is shared by its two neighbours.

    Args:
        returns: `[atoms]`.
        shifted: `[..., atoms]`, the other returns; those outside of `returns` count as the nearest end.
        probabilities: `[..., atoms]`, the probabilities of the other returns.

    >>> projected(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([[0.25, 9.0]]), torch.tensor([[0.5, 0.5]]))
    tensor([[0.3750, 0.1250, 0.5000]])
    """
    low, step = returns[0], returns[1] - returns[0]
    places = ((shifted - low) / step).clamp(0.0, len(returns) - 1.0)
    left = places.floor()
    to_right = places - left
    below = left.long()
    above = (below + 1).clamp(max=len(returns) - 1)
    result = probabilities.new_zeros((*probabilities.shape[:-1], len(returns)))
    result.scatter_add_(-1, below, probabilities * (1.0 - to_right))
    return result.scatter_add_(-1, above, probabilities * to_right)


def quantile_errors(quantiles: Tensor, targets: Tensor) -> Tensor:
    """Return the quantile Huber loss of each step, `[..., atoms]` and `[..., other atoms]` to `[...]`.

    >>> quantile_errors(torch.tensor([[0.0]]), torch.tensor([[2.0]]))
    tensor([0.7500])
    """
    levels = (torch.arange(quantiles.shape[-1], device=quantiles.device) + 0.5) / quantiles.shape[-1]
    differences = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
    sizes = differences.abs()
    huber = torch.where(sizes <= 1.0, 0.5 * differences.square(), sizes - 0.5)
    shares = (levels.unsqueeze(-1) - (differences.detach() < 0.0).to(quantiles.dtype)).abs()
    return (shares * huber).mean(-1).sum(-1)


def squashed(values: Tensor, epsilon: float = 1e-3) -> Tensor:
    """Return values on a scale on which large ones grow like roots: sign(x)(√(|x| + 1) − 1) + εx.

    >>> squashed(torch.tensor([0.0, 3.0]), epsilon=0.0)
    tensor([0., 1.])
    """
    return values.sign() * ((values.abs() + 1.0).sqrt() - 1.0) + epsilon * values


def unsquashed(values: Tensor, epsilon: float = 1e-3) -> Tensor:
    """Return the inverse of `squashed`.

    >>> torch.allclose(unsquashed(squashed(torch.tensor([-5.0, 100.0]))), torch.tensor([-5.0, 100.0]), rtol=1e-3)
    True
    """
    sizes = values.abs()
    root = (1.0 + 4.0 * epsilon * (sizes + 1.0 + epsilon)).sqrt() - 1.0
    return values.sign() * ((root / (2.0 * epsilon)).square() - 1.0)
