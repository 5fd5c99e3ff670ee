"""DQN: values of actions, learned from replay; with its extensions, each of which is a setting of config or network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gymnasium import Space, spaces
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from episodia.arguments import checked_choice, checked_flag, checked_whole, names_nearest_argument
from episodia.columns import Columns
from episodia.connectors import Schedule
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.errors import LearnerError
from episodia.learners.algorithms.off_policy import OffPolicyConfig, ReplayedSteps
from episodia.learners.algorithms.target import UNITS, Target
from episodia.learners.gradients.gradient_processing import ClipByGlobalNorm, GradientProcessor
from episodia.learners.losses.coefficients import Coefficient, check_positive, check_within
from episodia.learners.losses.loss import LOSS, LossInputs, LossOutputs
from episodia.learners.losses.q_targets import (
    best_actions,
    chosen,
    positions,
    projected,
    quantile_errors,
    squashed,
    unsquashed,
)
from episodia.types import Batch

TARGET = "target"


@names_nearest_argument
@dataclass(frozen=True, kw_only=True)
class DQNConfig(OffPolicyConfig):
    """Q-learning for a `QNetwork`: dueling, distributional, noisy and recurrent networks learn by the same loss.

    Args:
        double: Whether the module chooses the next action, and the target network only values it.
        target_every: The number of steps between two copies to the target network.
        target_unit: `"gradient_steps"` or `"env_steps"`, see `Target`.
        tau: The part of the way that the target network takes then; 1 copies.
        rescales_values: Whether values are learned on a scale on which large ones grow like roots, for rewards of very
            different sizes; the returns of distributions are on this scale, too, and so is the `value_range` of a network.

    >>> DQNConfig(n_step=3).draw()
    Transitions(n_step=3, gamma=0.99)
    """

    action_space_class: ClassVar[type[Space[Any]]] = spaces.Discrete

    learning_rate: float | Schedule = 1e-3
    gradient_processors: tuple[GradientProcessor, ...] = (ClipByGlobalNorm(10.0),)
    double: bool = True
    target_every: int = 500
    target_unit: str = "gradient_steps"
    tau: float = 1.0
    rescales_values: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        where = type(self).__name__
        checked_flag(LearnerError, where, "double", self.double)
        checked_flag(LearnerError, where, "rescales_values", self.rescales_values)
        checked_whole(LearnerError, where, "target_every", self.target_every, 1)
        checked_choice(LearnerError, where, "target_unit", self.target_unit, UNITS)
        check_positive(where, "tau", self.tau)
        check_within(where, "tau", self.tau, 0.0, 1.0)

    def network(self) -> Mapping[str, Any]:
        """Return the settings of a Q-network."""
        return {"kind": "q"}

    def coefficients(self) -> Mapping[str, Coefficient]:
        """Return no coefficients."""
        return {}

    def target_networks(self) -> Mapping[str, Target]:
        """Return the rule of the target network."""
        return {TARGET: Target(tau=self.tau, every=self.target_every, unit=self.target_unit)}

    def loss(self, inputs: LossInputs) -> LossOutputs:
        """Return the mean error of Q(s, a) compared with r + γ · Q'(s', a*); the size of each row's error is `td_error`."""
        module: Any = inputs.module
        steps = ReplayedSteps(inputs, self.gamma)
        outputs = _checked(module, module.forward_train(inputs.batch))
        actions = positions(inputs.batch[Columns.ACTIONS], module.action_space)
        with torch.no_grad():
            following = steps.next_outputs(inputs.target_networks[TARGET])
            values = steps.next_outputs(module)[Columns.Q_VALUES] if self.double else following[Columns.Q_VALUES]
            best = best_actions(values, following.get(Columns.ACTION_MASK))
        taken, errors, sizes = self._errors(module, steps, (outputs, actions), (following, best))
        return LossOutputs(
            {LOSS: steps.mean(errors)},
            {"q_value": steps.mean(taken), "td_error": steps.mean(sizes)},
            {"td_error": steps.priorities(sizes)},
        )

    def _errors(
        self, module: Any, steps: ReplayedSteps, now: tuple[Batch, Tensor], following: tuple[Batch, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the value of each action that was taken, the loss of each step, and the size of its error: its priority."""
        (outputs, actions), (later, best) = now, following
        taken = chosen(outputs[Columns.Q_VALUES], actions)
        if Columns.Q_ATOMS not in outputs:
            targets = self._targets(steps.rewards, steps.discounts, chosen(later[Columns.Q_VALUES], best))
            errors = smooth_l1_loss(taken, targets, reduction="none")
            return taken.detach(), errors, (taken.detach() - targets).abs()
        taken = taken.detach()
        atoms, later_atoms = chosen(outputs[Columns.Q_ATOMS], actions), chosen(later[Columns.Q_ATOMS], best)
        rewards, discounts = steps.rewards.unsqueeze(-1), steps.discounts.unsqueeze(-1)
        returns = module.returns
        if returns is None:
            targets = self._targets(rewards, discounts, later_atoms)
            errors = quantile_errors(atoms, targets)
            return taken, errors, (atoms.detach().mean(-1) - targets.mean(-1)).abs()
        wanted = projected(returns, self._targets(rewards, discounts, returns), later_atoms.softmax(-1))
        errors = -(wanted * atoms.log_softmax(-1)).sum(-1)
        return taken, errors, errors.detach()

    def _targets(self, rewards: Tensor, discounts: Tensor, following: Tensor) -> Tensor:
        """Return rewards plus discounted values, or returns, of what follows, all on the scale that is learned."""
        if not self.rescales_values:
            return rewards + discounts * following
        return squashed(rewards + discounts * unsquashed(following))


def _checked(module: Any, outputs: Batch) -> Batch:
    """Return the outputs of `module.forward_train` if they have a value of each action.

    Raises:
        LearnerError: If they do not.
    """
    values, num = outputs.get(Columns.Q_VALUES), module.action_space.n
    if values is None or values.shape[-1] != num:
        found = f"only {sorted(outputs)}" if values is None else describe_column(values)
        raise LearnerError(
            f"loss: found {found} from `{type(module).__name__}.forward_train`, expected {Columns.Q_VALUES!r} with a value of "
            f"each of the {num} actions, [..., {num}]. Use a Q-network, for example `default_module(..., kind='q')`."
        )
    return outputs
