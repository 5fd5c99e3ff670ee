"""The base of all action distributions, and the checks of their inputs.

Axes: inputs are `[..., n]`, where `...` are the axes of the batch, `[B]` or `[B, T]`. Actions are `[..., *shape]` with the
shape that one action has in its space. Log-probability, entropy and divergence are `[...]`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from episodia.errors import ModuleError
from episodia.trees import map_batch
from episodia.types import Item

# Dtypes in which sums of exponentials are exact enough.
FULL_PRECISION = (torch.float32, torch.float64)


class ActionDistribution(ABC):
    """One distribution of actions for each row of a batch. Actions are values of the action space.

    Attributes:
        spec: What the distribution was made with; None if it was not made of a module's outputs.
    """

    spec: DistributionSpec | None = None

    @abstractmethod
    def sample(self, generator: torch.Generator | None = None) -> Item:
        """Draw one action per row, without gradients.

        Args:
            generator: The source of randomness; None takes torch's global generator.
        """

    def sample_with_logp(self, generator: torch.Generator | None = None) -> tuple[Item, Tensor]:
        """Draw one action per row, and return these actions and their log-probabilities."""
        actions = self.sample(generator)
        return actions, self.logp(actions)

    @abstractmethod
    def mode(self) -> Item:
        """Return the most probable action of each row."""

    @abstractmethod
    def logp(self, actions: Item) -> Tensor:
        """Return the log-probability (for floats: the log-density) of one action per row.

        Raises:
            ModuleError: If shapes or dtypes are not those of actions, or if discrete actions are outside of their space.
        """

    @abstractmethod
    def entropy(self) -> Tensor:
        """Return the entropy of each row, in nats."""

    @abstractmethod
    def kl(self, other: ActionDistribution) -> Tensor:
        """Return the divergence KL(self ‖ other) of each row, in nats.

        Raises:
            ModuleError: If `other` is a distribution of another kind or over another space.
        """

    def to_deterministic(self) -> Deterministic:
        """Return the distribution that always takes `mode()`."""
        return Deterministic(self.mode(), self.batch_shape)

    @property
    @abstractmethod
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""


class DistributionSpec(ABC):
    """An immutable description from which distributions are made of a module's outputs.

    It takes the place of a distribution class of RLlib: `module.get_train_action_dist_cls().from_logits(inputs)`.

    Attributes:
        records_logp: Whether log-probabilities of actions are recorded. Without them, exploration changes the recorded action,
            as Q-learning and deterministic policies need.
    """

    records_logp: ClassVar[bool] = True

    @property
    @abstractmethod
    def num_inputs(self) -> int:
        """The size of the last axis of the inputs that a module must return."""

    @abstractmethod
    def from_logits(self, logits: Tensor, action_mask: Item = None) -> ActionDistribution:
        """Make one distribution per row.

        Args:
            logits: The module's outputs, `[..., num_inputs]`.
            action_mask: For discrete actions, `[..., num_inputs]`: nonzero where an action is allowed. All others have
                probability 0. None allows everything.

        Raises:
            ModuleError: If shapes do not fit, if a row is not finite, or if it allows no action at all.
        """

    def sampled(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Item, Tensor]:
        """Return the same as `from_logits(logits).sample_with_logp(generator)`; subclasses may compute it faster."""
        return self.from_logits(logits).sample_with_logp(generator)

    def sampled_arrays(self, logits: Tensor, generator: torch.Generator | None = None) -> tuple[Item, np.ndarray]:
        """Return the results of `sampled` as arrays, for environments and episodes."""
        actions, logp = self.sampled(logits, generator)
        return map_batch(_as_array, actions), _as_array(logp)


def _as_array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


@final
class Deterministic(ActionDistribution):
    """All probability is on one action per row.

    Args:
        actions: The actions, nested as their space is.
        batch_shape: The axes of the batch, which all leaves of `actions` begin with.

    >>> point = Deterministic(torch.tensor([2, 0]), torch.Size([2]))
    >>> point.sample()
    tensor([2, 0])
    >>> point.logp(torch.tensor([2, 1]))
    tensor([0., -inf])
    """

    def __init__(self, actions: Item, batch_shape: torch.Size) -> None:
        self._actions = actions
        self._batch_shape = batch_shape

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self._batch_shape

    def sample(self, generator: torch.Generator | None = None) -> Item:
        """Return the actions; nothing is drawn."""
        return self._actions

    def mode(self) -> Item:
        """Return the actions."""
        return self._actions

    def logp(self, actions: Item) -> Tensor:
        """Return 0 for rows with the same action and -inf for all others."""
        return _log_of(self._agrees(actions))

    def entropy(self) -> Tensor:
        """Return 0 for each row."""
        return _log_of(self._agrees(self._actions))

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return minus the log-probability of the actions under `other`; 0 or inf if that is deterministic as well."""
        return -other.logp(self._actions)

    def _agrees(self, actions: Item) -> Tensor:
        axes = len(self._batch_shape)
        return torch.stack([_same_rows(mine, other, axes) for mine, other in _pairs(self._actions, actions)]).all(0)


