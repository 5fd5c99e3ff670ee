"""Protocols of modules: the methods that connectors, runners and learners call.

A class that has the methods is a module; it needs no base class. Nothing here needs torch, and
neither does a module that acts by rules.

A *batch* is a dict of columns (`episodia.Columns`). Observations are `[B, ...]`; for stateful modules they are
`[B, T, ...]`, with `state_in` `[B, ...]` and, if sequences are padded, `seq_lens` `[B]`. Columns that a module returns
have the same leading axes as its observations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

from gymnasium import Space

from episodia.types import Batch, Item


@runtime_checkable
class Module(Protocol):
    """Acts: takes batches of observations, returns actions or the inputs of their distribution.

    Each forward pass returns a dict with `actions`, or with `action_dist_inputs` (then the module is a
    `DistributionModule`), and with anything else that should be recorded. Stateful modules also return `state_out`,
    `[B, ...]`, the state after the last valid step.

    The caller decides about gradients: runners call the first two passes under `torch.no_grad()`, learners do not.

    >>> import numpy as np
    >>> class Right:
    ...     observation_space, action_space = None, None
    ...
    ...     def forward_inference(self, batch):
    ...         return {"actions": np.ones(len(batch["obs"]), np.int64)}
    ...
    ...     forward_exploration = forward_train = forward_inference
    ...
    ...     def get_initial_state(self):
    ...         return {}
    ...
    ...     def is_stateful(self):
    ...         return False
    >>> isinstance(Right(), Module)
    True
    """

    @property
    def observation_space(self) -> Space[Any] | None:
        """The space of one observation in a batch, as the pipeline in front of the module leaves it."""

    @property
    def action_space(self) -> Space[Any] | None:
        """The space of one action."""

    def forward_inference(self, batch: Batch) -> Batch:
        """Return the outputs for acting as well as possible."""

    def forward_exploration(self, batch: Batch) -> Batch:
        """Return the outputs for acting while training data is collected."""

    def forward_train(self, batch: Batch) -> Batch:
        """Return the outputs for a loss."""

    def get_initial_state(self) -> dict[str, Item]:
        """Return the state before the first step of one episode: a nested dict of NumPy arrays without a batch axis.

        It is empty for modules without state.
        """

    def is_stateful(self) -> bool:
        """Tell whether the module takes `state_in` and returns `state_out`."""


@runtime_checkable
class Distribution(Protocol):
    """The methods for sampling; `episodia.modules.ActionDistribution` and RLlib's classes have them."""

    def sample(self) -> Item:
        """Draw one action per row."""

    def to_deterministic(self) -> Distribution:
        """Return the distribution that always takes the most probable action."""

    def logp(self, value: Item, /) -> Item:
        """Return the log-probability of one action per row."""


@runtime_checkable
class DistributionClass(Protocol):
    """Makes distributions: a `DistributionSpec` of this library, or a class with such a class method."""

    def from_logits(self, logits: Item, /) -> Distribution:
        """Make one distribution per row of `action_dist_inputs`."""


@runtime_checkable
class DistributionModule(Module, Protocol):
    """A module whose forward passes return `action_dist_inputs`, and that names their distribution."""

    def get_inference_action_dist_cls(self) -> DistributionClass:
        """Return the class or spec that makes distributions of the outputs of `forward_inference`."""

    def get_exploration_action_dist_cls(self) -> DistributionClass:
        """Return the class or spec that makes distributions of the outputs of `forward_exploration`."""

    def get_train_action_dist_cls(self) -> DistributionClass:
        """Return the class or spec that makes distributions of the outputs of `forward_train`."""


@runtime_checkable
class ValueModule(Module, Protocol):
    """A module that also estimates values, for advantages and bootstrapping."""

    def compute_values(self, batch: Batch, embeddings: Item = None) -> Item:
        """Return the value of each observation of `batch`, with its leading axes: `[B]` or `[B, T]`.

        Args:
            batch: A batch with observations; for stateful modules also with `state_in`.
            embeddings: The `embeddings` that `forward_train` returned for the same batch, if known: then only the last layer
                is computed.
        """


@runtime_checkable
class DeclaresViews(Protocol):
    """A module that declares which items of the trajectory it needs besides its observation."""

    @property
    def views(self) -> Mapping[str, Any] | None:
        """The views, `episodia.connectors.View`, by the column that they become."""


@runtime_checkable
class DeclaresSequenceLength(Protocol):
    """A recurrent module that declares on how long sequences it learns."""

    @property
    def max_seq_len(self) -> int | None:
        """The length of the sequences; None for the default."""


def has_values(module: object) -> TypeGuard[ValueModule]:
    """Return whether `module` has the method `compute_values`; other methods of `ValueModule` may be missing.

    A subclass without values sets it to None.
    """
    return callable(getattr(module, "compute_values", None))


Modules: TypeAlias = Module | Mapping[Any, Module] | None
"""What a pipeline serves: one module, several by their ids, or None where no piece needs one."""
