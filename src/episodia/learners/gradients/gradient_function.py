"""Gradients as a pure function of a state and a batch, for workers without memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, final

from episodia.arguments import checked_whole
from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig, check_algorithm
from episodia.learners.gradients.differentiation import Differentiation, check_can_learn
from episodia.learners.gradients.gradient_averages import MeasuredGradients
from episodia.learners.hooks import LearnerHook
from episodia.learners.learner_modules import LearnerModules
from episodia.learners.losses.coefficients import Coefficients
from episodia.learners.state_checks import check_part
from episodia.modules import Module
from episodia.modules.devices import device_of
from episodia.types import Batch


@final
class GradientFunction:
    """Computes the gradients of `Learner.compute_gradients` with the weights and coefficients of a given state.

    The same state and batch always give the same gradients, independent of earlier calls. It can be pickled, and so sent to
    the workers that have the batches. It computes on the device of its modules.

    Args:
        modules: The module, or modules by their ids, as for the learner. They are copied.
        config: The algorithm.

    >>> import torch
    >>> from gymnasium import spaces
    >>> from episodia.learners import Learner, ReinforceConfig
    >>> from episodia.modules import MLPActorCritic
    >>> module = MLPActorCritic(spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2), hidden=())
    >>> learner = Learner(module, ReinforceConfig())
    >>> gradients_of = GradientFunction(module, ReinforceConfig())
    >>> batch = {"default_policy": {"obs": torch.ones(1, 1), "actions": torch.tensor([0]), "returns_to_go": torch.ones(1)}}
    >>> state = learner.get_state(GradientFunction.components)
    >>> list(gradients_of(state, batch))
    ['actor_head.weight', 'actor_head.bias']
    """

    # The parts of a learner's state that gradients depend on.
    components = ("weights", "target_networks", "coefficients", "progress")

    def __init__(self, modules: Module | Mapping[str, Module], config: AlgorithmConfig) -> None:
        check_algorithm(config)
        self.config = config
        copied: Any = copy.deepcopy(modules)
        self._networks = LearnerModules(copied)
        self._differentiation = Differentiation(self._networks, config)
        self._coefficients = Coefficients(config.coefficients(), self._differentiation.trained)

    def __call__(self, state: Mapping[str, Any], batch: Mapping[str, Batch]) -> MeasuredGradients:
        """Return the gradients of the loss on `batch`, by parameter name, with metrics.

        Args:
            state: A result of `Learner.get_state`; only `components` of it are read.
            batch: The columns of each module, as the learner pipeline leaves them.

        Raises:
            LearnerError: If the state is not the state of a learner with these modules and this config.
            BatchError: If `batch` is not a batch.
        """
        check_can_learn()
        given: object = state
        missing = [name for name in self.components if not isinstance(given, Mapping) or name not in given]
        if missing:
            raise LearnerError(
                f"gradients of a state: found no {missing} in it, expected {list(self.components)}. Pass "
                "`learner.get_state(GradientFunction.components)`."
            )
        check_part("weights", state["weights"], self._networks.check_weights)
        check_part("coefficients", state["coefficients"], self._coefficients.check_state)
        check_part("progress", state["progress"], _check_steps)
        targets = self._differentiation.target_networks
        check_part("target_networks", state["target_networks"], targets.check_state)
        self._networks.set_weights(state["weights"])
        targets.set_state(state["target_networks"])
        self._coefficients.set_state(state["coefficients"])
        progress = state["progress"]
        coefficients = {
            module_id: self._coefficients.at(module_id, progress["num_schedule_steps"])
            for module_id in self._differentiation.trained
        }
        device = device_of(*self._networks.modules.values())
        return self._differentiation.measured(batch, coefficients, progress=progress, device=device, hook=LearnerHook())


def _check_steps(progress: Mapping[str, Any]) -> None:
    for name in ("num_schedule_steps", "num_updates", "num_gradient_steps"):
        checked_whole(LearnerError, "gradients of a state", name, progress[name], 0, below=2**63)