def _log_of(truth: Tensor) -> Tensor:
    return truth.to(torch.float32).log()


def _same_rows(left: Tensor, right: object, axes: int) -> Tensor:
    if not isinstance(right, Tensor) or right.shape != left.shape:
        raise _other_actions(left, right)
    return (left == right).reshape((*left.shape[:axes], math.prod(left.shape[axes:]))).all(-1)


def _pairs(left: Any, right: Any) -> Iterator[tuple[Tensor, object]]:
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            raise _other_actions(left, right)
        for key in left:
            yield from _pairs(left[key], right[key])
    elif isinstance(left, tuple):
        if not isinstance(right, tuple) or len(left) != len(right):
            raise _other_actions(left, right)
        for mine, theirs in zip(left, right, strict=True):
            yield from _pairs(mine, theirs)
    else:
        yield left, right


def _other_actions(left: Any, right: Any) -> ModuleError:
    return ModuleError(
        f"deterministic distribution: found actions {describe(right)}, expected {describe(left)}, as it has itself. "
        "Pass one action per row, nested as the action space is."
    )


# --- Checks ---------------------------------------------------------------------------------------------------------


def checked_inputs(spec: DistributionSpec, logits: object) -> Tensor:
    """Return `logits` in full precision, if they are `[..., spec.num_inputs]`."""
    if not isinstance(logits, Tensor) or not logits.dim() or logits.shape[-1] != spec.num_inputs:
        raise ModuleError(
            f"{spec}: found inputs {describe(logits)}, expected a tensor [..., {spec.num_inputs}]. "
            "Let the module return that many numbers per row, `dist_for(action_space).num_inputs`."
        )
    # Sums of exponentials lose too much in half precision.
    return logits if logits.dtype in FULL_PRECISION else logits.float()


def checked_actions(spec: DistributionSpec, actions: Item, shape: tuple[int, ...]) -> Tensor:
    """Return `actions`, if they are a tensor of exactly `shape`; broadcasting would give wrong rows."""
    if not isinstance(actions, Tensor) or actions.shape != shape:
        raise ModuleError(
            f"{spec}: found actions {describe(actions)}, expected a tensor {list(shape)}, one action for each row of the "
            "inputs. Reshape them, or pass the inputs that belong to them."
        )
    return actions


def another_kind(spec: DistributionSpec, other: object) -> ModuleError:
    """Return the error for a comparison of distributions over different spaces."""
    spec_of_other = other.spec if isinstance(other, ActionDistribution) else None
    found = type(other).__name__ if spec_of_other is None else spec_of_other
    return ModuleError(
        f"{spec}: found {found} to compare with, expected a distribution of the same kind and size. "
        "Make both with one `dist_for(action_space)`."
    )


def check_unmasked(spec: DistributionSpec, action_mask: Item) -> None:
    """Reject a mask for actions that cannot be masked."""
    if action_mask is not None:
        raise ModuleError(
            f"{spec}: found an action mask, expected None: only Discrete and MultiDiscrete actions can be masked. "
            "Leave it out, or give None for this part of a nested action space."
        )


def check_finite(spec: DistributionSpec, inputs: Tensor) -> None:
    """Reject NaN and infinite inputs."""
    # A finite sum has finite terms: one cheap reduction for the usual case.
    if not math.isfinite(inputs.sum().item()) and not bool(torch.isfinite(inputs).all()):
        raise not_finite(spec, inputs, ~torch.isfinite(inputs))


def not_finite(spec: DistributionSpec, inputs: Tensor, bad: Tensor) -> ModuleError:
    """Return the error that names the first of the `bad` inputs."""
    place = tuple(bad.nonzero()[0].tolist())
    return ModuleError(
        f"{spec}: found {inputs.detach()[place].item()} in the inputs {describe(inputs)}, first at {place}, expected finite "
        "numbers. The module's weights or observations have become NaN or infinite: lower the learning rate, clip the "
        "gradients, or look for such observations."
    )


def describe(value: object) -> str:
    """Return a short description of `value`, for messages.

    >>> describe(torch.zeros(2, 3))
    'float32[2, 3]'
    """
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, dict):
        return f"a dict with keys {list(value)}"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__}{list(shape)}"
