"""Layers: made with orthogonal weights from one generator, and called at the price of what they compute.

Around each call of a layer torch looks for hooks and for the layer's weights. For one row that takes longer than the
products do, and a runner makes such calls at every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn
from torch.nn.functional import linear as _linear
from torch.nn.modules.module import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_pre_hooks,
)

from episodia.arguments import checked_choice, is_whole
from episodia.errors import ModuleError
from episodia.trees import shown
from episodia.types import Item

# --- Calls -----------------------------------------------------------------------------------------------------------


@final
class Tower(nn.Sequential):
    """Layers one after another; like `nn.Sequential`, with the same names of weights.

    >>> Tower(nn.Linear(4, 8), nn.Tanh())(torch.zeros(2, 4)).shape
    torch.Size([2, 8])
    """

    def forward(self, inputs: Tensor, *above: nn.Module) -> Tensor:
        """Return `inputs` after all layers, and after those `above` them."""
        layers: Any = self._modules
        is_own = False  # whether a linear layer has just made `inputs`: then an activation may overwrite them
        calls_all = (
            _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks or _global_backward_pre_hooks
        )
        for layer in (*layers.values(), *above):
            kind, fields = type(layer), layer.__dict__
            # As in `is_hooked`: a call for each layer would take as long as the smallest layers do.
            if (
                calls_all
                or kind not in _PLAIN
                or fields["_forward_hooks"]
                or fields["_forward_pre_hooks"]
                or fields["_backward_hooks"]
                or fields["_backward_pre_hooks"]
                or "forward" in fields
            ):
                inputs, is_own = layer(inputs), False
            elif kind is nn.Linear:
                # `layer.weight` would search several dicts; swapped weights are in this one too.
                parameters = layer._parameters
                inputs, is_own = _linear(inputs, parameters["weight"], parameters["bias"]), True
            elif is_own and kind in _IN_PLACE:
                inputs, is_own = _IN_PLACE[kind](inputs), False
            else:
                inputs, is_own = layer.forward(inputs), False
        return inputs


def passed(layer: nn.Module, inputs: Tensor) -> Tensor:
    """Return `layer(inputs)`, computed directly if `layer` is a plain one without hooks."""
    kind = type(layer)
    if kind not in _PLAIN or is_hooked(layer):
        outputs: Tensor = layer(inputs)
    elif kind is nn.Linear:
        parameters: Any = layer._parameters  # see `Tower.forward`
        outputs = _linear(inputs, parameters["weight"], parameters["bias"])
    else:
        outputs = layer.forward(inputs)
    return outputs


def called(module: nn.Module, inputs: Item) -> Tensor:
    """Return `module(inputs)` for a module of this library, without torch's search for hooks if it has none."""
    outputs: Tensor = module(inputs) if is_hooked(module) else module.forward(inputs)
    return outputs


# Subclasses may compute something else: layers with parametrised weights are subclasses made by torch.
_PLAIN = frozenset({nn.Linear, nn.Tanh, nn.ReLU, Tower})

_IN_PLACE: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {nn.Tanh: Tensor.tanh_, nn.ReLU: Tensor.relu_}


def is_hooked(layer: nn.Module) -> bool:
    """Tell whether `layer` or all modules have hooks, or whether its `forward` was replaced."""
    # torch has no public method for this question.
    fields = layer.__dict__
    return bool(
        _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
        or fields["_forward_hooks"]
        or fields["_forward_pre_hooks"]
        or fields["_backward_hooks"]
        or fields["_backward_pre_hooks"]
        or "forward" in fields
    )


def can_step(cell: nn.LSTM | nn.GRU) -> bool:
    """Tell whether `one_step` equals a call of `cell`: it is a plain layer without hooks."""
    return type(cell) in _CELLS and not is_hooked(cell)


def one_step(cell: nn.LSTM | nn.GRU, inputs: Tensor, state: Item) -> Item:
    """Return the state of `cell` after one step of each sequence: `(h, c)` of an LSTM, `h` of a GRU.

    Args:
        cell: One layer in one direction.
        inputs: `[B, features]`.
        state: The state before the step, in the form of the result: each part `[B, cell_size]`.
    """
    # Weights of the inputs and of the state, then their biases: the order in which such a layer makes them.
    return _CELLS[type(cell)](inputs, state, *vars(cell)["_parameters"].values())


