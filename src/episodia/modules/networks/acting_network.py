"""The base of all networks of this library that act."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from gymnasium import Space
from torch import nn

from episodia.errors import EpisodeKeyError, ModuleError
from episodia.modules.declared_views import DeclaredViews, WithViews
from episodia.modules.distributions import DistributionSpec
from episodia.modules.distributions.action_distribution import describe
from episodia.types import Batch, Item


class ActingNetwork(WithViews, nn.Module, ABC):
    """A `torch.nn.Module` that acts: a `DistributionModule`.

    Call forward passes under `torch.no_grad()` if you need no gradients. They compute in the dtype of the weights, which
    `double()` and similar methods change, for observations and states of any dtype.

    Args:
        observation_space: The space of the observations in a batch.
        action_space: The space of the actions.
        distribution: What makes actions of `action_dist_inputs`.

    Attributes:
        views: What the module sees of the trajectory, by column: `View`s. Pipelines that are built with the module add them;
            they may be declared in a subclass, or added to a module, also later.

    Raises:
        ModuleError: If the action space has no elements.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], distribution: DistributionSpec) -> None:
        super().__init__()
        self.observation_space = observation_space
        self.action_space = action_space
        self.distribution = distribution
        # Own views, which can be added to.
        self.views = DeclaredViews(type(self).views)
        if not distribution.num_inputs:
            raise ModuleError(
                f"action_space: found {action_space}, whose actions have no elements, expected some. Give the environment "
                "something to do."
            )

    @abstractmethod
    def forward_inference(self, batch: Batch) -> Batch:
        """Return `action_dist_inputs`, and `state_out` if there is a state."""

    @abstractmethod
    def forward_exploration(self, batch: Batch) -> Batch:
        """Return `action_dist_inputs`, and `state_out` if there is a state; exploration draws actions from it."""

    @abstractmethod
    def forward_train(self, batch: Batch) -> Batch:
        """Return the columns that losses read, and `state_out` if there is a state."""

    @abstractmethod
    def get_initial_state(self) -> dict[str, Item]:
        """Return the state before the first step, see `Module.get_initial_state`."""

    @abstractmethod
    def is_stateful(self) -> bool:
        """Tell whether there is a state."""

    @abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the module's class other than its spaces, as JSON values."""

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
    """Return a column that the module needs; `writer` is the piece that usually adds it, for messages."""
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
