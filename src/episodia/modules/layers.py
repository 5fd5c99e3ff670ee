"""Linear layers and stacks of them, with orthogonal weights that depend on one generator only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

from episodia.arguments import checked_choice
from episodia.errors import ModuleError
from episodia.modules.layer_calls import Tower

# Keeps the size of activations under tanh.
HIDDEN_GAIN = math.sqrt(2.0)


def linear(inputs: int, outputs: int, gain: float, generator: torch.Generator | None) -> nn.Linear:
    """Return a layer with orthogonal weights, scaled by `gain`, and biases of 0."""
    # Layers are made without memory first, or torch would draw weights of its own from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device=torch.get_default_device())
    return _filled(layer, gain, generator)


def tower(inputs: int, hidden: Sequence[int], generator: torch.Generator | None) -> Tower:
    """Return linear layers of the sizes `hidden` with tanh after each.

    >>> tower(4, (8, 8), None)(torch.zeros(2, 4)).shape
    torch.Size([2, 8])
    """
    layers: list[nn.Module] = []
    for size in check_sizes("hidden", hidden):
        layers += [linear(inputs, size, HIDDEN_GAIN, generator), nn.Tanh()]
        inputs = size
    return Tower(*layers)


def convolution(
    channels: tuple[int, int], kernel: int, stride: int, padding: int, generator: torch.Generator | None
) -> nn.Conv2d:
    """Return a convolution from and to so many `channels`, with orthogonal weights and biases of 0."""
    layer = nn.Conv2d(*channels, kernel, stride, padding, device="meta")
    return _filled(layer.to_empty(device=torch.get_default_device()), HIDDEN_GAIN, generator)


def recurrent(kind: str, inputs: int, cell_size: int, generator: torch.Generator | None) -> nn.LSTM | nn.GRU:
    """Return one recurrent layer with orthogonal weights and biases of 0; batches come first.

    Args:
        kind: `"lstm"` or `"gru"`.
        inputs: The number of features per step.
        cell_size: The number of units.
        generator: Where the weights come from.

    Raises:
        ModuleError: If there is no such kind of layer.
    """
    checked_choice(ModuleError, "memory", "recurrent", kind, RECURRENT)
    units = check_size("cell_size", cell_size)
    layer = RECURRENT[kind](inputs, units, batch_first=True, device="meta")
    return _filled(layer.to_empty(device=torch.get_default_device()), 1.0, generator)


RECURRENT: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}

Layer = TypeVar("Layer", bound=nn.Module)


def _filled(layer: Layer, gain: float, generator: torch.Generator | None) -> Layer:
    """Return `layer` with orthogonal weights and biases of 0; as it is on the meta device, where nothing has values."""
    for name, parameter in layer.named_parameters():
        if parameter.is_meta:
            continue
        if "weight" in name:
            nn.init.orthogonal_(parameter, gain, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return layer


def check_sizes(name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return `sizes`, if layers can have them.

    Raises:
        ModuleError: If they cannot.
    """
    if not isinstance(sizes, (list, tuple)):
        raise ModuleError(
            f"`{name}`: found {sizes!r}, expected a tuple of sizes, one for each layer. Pass `({sizes!r},)`."
        )
    return tuple(check_size(name, size) for size in sizes)


def check_size(name: str, size: int) -> int:
    """Return `size`, if a layer can have it."""
    if type(size) is not int or size < 1:
        raise ModuleError(
            f"`{name}`: found {size!r}, expected positive integers. Pass the number of units of each layer."
        )
    return size
