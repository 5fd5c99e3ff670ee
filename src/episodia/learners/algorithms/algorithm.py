"""The base of all algorithms: a frozen config with targets, coefficients and a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from episodia.arguments import checked_choice, checked_each, checked_whole
from episodia.connectors import ConnectorV2, Schedule
from episodia.errors import LearnerError
from episodia.learners.algorithms.target import Target
from episodia.learners.gradients.gradient_processing import GradientProcessor
from episodia.learners.losses.coefficients import Coefficient, check_within
from episodia.learners.losses.loss import LossInputs, LossOutputs
from episodia.learners.optimizers import OptimizerConfig
from episodia.modules import Module
from episodia.trees import shown

_ON_NON_FINITE = ("skip", "raise")


@dataclass(frozen=True, kw_only=True)
class AlgorithmConfig(ABC):
    """The settings that all algorithms share.

    A loss is an average over the steps of one module that count, so that gradients from several places can be averaged. To
    write an algorithm, copy `a2c.py`.

    Args:
        gamma: The discount per step.
        learning_rate: A number, or a schedule over the steps trained on.
        optimizers: The optimizers of all trained components, and the loss that each of them follows; by default one Adam for
            everything.
        gradient_processors: Functions that change the gradients before the optimizers get them, in this order.
        on_non_finite: If a module's loss or gradient is not finite, `"skip"` leaves that module unchanged in this gradient
            step and counts it; `"raise"` raises an error.
        max_seq_len: The length of the sequences that recurrent modules learn from; None takes the module's.
        burn_in: The number of steps before each sequence that warm up the state.
    """

    gamma: float = 0.99
    learning_rate: float | Schedule = 3e-4
    optimizers: tuple[OptimizerConfig, ...] = (OptimizerConfig(),)
    gradient_processors: tuple[GradientProcessor, ...] = ()
    on_non_finite: str = "skip"
    max_seq_len: int | None = None
    burn_in: int = 0

    def __post_init__(self) -> None:
        where = type(self).__name__
        check_within(where, "gamma", self.gamma, 0.0, 1.0)
        check_within(where, "learning_rate", self.learning_rate, 0.0, may_change=True)
        checked_whole(LearnerError, where, "burn_in", self.burn_in, 0)
        if self.max_seq_len is not None:
            checked_whole(LearnerError, where, "max_seq_len", self.max_seq_len, 1)
        optimizers = checked_each(
            LearnerError, where, "optimizers", self.optimizers, _is_optimizer, "`OptimizerConfig`s"
        )
        wanted, given = "functions such as `ClipByNorm(1.0)`", self.gradient_processors
        processors = checked_each(LearnerError, where, "gradient_processors", given, _is_processor, wanted)
        # Tuples, because lists could change later.
        object.__setattr__(self, "optimizers", tuple(optimizers))
        object.__setattr__(self, "gradient_processors", tuple(processors))
        checked_choice(LearnerError, where, "on_non_finite", self.on_non_finite, _ON_NON_FINITE)

    @abstractmethod
    def targets(self, device: torch.device) -> list[ConnectorV2]:
        """Return the pieces of the learner pipeline that compute the targets of the loss.

        Args:
            device: The device of the modules, for pieces that call them.
        """

    @abstractmethod
    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return the numbers in the loss that may change during training, by name."""

    def check_module(self, module_id: str, module: Module) -> None:  # noqa: B027  # most algorithms check nothing
        """Check that the algorithm can learn with a module; here, any module will do.

        Raises:
            LearnerError: If it cannot.
        """

    def network(self) -> Mapping[str, Any]:
        """Return the arguments of `default_module` for a network that suits the algorithm."""
        return {}

    def sequences(self) -> tuple[int | None, int]:
        """Return the length of the sequences that the learner pipeline cuts episodes into, and their burn-in."""
        return self.max_seq_len, self.burn_in

    def target_networks(self) -> Mapping[str, Target]:
        """Return the rules of the target networks that the loss uses, by name."""
        return {}

    @abstractmethod
    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the losses of one module on some of its rows, with metrics and results for each row."""


def _is_processor(value: object) -> bool:
    # A class such as `ClipByNorm` is callable, but only its instances are processors.
    return callable(value) and not isinstance(value, type)


def _is_optimizer(value: object) -> bool:
    return isinstance(value, OptimizerConfig)


def check_algorithm(config: object) -> None:
    """Check that `config` is the config of an algorithm.

    Raises:
        LearnerError: If it is not.
    """
    if not isinstance(config, AlgorithmConfig):
        raise LearnerError(
            f"learner: found {shown(config)} as the algorithm, expected a config such as `PPOConfig()`. Pass one."
        )
