"""Inputs and outputs of a loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from torch import Tensor

from episodia.modules.protocol import Module
from episodia.types import Batch

# The loss that an optimizer follows unless its config names another one.
LOSS = "loss"


@final
@dataclass(frozen=True)
class LossInputs:
    """The inputs of a loss: some rows of one module.

    Args:
        module: The module.
        batch: Its columns, as the learner pipeline leaves them; `[B, ...]`, or `[B, T, ...]` if it is recurrent.
        coefficients: The current values of the algorithm's `coefficients()`.
        target_networks: The module's copies with older weights, by the names in the algorithm's `target_networks`.
        due: The losses that an optimizer follows in this gradient step; others may be left out.
    """

    module: Module
    batch: Batch
    coefficients: Mapping[str, float]
    target_networks: Mapping[str, Module] = field(default_factory=dict)
    due: frozenset[str] = frozenset({LOSS})


@final
@dataclass(frozen=True)
class LossOutputs:
    """The results of a loss.

    Args:
        losses: One tensor without axes for each loss, by the name that `OptimizerConfig.loss` refers to; averages over the
            steps that count.
        metrics: Tensors without axes; averages over the steps that count.
        rows: Tensors with one number for each row of the batch, such as errors that become priorities, by name.
    """

    losses: Mapping[str, Tensor]
    metrics: Mapping[str, Tensor] = field(default_factory=dict)
    rows: Mapping[str, Tensor] = field(default_factory=dict)
