"""From batches to gradients, for learners and gradient functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor

from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.backward_pass import (
    BackwardPass,
    Followers,
    Gradients,
    LossHook,
    compute,
    gradients_of,
)
from episodia.learners.gradients.gradient_averages import MeasuredGradients, measured
from episodia.learners.learner_modules import LearnerModules, NetworkBuffers
from episodia.learners.losses.loss import LossInputs
from episodia.learners.minibatches import check_batch, on_device
from episodia.learners.optimizers import due_losses, names_by_loss
from episodia.learners.target_networks import TargetNetworks
from episodia.types import Batch


@final
class Differentiation:
    """The loss of an algorithm, and its gradients, for some modules.

    Args:
        networks: The modules.
        config: The algorithm.

    Raises:
        LearnerError: If its optimizers do not fit the modules.
    """

    def __init__(self, networks: LearnerModules, config: AlgorithmConfig) -> None:
        self._networks = networks
        self._config = config
        by_loss = names_by_loss(networks.parameters, config.optimizers, networks.ids_in_names)
        self.trained = networks.chosen(frozenset().union(*by_loss.values()))
        self._followers = {loss: Followers.of(networks.chosen(names)) for loss, names in by_loss.items()}
        own = {module_id: networks.torch_modules[module_id] for module_id in self.trained}
        for module_id in own:
            config.check_module(module_id, networks.modules[module_id])
        self.target_networks = TargetNetworks(own, config.target_networks())
        self.buffers = NetworkBuffers(own)

    def learnable(self, batch: Mapping[str, Batch]) -> dict[str, Batch]:
        """Return the batches of the modules that are trained.

        Raises:
            BatchError: If `batch` is not a batch.
            LearnerError: If it has columns of unknown modules only.
        """
        check_batch(batch)
        known = self._networks.modules
        if batch and not any(module_id in known for module_id in batch):
            raise LearnerError(
                f"batch: found columns of {list(batch)}, expected columns of one of the modules {list(known)}. Pass the "
                "modules as a dict with the ids that episodes name."
            )
        return {module_id: columns for module_id, columns in batch.items() if module_id in self.trained}

    @contextmanager
    def learning(self, module_ids: Collection[str], *, noise: int, device: torch.device) -> Iterator[None]:
        """Return a context in which modules learn: in training mode, with gradients, and with separate random numbers.

        Args:
            module_ids: The modules that learn.
            noise: The seed of dropout and other noise; the global generators stay unchanged.
            device: The device of the modules.
        """
        on_cpu = device.type == "cpu"
        with torch.random.fork_rng(devices=[] if on_cpu else [device], device_type="cuda" if on_cpu else device.type):
            # `torch.manual_seed` would also seed devices whose generators are not restored.
            torch.default_generator.manual_seed(noise)
            if not on_cpu:
                getattr(torch, device.type).manual_seed(noise)
            with self._networks.learning(module_ids), torch.enable_grad():
                yield

    def computed(
        self,
        columns: Mapping[str, Batch],
        coefficients: Mapping[str, Mapping[str, float]],
        gradient_steps: int,
        hook: LossHook,
    ) -> BackwardPass:
        """Return losses and gradients for columns on the device, see `compute`; call it in a `learning` context.

        Args:
            columns: The columns of each module.
            coefficients: The coefficients of each module's loss.
            gradient_steps: The number of gradient steps so far, from which follows which losses are due.
            hook: May change inputs and outputs of the loss.
        """
        due = due_losses(self._config.optimizers, gradient_steps)
        inputs = {
            module_id: LossInputs(
                self._networks.modules[module_id],
                own,
                coefficients[module_id],
                self.target_networks.of(module_id),
                due,
            )
            for module_id, own in columns.items()
        }
        return compute(self._config, inputs, self._followers, hook)

    def gradients_of(self, losses: Mapping[str, Tensor]) -> dict[str, Gradients]:
        """Return the gradients of losses, one for each module, of all trained parameters.

        Raises:
            LearnerError: If a module is not trained, or if a loss is not one number that depends on trained weights.
        """
        unknown = [module_id for module_id in losses if module_id not in self.trained]
        if unknown:
            raise LearnerError(
                f"gradient step: found losses of {unknown}, expected losses of some of {list(self.trained)}. Name modules that "
                "are trained."
            )
        return gradients_of(losses, self.trained)

    def measured(
        self,
        batch: Mapping[str, Batch],
        coefficients: Mapping[str, Mapping[str, float]],
        *,
        progress: Mapping[str, int],
        device: torch.device,
        hook: LossHook,
    ) -> MeasuredGradients:
        """Return gradients and metrics; modules stay unchanged, and the same arguments give the same gradients."""
        with self._observing(batch, progress, device) as own:
            return measured(self.computed(own, coefficients, progress["num_gradient_steps"], hook), self.trained)

    def rows(
        self,
        batch: Mapping[str, Batch],
        coefficients: Mapping[str, Mapping[str, float]],
        *,
        progress: Mapping[str, int],
        device: torch.device,
        hook: LossHook,
    ) -> dict[str, dict[str, Tensor]]:
        """Return the loss's results for each row; modules stay unchanged."""
        with self._observing(batch, progress, device) as own:
            return self.computed(own, coefficients, progress["num_gradient_steps"], hook).rows

    @contextmanager
    def _observing(
        self, batch: Mapping[str, Batch], progress: Mapping[str, int], device: torch.device
    ) -> Iterator[dict[str, Batch]]:
        """Return a context with the columns on the device, after which modules are as before."""
        own = {module_id: on_device(columns, device) for module_id, columns in self.learnable(batch).items()}
        kept = self.buffers.kept(own)
        try:
            with self.learning(own, noise=progress["num_updates"], device=device):
                yield own
        finally:
            self.buffers.restore(kept)


def check_can_learn() -> None:
    """Check that torch can compute gradients now.

    Raises:
        LearnerError: In torch's inference mode.
    """
    if torch.is_inference_mode_enabled():
        raise LearnerError(
            "learner: found torch in inference mode, expected a mode with gradients. Call the learner outside of "
            "`torch.inference_mode()`."
        )
