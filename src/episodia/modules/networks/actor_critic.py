"""What the actor-critics of this library have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gymnasium import Space
from torch import Tensor, nn

from episodia.errors import EpisodeKeyError, ModuleError
from episodia.modules.distributions import DistributionSpec, dist_for
from episodia.modules.distributions.action_distribution import describe
from episodia.types import Batch, Item


class ActorCritic(nn.Module, ABC):
    """A `torch.nn.Module` that acts and estimates values: a `DistributionModule` and a `ValueModule`.

    Forward passes compute what torch is set to: call them under `torch.no_grad()` where no gradients are needed. They compute
    in the dtype of the weights, which `double()` and its like change, whatever observations and states come in.

    Args:
        observation_space: What observations in a batch are made of.
        action_space: Which actions there are, see `dist_for`.
        squashed: See `dist_for`.

    Raises:
        ModuleError: If there is no distribution of such actions, or nothing to be drawn.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], *, squashed: bool = False) -> None:
        super().__init__()
        self.observation_space = observation_space
        self.action_space = action_space
        self.distribution = dist_for(action_space, squashed=squashed)
        if not self.distribution.num_inputs:
            raise ModuleError(
                f"action_space: found {action_space}, whose actions have no elements, expected some. Give the environment "
                "something to do."
            )

    @abstractmethod
    def forward(self, batch: Batch, *, actor: bool = True, critic: bool = True) -> Batch:
        """Return what is asked for, and compute nothing else.

        Args:
            batch: With observations; for stateful modules also with `state_in`.
            actor: Whether to return `action_dist_inputs`.
            critic: Whether to return `vf_preds` and `embeddings`.

        Returns:
            These columns, and `state_out` if there is a state.
        """

    def forward_inference(self, batch: Batch) -> Batch:
        """Return `action_dist_inputs`, and `state_out` if there is a state; no values are computed."""
        return self.forward(batch, critic=False)

    def forward_exploration(self, batch: Batch) -> Batch:
        """Return the same as `forward_inference`: what differs is that actions are drawn then."""
        return self.forward(batch, critic=False)

    def forward_train(self, batch: Batch) -> Batch:
        """Return `action_dist_inputs`, `vf_preds`, `embeddings`, and `state_out` if there is a state."""
        return self.forward(batch)

    @abstractmethod
    def compute_values(self, batch: Batch, embeddings: Tensor | None = None) -> Tensor:
        """Return the value of each observation, see `ValueModule.compute_values`."""

    @abstractmethod
    def get_initial_state(self) -> dict[str, Item]:
        """Return the state before the first step, see `Module.get_initial_state`."""

    @abstractmethod
    def is_stateful(self) -> bool:
        """Tell whether there is a state."""

    @abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return what the module was made with beside its spaces, as JSON values: arguments of its class."""

    def get_inference_action_dist_cls(self) -> DistributionSpec:
        """Return `distribution`."""
        return self.distribution

    def get_exploration_action_dist_cls(self) -> DistributionSpec:
        """Return `distribution`."""
        return self.distribution

    def get_train_action_dist_cls(self) -> DistributionSpec:
        """Return `distribution`."""
        return self.distribution


def needed(batch: Batch, column: str, writer: str) -> Item:
    """Return a column that the module cannot do without; `writer` is what usually puts it into a batch."""
    try:
        return batch[column]
    except (KeyError, IndexError, TypeError):
        if not isinstance(batch, dict):
            raise ModuleError(
                f"forward pass: found {describe(batch)}, expected a batch: a dict of columns. Pass `{{{column!r}: ...}}`."
            ) from None
        raise EpisodeKeyError(
            f"forward pass: found no column {column!r} in the batch, only {list(batch)}; expected it from {writer}. "
            "Add that to the pipeline in front of the module."
        ) from None
