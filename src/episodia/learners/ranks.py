"""Ranks: learners that take each gradient step together, with parts of one batch; alone, a learner has it all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, final

import numpy as np
from torch import Tensor
from torch.nn import Parameter

from episodia.learners.gradients.backward_pass import BackwardPass
from episodia.learners.minibatches import Minibatch
from episodia.learners.row_results import Collected
from episodia.learners.update_metrics import Log
from episodia.types import Batch

Minibatches: TypeAlias = Iterator[dict[str, Minibatch]]
# Yields the minibatches of a batch and its counts of steps.
Draw: TypeAlias = Callable[[Mapping[str, Batch], Mapping[str, np.ndarray]], Minibatches]


class Ranks(ABC):
    """The calls of a learner to the ranks that it learns with, in this order, in each update.

    A rank may have no rows of a module, or of a minibatch: its own part of the minibatch then has 0 steps.
    """

    @abstractmethod
    def batch_of(self, make: Callable[[], dict[str, Batch]]) -> dict[str, Batch]:
        """Return the own batch that `make` makes, with pieces that work on the batches of all ranks."""

    @abstractmethod
    def rows(self, counts: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the numbers of steps of the rows of all ranks, in their order, by module.

        Args:
            counts: Those of the own rows.
        """

    @abstractmethod
    def minibatches(self, draw: Draw, own: Mapping[str, Batch], counts: Mapping[str, np.ndarray]) -> Minibatches:
        """Yield the own parts of the minibatches of all ranks."""

    @abstractmethod
    def summed(
        self,
        compute: Callable[[], BackwardPass],
        parts: Mapping[str, Minibatch],
        trained: Mapping[str, Mapping[str, Parameter]],
        buffers: Mapping[str, Sequence[Tensor]],
    ) -> BackwardPass:
        """Return what `compute` returns, with the losses and gradients of all ranks, weighted by their steps.

        Args:
            compute: Computes losses and gradients of the own parts; if it fails, no rank takes the step.
            parts: The own parts of a minibatch.
            trained: The trained parameters, by module and name.
            buffers: What forward passes change, by module; it becomes the average of all ranks.
        """

    @abstractmethod
    def merged(self, log: Log, collected: Collected) -> tuple[Log, Collected]:
        """Return the metrics and the results of rows of all ranks."""


@final
class Alone(Ranks):
    """A learner that learns alone."""

    def batch_of(self, make: Callable[[], dict[str, Batch]]) -> dict[str, Batch]:
        """Return the batch."""
        return make()

    def rows(self, counts: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the own numbers."""
        return counts

    def minibatches(self, draw: Draw, own: Mapping[str, Batch], counts: Mapping[str, np.ndarray]) -> Minibatches:
        """Return the minibatches of the batch."""
        return draw(own, counts)

    def summed(
        self,
        compute: Callable[[], BackwardPass],
        parts: Mapping[str, Minibatch],
        trained: Mapping[str, Mapping[str, Parameter]],
        buffers: Mapping[str, Sequence[Tensor]],
    ) -> BackwardPass:
        """Return what `compute` returns."""
        return compute()

    def merged(self, log: Log, collected: Collected) -> tuple[Log, Collected]:
        """Return both as they are."""
        return log, collected
