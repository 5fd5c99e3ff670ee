"""DDPG: a deterministic actor climbs the values that its critics give to actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gymnasium import Space, spaces
from torch import Tensor

from episodia.arguments import checked_whole, names_nearest_argument
from episodia.connectors import Schedule
from episodia.errors import LearnerError
from episodia.learners.algorithms.off_policy import OffPolicyConfig, ReplayedSteps
from episodia.learners.algorithms.target import Target
from episodia.learners.losses.coefficients import Coefficient, check_positive, check_within
from episodia.learners.losses.loss import LossInputs, LossOutputs
from episodia.learners.optimizers import OptimizerConfig
from episodia.modules.distributions.point import PointSpec
from episodia.types import Batch

TARGET, CRITIC, ACTOR = "target", "critic", "actor"


@names_nearest_argument
@dataclass(frozen=True, kw_only=True)
class DDPGConfig(OffPolicyConfig):
    """Deterministic policy gradients, for an `ActorWithCritics` with a deterministic policy.

    The first critic guides the actor; targets take the smallest value of all critics.

    Args:
        tau: The part of the way that the target network takes.
        policy_every: The number of gradient steps of the critics for each step of the actor and the target network.
        target_noise: The standard deviation of noise on the target network's actions, which smooths values; 0 adds none.
        target_noise_limit: The largest size of this noise.
    """

    action_space_class: ClassVar[type[Space[Any]]] = spaces.Box
    policy_class: ClassVar[type[object]] = PointSpec
    module_parts: ClassVar[tuple[str, ...]] = ("get_policy", "get_q_values")

    learning_rate: float | Schedule = 1e-3
    optimizers: tuple[OptimizerConfig, ...] = ()
    tau: float = 0.005
    policy_every: int = 1
    target_noise: float = 0.0
    target_noise_limit: float = 0.5

    def __post_init__(self) -> None:
        where = type(self).__name__
        checked_whole(LearnerError, where, "policy_every", self.policy_every, 1)
        given: object = self.optimizers
        if isinstance(given, (tuple, list)) and not given:
            usual = (
                OptimizerConfig(components=("critics",), loss=CRITIC),
                OptimizerConfig(components=("actor",), loss=ACTOR, every=self.policy_every),
            )
            object.__setattr__(self, "optimizers", usual)
        super().__post_init__()
        check_positive(where, "tau", self.tau)
        check_within(where, "tau", self.tau, 0.0, 1.0)
        check_within(where, "target_noise", self.target_noise, 0.0)
        check_within(where, "target_noise_limit", self.target_noise_limit, 0.0)

    def network(self) -> Mapping[str, Any]:
        """Return the settings of a deterministic actor with one critic."""
        return {"kind": "actor_with_critics", "policy": "deterministic", "num_critics": 1}

    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return no coefficients."""
        return {}

    def target_networks(self) -> Mapping[str, Target]:
        """Return the rule of the target network."""
        return {TARGET: Target(tau=self.tau, every=self.policy_every)}

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the critics' squared errors compared with r + γ · min Q'(s', π'(s')), and minus the value of π(s)."""
        module: Any = inputs.module
        steps = ReplayedSteps(inputs, self.gamma)
        values = steps.of_critics(module, module.get_q_values(inputs.batch))
        with torch.no_grad():
            targets = steps.targets(self._next_values(inputs.target_networks[TARGET], steps.next_batch()))
        errors = values - steps.one_each(targets, "targets")
        losses = {CRITIC: steps.mean(0.5 * errors.square().sum(0))}
        metrics = {"q_value": steps.mean(values.detach().mean(0)), "critic_loss": losses[CRITIC]}
        if ACTOR in inputs.due:
            climbed = module.get_q_values(inputs.batch, module.get_policy(inputs.batch))[0]
            losses[ACTOR] = -steps.unweighted_mean(climbed)
            metrics["actor_loss"] = losses[ACTOR]
        return LossOutputs(losses, metrics, {"td_error": steps.priorities(errors.abs().mean(0))})

    def _next_values(self, target: Any, following: Batch) -> Tensor:
        actions = target.get_policy(following)
        if self.target_noise:
            limit = self.target_noise_limit
            noise = (torch.randn_like(actions) * self.target_noise).clamp(-limit, limit)
            actions = (actions + noise).clamp(-1.0, 1.0)
        values: Tensor = target.get_q_values(following, actions).amin(0)
        return values