_CELLS: dict[type[nn.Module], Any] = {nn.LSTM: torch.lstm_cell, nn.GRU: torch.gru_cell}


# --- Weights ---------------------------------------------------------------------------------------------------------

# Keeps the size of activations under tanh, and under a rectifier.
HIDDEN_GAIN = math.sqrt(2.0)

# 1 GiB. Without a limit, a large one-hot space or a mistyped size could take all memory.
_MOST_WEIGHTS = 2**28


def linear(inputs: int, outputs: int, gain: float, generator: torch.Generator | None) -> nn.Linear:
    """Return a layer with orthogonal weights, scaled by `gain`, and biases of 0."""
    return _filled(nn.Linear(inputs, outputs, device="meta"), gain, generator)


def tower(inputs: int, hidden: Sequence[int], generator: torch.Generator | None, activation: str = "tanh") -> Tower:
    """Return linear layers of the sizes `hidden`, each with an activation after it.

    >>> tower(4, (8, 8), None)(torch.zeros(2, 4)).shape
    torch.Size([2, 8])
    """
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [linear(inputs, size, HIDDEN_GAIN, generator), ACTIVATIONS[activation]()]
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
        generator: The source of the weights.

    Raises:
        ModuleError: If `kind` is unknown.
    """
    checked_choice(ModuleError, "memory", "recurrent", kind, RECURRENT)
    return _filled(RECURRENT[kind](inputs, cell_size, batch_first=True, device="meta"), 1.0, generator)


ACTIVATIONS: dict[str, type[nn.Tanh] | type[nn.ReLU]] = {"tanh": nn.Tanh, "relu": nn.ReLU}

RECURRENT: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}

_Layer = TypeVar("_Layer", bound=nn.Module)


def _filled(layer: _Layer, gain: float, generator: torch.Generator | None) -> _Layer:
    """Return `layer`, made on the meta device, with orthogonal weights and biases of 0.

    A layer made elsewhere would first draw weights from the global generator.
    """
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ModuleError(
            f"network: found `generator={shown(generator)}`, expected a `torch.Generator` or None. Pass "
            "`torch.Generator().manual_seed(0)`, with a seed of your own."
        )
    _check_weights(layer)
    # Not `to_empty`, which imports SymPy: a quarter of a second in each new process.
    for name, without_memory in list(layer.named_parameters()):
        parameter = nn.Parameter(torch.empty(without_memory.shape, dtype=without_memory.dtype))
        setattr(layer, name, parameter)
        if parameter.is_meta:
            continue
        if "weight" in name:
            nn.init.orthogonal_(parameter, gain, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return layer


def _check_weights(layer: nn.Module) -> None:
    most = max(parameter.numel() for parameter in layer.parameters())
    if most > _MOST_WEIGHTS:
        raise ModuleError(
            f"network: found a layer with {most:,} weights ({layer}), expected at most {_MOST_WEIGHTS:,}. Choose smaller "
            "sizes; or, for a space with that many classes or numbers, write your own module, for example with an "
            "`nn.Embedding`."
        )


def check_sizes(name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return `sizes` as a tuple.

    Raises:
        ModuleError: If they are not positive integers.
    """
    if not isinstance(sizes, (list, tuple)):
        remedy = f"({shown(sizes)},)" if is_whole(sizes) else "(64, 64)"
        raise ModuleError(
            f"`{name}`: found {shown(sizes)}, expected a tuple of sizes, one for each layer. Pass `{remedy}`, for example."
        )
    return tuple(check_size(name, size) for size in sizes)


def check_size(name: str, size: int) -> int:
    """Return `size` as an integer, see `check_sizes`."""
    if not is_whole(size) or size < 1:
        raise ModuleError(
            f"`{name}`: found {shown(size)}, expected positive integers. Pass the number of units of each layer."
        )
    return int(size)
