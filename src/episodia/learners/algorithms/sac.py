"""SAC: a stochastic actor that earns rewards and stays as random as it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Space, spaces
from torch import Tensor

from episodia.arguments import names_nearest_argument
from episodia.connectors import Schedule
from episodia.learners.algorithms.off_policy import OffPolicyConfig, ReplayedSteps, distribution_of
from episodia.learners.algorithms.target import Target
from episodia.learners.losses.coefficients import Coefficient, check_positive, check_within
from episodia.learners.losses.loss import LossInputs, LossOutputs
from episodia.learners.optimizers import OptimizerConfig
from episodia.modules.distributions.squashed_gaussian import SquashedGaussianSpec
from episodia.types import Batch

TARGET, CRITIC, ACTOR, TEMPERATURE = "target", "critic", "actor", "temperature"


@names_nearest_argument
@dataclass(frozen=True, kw_only=True)
class SACConfig(OffPolicyConfig):
    """Soft actor-critic, for an `ActorWithCritics` with a stochastic policy over a Box.

    The temperature, which weighs entropy against rewards, is learned so that the entropy comes close to `target_entropy`.

    Args:
        tau: The part of the way that the target critics take.
        temperature: A fixed temperature: a number or a schedule; None learns it.
        target_entropy: The entropy that the temperature aims at, in nats; None takes minus the number of elements of an action.
    """

    action_space_class: ClassVar[type[Space[Any]]] = spaces.Box
    policy_class: ClassVar[type[object]] = SquashedGaussianSpec
    module_parts: ClassVar[tuple[str, ...]] = ("get_policy", "get_q_values", "distribution", "log_temperature")

    learning_rate: float | Schedule = 3e-4
    optimizers: tuple[OptimizerConfig, ...] = ()
    tau: float = 0.005
    temperature: float | Schedule | None = None
    target_entropy: float | None = None

    def __post_init__(self) -> None:
        where = type(self).__name__
        given: object = self.optimizers
        if isinstance(given, (tuple, list)) and not given:
            parts = {"critics": CRITIC, "actor": ACTOR, "log_temperature": TEMPERATURE}
            usual = tuple(OptimizerConfig(components=(part,), loss=loss) for part, loss in parts.items())
            object.__setattr__(self, "optimizers", usual if self.temperature is None else usual[:-1])
        super().__post_init__()
        check_positive(where, "tau", self.tau)
        check_within(where, "tau", self.tau, 0.0, 1.0)
        if self.temperature is not None:
            check_within(where, "temperature", self.temperature, 0.0, may_change=True)
        if self.target_entropy is not None:
            check_within(where, "target_entropy", self.target_entropy, -np.inf)

    def network(self) -> Mapping[str, Any]:
        """Return the settings of an actor with critics."""
        return {"kind": "actor_with_critics"}

    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return the temperature, if it is fixed."""
        return {} if self.temperature is None else {"temperature": self.temperature}

    def target_networks(self) -> Mapping[str, Target]:
        """Return the rule of the target critics; the target network shares the actor."""
        return {TARGET: Target(of=("critics",), tau=self.tau)}

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the losses of critics, actor and temperature.

        The critics' errors compare with r + γ · (min Q'(s', a') + α · H); the actor's loss is minus the same for s.
        """
        module: Any = inputs.module
        steps, temperature = ReplayedSteps(inputs, self.gamma), self._temperature(inputs)
        values = steps.of_critics(module, self._taken_values(module, inputs.batch))
        with torch.no_grad():
            following, _ = self._soft_values(inputs.target_networks[TARGET], steps.next_batch(), temperature)
            targets = steps.one_each(steps.targets(following), "targets")
        errors = values - targets
        losses = {CRITIC: steps.mean(0.5 * errors.square().sum(0))}
        metrics = {"q_value": steps.mean(values.detach().mean(0)), "critic_loss": losses[CRITIC]}
        if not inputs.due.isdisjoint({ACTOR, TEMPERATURE}):
            soft, entropies = self._soft_values(module, inputs.batch, temperature)
            losses[ACTOR] = -steps.unweighted_mean(soft)
            metrics |= {"actor_loss": losses[ACTOR], "entropy": steps.unweighted_mean(entropies.detach())}
            if TEMPERATURE in inputs.due:
                losses[TEMPERATURE] = module.log_temperature * (metrics["entropy"] - self._wanted_entropy(module))
        metrics["temperature"] = temperature
        return LossOutputs(losses, metrics, {"td_error": steps.priorities(errors.abs().mean(0))})

    def _taken_values(self, module: Any, batch: Batch) -> Tensor:
        """Return what the critics make of the actions that were taken, `[critics, ...]`."""
        found: Tensor = module.get_q_values(batch)
        return found

    def _soft_values(self, module: Any, batch: Batch, temperature: Tensor) -> tuple[Tensor, Tensor]:
        """Return values of drawn actions plus weighted entropy, and estimates of the entropy, with gradients."""
        drawn, logp = distribution_of(module, batch).rsample_with_logp()
        return module.get_q_values(batch, drawn).amin(0) - temperature * logp, -logp

    def _wanted_entropy(self, module: Any) -> float:
        return -float(np.prod(module.action_space.shape)) if self.target_entropy is None else self.target_entropy

    def _temperature(self, inputs: LossInputs) -> Tensor:
        module: Any = inputs.module
        learned: Tensor = module.log_temperature.detach()
        return (
            learned.exp() if self.temperature is None else torch.full_like(learned, inputs.coefficients["temperature"])
        )
