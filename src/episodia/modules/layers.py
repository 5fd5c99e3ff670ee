"""Linear layers and stacks of them, with orthogonal weights that depend on one generator only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from episodia.errors import ModuleError

# Keeps the size of activations under tanh.
HIDDEN_GAIN = math.sqrt(2.0)


def linear(inputs: int, outputs: int, gain: float, generator: torch.Generator | None) -> nn.Linear:
    """Return a layer with orthogonal weights, scaled by `gain`, and biases of 0."""
    # Layers are made without memory first, or torch would draw weights of its own from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device=torch.get_default_device())
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


def tower(inputs: int, hidden: Sequence[int], generator: torch.Generator | None) -> nn.Sequential:
    """Return linear layers of the sizes `hidden` with tanh after each.

    >>> tower(4, (8, 8), None)(torch.zeros(2, 4)).shape
    torch.Size([2, 8])
    """
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [linear(inputs, check_size("hidden", size), HIDDEN_GAIN, generator), nn.Tanh()]
        inputs = size
    return nn.Sequential(*layers)


def lstm(inputs: int, cell_size: int, generator: torch.Generator | None) -> nn.LSTM:
    """Return one recurrent layer with orthogonal weights and biases of 0; batches come first."""
    units = check_size("cell_size", cell_size)
    layer = nn.LSTM(inputs, units, batch_first=True, device="meta").to_empty(device=torch.get_default_device())
    for name, parameter in layer.named_parameters():
        if "weight" in name:
            nn.init.orthogonal_(parameter, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return layer


def check_size(name: str, size: int) -> int:
    """Return `size`, if a layer can have it."""
    if type(size) is not int or size < 1:
        raise ModuleError(
            f"`{name}`: found {size!r}, expected positive integers. Pass the number of units of each layer."
        )
    return size
