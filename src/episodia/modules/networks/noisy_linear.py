"""Linear layers whose weights have learned noise, for exploration without random actions."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parameter import Buffer

from episodia.modules.networks.layers import HIDDEN_GAIN, linear


@final
class NoisyLinear(nn.Module):
    """A linear layer with factorised Gaussian noise on its weights and biases, whose size is learned.

    In training mode each call draws noise, and keeps it in buffers. In evaluation mode the layer takes the mean weights, or
    the kept noise if `explores` is set. Buffers travel with the weights, so a runner explores with the learner's last noise.

    Args:
        inputs: The number of features.
        outputs: The number of outputs.
        gain: See `linear`.
        generator: The source of the initial weights.
        sigma: The initial size of the noise, in units of 1 / √inputs.
    """

    def __init__(
        self, inputs: int, outputs: int, gain: float, generator: torch.Generator | None, sigma: float = 0.5
    ) -> None:
        super().__init__()
        self.mean = linear(inputs, outputs, gain, generator)
        size = sigma / math.sqrt(inputs)
        self.weight_sigma = nn.Parameter(torch.full_like(self.mean.weight, size))
        self.bias_sigma = nn.Parameter(torch.full_like(self.mean.bias, size))
        self.input_noise = Buffer(self.mean.weight.detach().new_zeros(inputs))
        self.output_noise = Buffer(self.mean.weight.detach().new_zeros(outputs))
        self.explores = False

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs for `[..., inputs]`."""
        if self.training:
            for noise in (self.input_noise, self.output_noise):
                drawn = torch.randn_like(noise)
                noise.copy_(drawn.sign() * drawn.abs().sqrt())
        elif not self.explores:
            return functional.linear(inputs, self.mean.weight, self.mean.bias)
        # Copies, because the next call writes into the buffers before the gradients of this one are computed.
        of_inputs, of_outputs = self.input_noise.clone(), self.output_noise.clone()
        weight = self.mean.weight + self.weight_sigma * torch.outer(of_outputs, of_inputs)
        return functional.linear(inputs, weight, self.mean.bias + self.bias_sigma * of_outputs)


def noisy_layers(inputs: int, outputs: int, gain: float, generator: torch.Generator | None) -> nn.Sequential:
    """Return a noisy layer of `inputs` units with a rectifier, and a noisy layer of `outputs` above it, see `NoisyLinear`.

    With a noisy layer of outputs alone, each atom of a distribution of returns would have noise of its own, and their mean
    hardly any.
    """
    below = NoisyLinear(inputs, inputs, HIDDEN_GAIN, generator)
    return nn.Sequential(below, nn.ReLU(), NoisyLinear(inputs, outputs, gain, generator))


def set_exploring(network: nn.Module, explores: bool) -> None:
    """Let all noisy layers of `network` use their noise in evaluation mode, or not."""
    layers: Any = network.modules()
    for layer in layers:
        if isinstance(layer, NoisyLinear):
            layer.explores = explores
