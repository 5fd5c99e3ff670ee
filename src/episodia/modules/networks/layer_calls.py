"""Calls of layers at the price of what they compute.

Around each call of a layer torch looks for hooks and for the layer's weights. For one row that takes longer than the
products do, and a runner makes such calls at every step.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.modules.module import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
)

from episodia.types import Item


@final
class Tower(nn.Sequential):
    """Layers one after another; like `nn.Sequential`, with the same names of weights.

    >>> Tower(nn.Linear(4, 8), nn.Tanh())(torch.zeros(2, 4)).shape
    torch.Size([2, 8])
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Return what the last layer makes of what the others make of `inputs`."""
        for layer in self._modules.values():
            inputs = passed(layer, inputs)
        return inputs


def passed(layer: Any, inputs: Tensor) -> Tensor:
    """Return `layer(inputs)`, computed directly if `layer` is a plain one without hooks."""
    kind = type(layer)
    if kind not in _PLAIN or is_hooked(layer):
        outputs: Tensor = layer(inputs)
        return outputs
    if kind is nn.Linear:
        # `layer.weight` would search several dicts; swapped weights are in this one too.
        parameters = layer._parameters
        return linear(inputs, parameters["weight"], parameters["bias"])
    return inputs.tanh() if kind is nn.Tanh else layer.forward(inputs)


def called(module: Any, inputs: Item) -> Tensor:
    """Return `module(inputs)` for a module of this library, without torch's search for hooks if it has none."""
    outputs: Tensor = module(inputs) if is_hooked(module) else module.forward(inputs)
    return outputs


# Subclasses may compute something else: layers with parametrised weights are subclasses made by torch.
_PLAIN = frozenset({nn.Linear, nn.Tanh, Tower})


def is_hooked(layer: nn.Module) -> bool:
    """Tell whether somebody wants to know of calls of `layer` or of all modules, or has replaced its `forward`."""
    return bool(
        "forward" in layer.__dict__
        or layer._forward_hooks
        or layer._forward_pre_hooks
        or layer._backward_hooks
        or layer._backward_pre_hooks
        or _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
    )


def can_step(cell: nn.LSTM | nn.GRU) -> bool:
    """Tell whether `one_step` computes what `cell` does: it is a plain layer that nobody has hooked into."""
    return type(cell) in _CELLS and not is_hooked(cell)


def one_step(cell: nn.LSTM | nn.GRU, inputs: Tensor, state: Any) -> Any:
    """Return the state of `cell` after one step of each sequence: `(h, c)` of an LSTM, `h` of a GRU.

    Args:
        cell: One layer in one direction.
        inputs: `[B, features]`.
        state: The state before, as the result is: each part `[B, cell_size]`.
    """
    # Weights of the inputs and of the state, then their biases: the order in which such a layer makes them.
    return _CELLS[type(cell)](inputs, state, *cell._parameters.values())


_CELLS: dict[type[nn.Module], Any] = {nn.LSTM: torch.lstm_cell, nn.GRU: torch.gru_cell}
