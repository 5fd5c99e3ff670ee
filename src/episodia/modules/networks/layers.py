"""Linear layers and stacks of them, with orthogonal weights that depend on one generator only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import nn

from episodia.arguments import checked_choice, is_whole
from episodia.errors import ModuleError
from episodia.modules.networks.layer_calls import Tower

# Keeps the size of activations under tanh.
HIDDEN_GAIN = math.sqrt(2.0)

# 1 GiB. One-hot vectors of a large space, or a slip in a size, would otherwise take all memory there is.
MOST_WEIGHTS = 2**28


def linear(inputs: int, outputs: int, gain: float, generator: torch.Generator | None) -> nn.Linear:
    """Return a layer with orthogonal weights, scaled by `gain`, and biases of 0."""
    return _filled(nn.Linear(inputs, outputs, device="meta"), gain, generator)


def tower(inputs: int, hidden: Sequence[int], generator: torch.Generator | None) -> Tower:
    """Return linear layers of the sizes `hidden` with tanh after each.

    >>> tower(4, (8, 8), None)(torch.zeros(2, 4)).shape
    torch.Size([2, 8])
    """
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [linear(inputs, size, HIDDEN_GAIN, generator), nn.Tanh()]
        inputs = size
    return Tower(*layers)


def convolution(
    channels: tuple[int, int], kernel: int, stride: int, padding: int, generator: torch.Generator | None
) -> nn.Conv2d:
    """Return a convolution from and to so many `channels`, with orthogonal weights and biases of 0."""
    return _filled(nn.Conv2d(*channels, kernel, stride, padding, device="meta"), HIDDEN_GAIN, generator)


def recurrent_layer(kind: str, inputs: int, cell_size: int, generator: torch.Generator | None) -> nn.LSTM | nn.GRU:
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
    return _filled(RECURRENT[kind](inputs, cell_size, batch_first=True, device="meta"), 1.0, generator)


RECURRENT: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}

Layer = TypeVar("Layer", bound=nn.Module)


def _filled(layer: Layer, gain: float, generator: torch.Generator | None) -> Layer:
    """Return `layer`, made without memory, with orthogonal weights and biases of 0; on the meta device it stays without.

    Otherwise torch would draw weights of its own first, from the global generator.
    """
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ModuleError(
            f"network: found `generator={generator!r}`, expected a `torch.Generator` or None. Pass "
            "`torch.Generator().manual_seed(0)`, with a seed of your own."
        )
    _check_weights(layer)
    layer = layer.to_empty(device=torch.get_default_device())
    for name, parameter in layer.named_parameters():
        if parameter.is_meta:
            continue
        if "weight" in name:
            nn.init.orthogonal_(parameter, gain, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return layer


def _check_weights(layer: nn.Module) -> None:
    most = max(parameter.numel() for parameter in layer.parameters())
    if most > MOST_WEIGHTS:
        raise ModuleError(
            f"network: found a layer with {most:,} weights ({layer}), expected at most {MOST_WEIGHTS:,}. Choose smaller "
            "sizes; or, where a space has so many classes or numbers, write a module of your own, with an `nn.Embedding` for "
            "example."
        )


def check_sizes(name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return `sizes`, if layers can have them.

    Raises:
        ModuleError: If they cannot.
    """
    if not isinstance(sizes, (list, tuple)):
        remedy = f"({sizes!r},)" if is_whole(sizes) else "(64, 64)"
        raise ModuleError(
            f"`{name}`: found {sizes!r}, expected a tuple of sizes, one for each layer. Pass `{remedy}`, for example."
        )
    return tuple(check_size(name, size) for size in sizes)


def check_size(name: str, size: int) -> int:
    """Return `size`, if a layer can have it."""
    if not is_whole(size) or size < 1:
        raise ModuleError(
            f"`{name}`: found {size!r}, expected positive integers. Pass the number of units of each layer."
        )
    return int(size)
