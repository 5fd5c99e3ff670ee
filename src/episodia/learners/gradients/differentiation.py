"""From batches to gradients, for learners and gradient functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch

from episodia.errors import LearnerError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.backward_pass import BackwardPass, compute
from episodia.learners.gradients.gradient_averages import MeasuredGradients, measured
from episodia.learners.learner_modules import LearnerModules, NetworkBuffers
from episodia.learners.minibatches import check_batch, on_device
from episodia.learners.optimizers import trained_names
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
        self.trained = networks.chosen(trained_names(networks.parameters, config.optimizers))
        self.buffers = NetworkBuffers({module_id: networks.torch_modules[module_id] for module_id in self.trained})

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

    def computed(self, columns: Mapping[str, Batch], coefficients: Mapping[str, Mapping[str, float]]) -> BackwardPass:
        """Return losses and gradients for columns on the device, see `compute`; call it in a `learning` context."""
        return compute(self._networks.modules, self.trained, self._config, columns, coefficients)

    def measured(
        self,
        batch: Mapping[str, Batch],
        coefficients: Mapping[str, Mapping[str, float]],
        *,
        noise: int,
        device: torch.device,
    ) -> MeasuredGradients:
        """Return gradients and metrics; modules stay unchanged, and the same arguments give the same gradients."""
        own = {module_id: on_device(columns, device) for module_id, columns in self.learnable(batch).items()}
        kept = self.buffers.kept(own)
        try:
            with self.learning(own, noise=noise, device=device):
                return measured(self.computed(own, coefficients), self.trained)
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
