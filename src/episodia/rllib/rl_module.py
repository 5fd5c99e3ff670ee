"""RLlib's base classes of modules: subclasses build networks in `setup` and implement `_forward` and its variants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import torch
from gymnasium import Space
from torch import nn

from episodia.columns import Columns
from episodia.errors import ModuleError
from episodia.modules.declared_views import DeclaredViews, WithViews
from episodia.modules.distributions import dist_for
from episodia.modules.protocol import DistributionClass
from episodia.rllib.array_helpers import convert_to_numpy
from episodia.trees import describe
from episodia.types import Batch, Item


class RLModule(WithViews):
    """A module in RLlib's form; it meets the protocol `episodia.modules.DistributionModule`.

    Args:
        observation_space: The space of the observations in a batch.
        action_space: The space of the actions.
        inference_only: Stored for `setup`.
        learner_only: Stored for `setup`.
        model_config: Settings of the subclass, JSON values if the module is to be saved.
        catalog_class: None, for constructors of subclasses that pass it on.

    Raises:
        ModuleError: If a catalog is given.

    Attributes:
        action_dist_cls: The distribution of the module's `action_dist_inputs`; None takes `dist_for(action_space)`.
        views: What the module sees of the trajectory, by column; may be declared in a subclass, or added to a module,
            also later.
        max_seq_len: The length of the sequences that a recurrent module learns from, `model_config["max_seq_len"]`.
    """

    action_dist_cls: DistributionClass | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "get_initial_state" in vars(cls):
            # Ported modules return tensors.
            setattr(cls, "get_initial_state", _in_numpy(cls.get_initial_state))  # noqa: B010  # mypy rejects the assignment

    def __init__(
        self,
        observation_space: Space[Any] | None = None,
        action_space: Space[Any] | None = None,
        *,
        inference_only: bool = False,
        learner_only: bool = False,
        model_config: dict[str, Any] | None = None,
        catalog_class: None = None,
    ) -> None:
        if catalog_class is not None:
            raise ModuleError(
                f"{type(self).__name__}: found `catalog_class={describe(catalog_class)}`, expected None, because there are no "
                "catalogs. Build the networks in `setup`."
            )
        self.observation_space = observation_space
        self.action_space = action_space
        self.inference_only = inference_only
        self.learner_only = learner_only
        self.model_config = {} if model_config is None else model_config
        self.max_seq_len = model_config.get("max_seq_len") if isinstance(model_config, Mapping) else None
        self.views = DeclaredViews(type(self).views)
        self.setup()

    def setup(self) -> None:
        """Build the networks; called at the end of the constructor, when spaces and `model_config` are known."""
        return

    def _forward(self, batch: Batch, **kwargs: Any) -> Batch:
        """Return `actions` or `action_dist_inputs`, and further columns; used where no variant is implemented."""
        raise ModuleError(
            f"{type(self).__name__}: found no forward pass, expected `_forward`, or `_forward_inference`, "
            "`_forward_exploration` and `_forward_train`. Implement them."
        )

    def _forward_inference(self, batch: Batch, **kwargs: Any) -> Batch:
        return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: Batch, **kwargs: Any) -> Batch:
        return self._forward(batch, **kwargs)

    def _forward_train(self, batch: Batch, **kwargs: Any) -> Batch:
        return self._forward(batch, **kwargs)

    def forward_inference(self, batch: Batch, **kwargs: Any) -> Batch:
        """Return the outputs of `_forward_inference`."""
        return self._forward_inference(batch, **kwargs)

    def forward_exploration(self, batch: Batch, **kwargs: Any) -> Batch:
        """Return the outputs of `_forward_exploration`."""
        return self._forward_exploration(batch, **kwargs)

    def forward_train(self, batch: Batch, **kwargs: Any) -> Batch:
        """Return the outputs of `_forward_train`, and the values of a `ValueFunctionAPI`, which losses read as a column."""
        outputs = self._forward_train(batch, **kwargs)
        if isinstance(self, ValueFunctionAPI) and Columns.VF_PREDS not in outputs:
            values = self.compute_values(batch, embeddings=outputs.get(Columns.EMBEDDINGS))
            return {**outputs, Columns.VF_PREDS: values}
        return outputs

    def get_initial_state(self) -> dict[str, Item]:
        """Return the state before the first step of an episode, empty without state; tensors become NumPy arrays."""
        return {}

    def is_stateful(self) -> bool:
        """Tell whether there is an initial state."""
        return bool(self.get_initial_state())

    def get_inference_action_dist_cls(self) -> DistributionClass:
        """Return `action_dist_cls`, or the distribution for the action space."""
        return self._distribution()

    def get_exploration_action_dist_cls(self) -> DistributionClass:
        """Return `action_dist_cls`, or the distribution for the action space."""
        return self._distribution()

    def get_train_action_dist_cls(self) -> DistributionClass:
        """Return `action_dist_cls`, or the distribution for the action space."""
        return self._distribution()

    def _distribution(self) -> DistributionClass:
        if self.action_dist_cls is not None:
            return self.action_dist_cls
        if self.action_space is None:
            raise ModuleError(
                f"{type(self).__name__}: found no action space, expected one, or `action_dist_cls`, for the distribution of "
                "actions. Pass `action_space=`."
            )
        return dist_for(self.action_space)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the class other than the spaces."""
        flags = {"inference_only": self.inference_only, "learner_only": self.learner_only}
        return {**flags, "model_config": self.model_config}

    def unwrapped(self) -> RLModule:
        """Return the module itself: nothing is wrapped around it."""
        return self


class TorchRLModule(nn.Module, RLModule):
    """An `RLModule` that is a `torch.nn.Module`; acting computes no gradients.

    >>> from gymnasium import spaces
    >>> class Linear(TorchRLModule):
    ...     def setup(self):
    ...         self.layer = nn.Linear(self.observation_space.shape[0], self.action_space.n)
    ...
    ...     def _forward(self, batch, **kwargs):
    ...         return {"action_dist_inputs": self.layer(batch["obs"])}
    >>> module = Linear(observation_space=spaces.Box(-1.0, 1.0, (3,)), action_space=spaces.Discrete(2))
    >>> module.forward_inference({"obs": torch.zeros(5, 3)})["action_dist_inputs"].shape
    torch.Size([5, 2])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a module; the arguments are those of `RLModule`."""
        nn.Module.__init__(self)
        RLModule.__init__(self, *args, **kwargs)

    def _forward_inference(self, batch: Batch, **kwargs: Any) -> Batch:
        with torch.no_grad():
            return self._forward(batch, **kwargs)

    def _forward_exploration(self, batch: Batch, **kwargs: Any) -> Batch:
        with torch.no_grad():
            return self._forward(batch, **kwargs)

    def forward(self, batch: Batch, **kwargs: Any) -> Batch:
        """Return the outputs of `forward_train`."""
        return self.forward_train(batch, **kwargs)


class ValueFunctionAPI(ABC):
    """A mix-in for modules that estimate values."""

    @abstractmethod
    def compute_values(self, batch: Batch, embeddings: Item = None) -> Item:
        """Return the value of each observation, see `episodia.modules.ValueModule.compute_values`."""


def _in_numpy(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(method)
    def get_initial_state(self: Any) -> Any:
        return convert_to_numpy(method(self), reduce_type=False)

    return get_initial_state
