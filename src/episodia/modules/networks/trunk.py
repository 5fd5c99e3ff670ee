"""What lies below the heads of a default network: an encoder of observations, linear layers, and perhaps a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor, nn

from episodia.modules.networks.encoders import encoder_for
from episodia.modules.networks.layer_calls import passed
from episodia.modules.networks.layers import recurrent, tower
from episodia.modules.networks.recurrent_layers import State, initial_state, outputs_of, unrolled


@final
class Bottom(nn.Module):
    """From observations to vectors of `num_features` numbers, `[..., num_features]`.

    Args:
        observation_space: See `encoder_for`.
        hidden: The sizes of the linear layers above the encoder.
        memory: The kind of recurrent layer above these, `"lstm"` or `"gru"`, or None; it is as wide as what is below it.
        generator: Where the initial weights come from.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        hidden: Sequence[int],
        memory: str | None,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.encoder = encoder_for(observation_space, generator)
        inputs = self.encoder.num_features
        self.tower = tower(inputs, hidden, generator)
        width = hidden[-1] if hidden else inputs
        self.memory = None if memory is None else recurrent(memory, width, width, generator)
        self.num_features = width

    def initial_state(self) -> dict[str, Any]:
        """Return the state before the first step of one episode; empty without a memory."""
        return {} if self.memory is None else initial_state(self.memory)

    def unrolled(self, observations: Any, state: Any, seq_lens: Any) -> tuple[Tensor, State]:
        """Return vectors for all observations, and the state after the last valid step."""
        encoded = passed(self.tower, self.encoder(observations))
        return (encoded, {}) if self.memory is None else unrolled(self.memory, encoded, state, seq_lens)

    def forward(self, observations: Any, state: Any) -> Tensor:
        """Return vectors for all observations."""
        encoded = passed(self.tower, self.encoder(observations))
        return encoded if self.memory is None else outputs_of(self.memory, encoded, state)
