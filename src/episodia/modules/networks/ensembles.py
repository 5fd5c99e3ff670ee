"""Several networks of one shape, computed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from episodia.modules.networks.layers import HIDDEN_GAIN, linear


@final
class Ensemble(nn.Module):
    """Linear layers with rectifiers, `members` times: one product for each layer of all members.

    Args:
        members: The number of networks.
        inputs: The number of features.
        hidden: The sizes of the hidden layers.
        outputs: The number of outputs.
        generator: The source of the initial weights, which differ from member to member.

    >>> Ensemble(2, 4, (8,), 1, None)(torch.zeros(5, 4)).shape
    torch.Size([2, 5, 1])
    """

    def __init__(
        self, members: int, inputs: int, hidden: Sequence[int], outputs: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.members = members
        sizes = [inputs, *hidden, outputs]
        gains = [*(HIDDEN_GAIN for _ in hidden), 1.0]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for before, after, gain in zip(sizes, sizes[1:], gains, strict=False):
            made = [linear(before, after, gain, generator) for _ in range(members)]
            self.weights.append(nn.Parameter(torch.stack([layer.weight.detach().T for layer in made]).contiguous()))
            self.biases.append(nn.Parameter(torch.stack([layer.bias.detach()[None] for layer in made])))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs of all members, `[N, inputs]` to `[members, N, outputs]`."""
        # A `ParameterList` makes a name for each weight that it is asked for.
        weights: Any = self.weights._parameters.values()
        biases: Any = self.biases._parameters.values()
        found = inputs.expand(self.members, *inputs.shape)
        last = len(weights) - 1
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            found = torch.baddbmm(bias, found, weight)
            found = found if layer == last else found.relu_()
        return found
