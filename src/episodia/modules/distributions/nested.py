"""Actions made of parts: the distribution for `Dict` and `Tuple` spaces."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, final

import torch
from torch import Tensor

from episodia.errors import ModuleError
from episodia.modules.distributions.action_distribution import (
    ActionDistribution,
    DistributionSpec,
    another_kind,
    checked_inputs,
    describe,
)
from episodia.types import Item


@final
@dataclass(frozen=True)
class NestedSpec(DistributionSpec):
    """Distributions for `Dict` and `Tuple` spaces; the inputs are those of all parts, in the order of the space.

    Args:
        parts: What the parts are made with; at least one.
        keys: The keys of a `Dict`, in the order of `parts`; None for a `Tuple`.
    """

    parts: tuple[DistributionSpec, ...]
    keys: tuple[Hashable, ...] | None = None

    @property
    def num_inputs(self) -> int:
        """The number of inputs of all parts together."""
        return sum(part.num_inputs for part in self.parts)

    def from_logits(self, logits: Tensor, action_mask: Item = None) -> Nested:
        """Make one distribution per row, see `DistributionSpec.from_logits`.

        Args:
            logits: The module's outputs, `[..., num_inputs]`.
            action_mask: A mask per part, nested as actions are; None, or a key that is left out, allows everything there.
        """
        inputs = torch.split(checked_inputs(self, logits), [part.num_inputs for part in self.parts], -1)
        masks = self._masks(action_mask)
        parts = [part.from_logits(x, mask) for part, x, mask in zip(self.parts, inputs, masks, strict=True)]
        return Nested(self, tuple(parts))

    def split(self, actions: Item) -> list[Any]:
        """Return the parts of nested `actions`, in the order of the space."""
        fits = isinstance(actions, tuple) if self.keys is None else isinstance(actions, Mapping)
        if not fits or len(actions) != len(self.parts) or (self.keys and actions.keys() != set(self.keys)):
            raise self._other_nesting("actions", actions)
        return list(actions) if self.keys is None else [actions[key] for key in self.keys]

    def join(self, parts: list[Any]) -> Item:
        """Return `parts` nested as the space is."""
        return tuple(parts) if self.keys is None else dict(zip(self.keys, parts, strict=True))

    def _masks(self, action_mask: Item) -> list[Any]:
        if action_mask is None:
            return [None] * len(self.parts)
        if self.keys is not None and isinstance(action_mask, Mapping) and action_mask.keys() <= set(self.keys):
            return [action_mask.get(key) for key in self.keys]
        if self.keys is None and isinstance(action_mask, tuple) and len(action_mask) == len(self.parts):
            return list(action_mask)
        raise self._other_nesting("the action mask", action_mask)

    def _other_nesting(self, what: str, value: Any) -> ModuleError:
        size = len(self.parts)
        wanted = f"a tuple of {size} parts" if self.keys is None else f"a dict with keys {list(self.keys)}"
        return ModuleError(
            f"nested action distribution: found {what} as {describe(value)}, expected {wanted}. "
            "Nest it as the action space is nested."
        )


@final
class Nested(ActionDistribution):
    """Independent parts, each with its own distribution.

    Args:
        spec: The nesting.
        parts: The distributions of the parts.
    """

    def __init__(self, spec: NestedSpec, parts: tuple[ActionDistribution, ...]) -> None:
        self.spec: NestedSpec = spec
        self.parts = parts

    @property
    def batch_shape(self) -> torch.Size:
        """The axes of the batch, `[B]` or `[B, T]`."""
        return self.parts[0].batch_shape

    def sample(self, generator: torch.Generator | None = None) -> Item:
        """Draw one action per row, see `ActionDistribution.sample`; the parts draw in their order."""
        return self.spec.join([part.sample(generator) for part in self.parts])

    def mode(self) -> Item:
        """Return the most probable action of each row."""
        return self.spec.join([part.mode() for part in self.parts])

    def logp(self, actions: Item) -> Tensor:
        """Return the log-probability of one action per row: the sum over the parts."""
        return self._sum(lambda part, action: part.logp(action), self.spec.split(actions))

    def entropy(self) -> Tensor:
        """Return the entropy of each row, in nats: the sum over the parts."""
        return self._sum(lambda part, _: part.entropy(), [None] * len(self.parts))

    def kl(self, other: ActionDistribution) -> Tensor:
        """Return KL(self ‖ other), see `ActionDistribution.kl`: the sum over the parts."""
        if not isinstance(other, Nested) or other.spec != self.spec:
            raise another_kind(self.spec, other)
        return self._sum(lambda mine, theirs: mine.kl(theirs), list(other.parts))

    def _sum(self, function: Callable[[ActionDistribution, Any], Tensor], values: list[Any]) -> Tensor:
        return reduce(add, map(function, self.parts, values))
