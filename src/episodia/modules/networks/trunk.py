"""The part of a network below its heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from gymnasium import Space
from torch import Tensor, nn

from episodia.columns import Columns
from episodia.modules.networks.acting_network import needed
from episodia.modules.networks.encoders import encoder_for
from episodia.modules.networks.layers import is_hooked, passed, recurrent_layer, tower
from episodia.modules.networks.recurrent_layers import Cell, StateTensors, initial_state, outputs_of, unrolled
from episodia.types import Batch, Item

# The piece that usually adds observations to a batch, for messages.
OBS_WRITER = "`AddObservationsFromEpisodesToBatch`"


@final
class Trunk(nn.Module):
    """The part below the heads: from observations to vectors `[..., num_features]`.

    Args:
        observation_space: See `encoder_for`.
        hidden: The sizes of the linear layers above the encoder.
        recurrent: The kind of recurrent layer above these, `"lstm"` or `"gru"`, or None.
        cell_size: Its number of units; None takes the size of the layer below it.
        generator: The source of the initial weights.
        activation: The activation after each linear layer, `"tanh"` or `"relu"`.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        hidden: Sequence[int],
        recurrent: str | None,
        cell_size: int | None,
        generator: torch.Generator | None,
        activation: str = "tanh",
    ) -> None:
        super().__init__()
        self.encoder = encoder_for(observation_space, generator)
        self.tower = tower(self.encoder.num_features, hidden, generator, activation)
        width = hidden[-1] if hidden else self.encoder.num_features
        self.memory: Cell | None = None
        if recurrent is not None:
            self.memory = recurrent_layer(recurrent, width, cell_size or width, generator)
            width = self.memory.hidden_size
        self.num_features = width

    def initial_state(self) -> dict[str, Item]:
        """Return the state before the first step of one episode; empty without a recurrent layer."""
        return {} if self.memory is None else initial_state(self.memory)

    def encoded(self, observations: Item, *head: nn.Module) -> Tensor:
        """Return the inputs of the recurrent layer; without one, of the heads, or what one `head` makes of them."""
        parts: Any = self._modules
        encoder, tower = parts["encoder"], parts["tower"]
        # As `passed` does, without its calls: runners come by here at every step.
        features = encoder(observations) if is_hooked(encoder) else encoder.forward(observations)
        encoded: Tensor
        if is_hooked(tower):
            encoded = tower(features)
            encoded = passed(head[0], encoded) if head else encoded
        else:
            encoded = tower.forward(features, *head)
        return encoded

    def unrolled(self, observations: Item, state: Item, seq_lens: Item) -> tuple[Tensor, StateTensors]:
        """Return vectors for all observations, and the state after the last valid step."""
        encoded, memory = self.encoded(observations), self.memory
        return (encoded, {}) if memory is None else unrolled(memory, encoded, state, seq_lens)

    def forward(self, observations: Item, state: Item) -> Tensor:
        """Return vectors for all observations."""
        encoded = self.encoded(observations)
        return encoded if self.memory is None else outputs_of(self.memory, encoded, state)


def observations_of(batch: Batch) -> Item:
    """Return the observations of a batch."""
    return needed(batch, Columns.OBS, OBS_WRITER)
