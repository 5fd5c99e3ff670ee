"""The base of the actor-critics of this library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gymnasium import Space
from torch import Tensor

from episodia.modules.distributions import dist_for
from episodia.modules.networks.acting_network import ActingNetwork
from episodia.types import Batch


class ActorCritic(ActingNetwork, ABC):
    """A `torch.nn.Module` that acts and estimates values: a `DistributionModule` and a `ValueModule`.

    Args:
        observation_space: The space of the observations in a batch.
        action_space: The space of the actions, see `dist_for`.
        squashed: See `dist_for`.

    Raises:
        ModuleError: If the action space has no distribution, or no elements.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], *, squashed: bool = False) -> None:
        super().__init__(observation_space, action_space, dist_for(action_space, squashed=squashed))

    @abstractmethod
    def forward(self, batch: Batch, *, actor: bool = True, critic: bool = True) -> Batch:
        """Return the requested columns, and compute nothing else.

        Args:
            batch: A batch with observations; for stateful modules also with `state_in`.
            actor: Whether to return `action_dist_inputs`.
            critic: Whether to return `vf_preds` and `embeddings`.

        Returns:
            These columns, and `state_out` if there is a state.
        """

    def forward_inference(self, batch: Batch) -> Batch:
        """Return `action_dist_inputs`, and `state_out` if there is a state; no values are computed."""
        return self.forward(batch, critic=False)

    def forward_exploration(self, batch: Batch) -> Batch:
        """Return the same as `forward_inference`; exploration draws actions from it."""
        return self.forward(batch, critic=False)

    def forward_train(self, batch: Batch) -> Batch:
        """Return `action_dist_inputs`, `vf_preds`, `embeddings`, and `state_out` if there is a state."""
        return self.forward(batch)

    @abstractmethod
    def compute_values(self, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        """Return the value of each observation, see `ValueModule.compute_values`."""
