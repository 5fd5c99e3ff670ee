"""Gradient steps: non-finite gradients are skipped, the others are processed and applied by the optimizers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, final

from torch import Tensor
from torch.nn import Parameter

from episodia.errors import NonFiniteError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.backward_pass import Gradients, flattened, merged
from episodia.learners.gradients.gradient_processing import keep_finite, measured_norms, norms_of, processed
from episodia.learners.optimizers import Optimizers


class Taken(NamedTuple):
    """The result of a gradient step: losses and gradient norms, before processing, of the modules that were not skipped."""

    losses: dict[str, float]
    norms: dict[str, float]
    num_skipped: int
    has_stepped: bool


@final
class GradientSteps:
    """Takes gradient steps with the optimizers of a learner.

    Args:
        optimizers: The optimizers.
        trained: The trained parameters, by module and name.
        config: The algorithm: its processors, and how it treats non-finite numbers.
    """

    def __init__(
        self, optimizers: Optimizers, trained: Mapping[str, Mapping[str, Parameter]], config: AlgorithmConfig
    ) -> None:
        self._optimizers = optimizers
        self._parameters = flattened(trained)
        self._processors = config.gradient_processors
        self._raises = config.on_non_finite == "raise"

    def take(self, gradients: Mapping[str, Gradients], losses: Mapping[str, Tensor]) -> Taken:
        """Take a gradient step with the modules whose losses and gradients are finite.

        Raises:
            NonFiniteError: If some are not finite, and `on_non_finite` is `"raise"`.
            LearnerError: If a processor or an optimizer fails.
        """
        read, norms = measured_norms(losses, {key: list(named.values()) for key, named in gradients.items()})
        bad = not_finite(read, norms)
        usable = {module_id: named for module_id, named in gradients.items() if named and module_id not in bad}
        pairs = merged(usable, self._parameters)
        raw = {module_id: [gradient for _, gradient in found] for module_id, found in pairs.items()}
        # Parameters that modules share have the sum of their gradients, and another norm.
        is_shared = any(len(found) < len(usable[module_id]) for module_id, found in raw.items())
        known = None if is_shared else {module_id: norms[module_id] for module_id in raw}
        final_ones = processed(self._processors, raw, known) if raw else {}
        if not keep_finite(self._processors):
            bad |= not_finite({}, norms_of(final_ones))
        if bad and self._raises:
            raise _non_finite_error(bad)
        has_stepped = self._step({key: found for key, found in pairs.items() if key not in bad}, final_ones)
        return Taken(_without(bad, read), _without(bad, norms), len(bad), has_stepped)

    def _step(
        self, pairs: Mapping[str, Sequence[tuple[Parameter, Tensor]]], gradients: Mapping[str, Sequence[Tensor]]
    ) -> bool:
        # Clear gradients that a loss, a processor or other code has left.
        self._optimizers.forget_gradients()
        for module_id, found in pairs.items():
            for (parameter, _), gradient in zip(found, gradients[module_id], strict=True):
                parameter.grad = gradient
        if pairs:
            self._optimizers.step()
        return bool(pairs)


def not_finite(losses: Mapping[str, float], norms: Mapping[str, float]) -> dict[str, str]:
    """Return a description of each module's loss or gradient norm that is not finite.

    >>> not_finite({"left": 1.0}, {"left": 2.0, "right": float("inf")})
    {'right': 'gradients of norm inf'}
    """
    bad = {module_id: f"a loss of {loss}" for module_id, loss in losses.items() if not math.isfinite(loss)}
    for module_id, norm in norms.items():
        if not math.isfinite(norm):
            bad.setdefault(module_id, f"gradients of norm {norm}")
    return bad


def _without(module_ids: Collection[str], numbers: Mapping[str, float]) -> dict[str, float]:
    return {module_id: number for module_id, number in numbers.items() if module_id not in module_ids}


def _non_finite_error(bad: Mapping[str, str]) -> NonFiniteError:
    """Return the error for these modules and descriptions."""
    found = ", ".join(f"{what} for {module_id!r}" for module_id, what in bad.items())
    return NonFiniteError(
        f"gradient step: found {found}, expected finite numbers. The weights are unchanged by this step. Look for NaN "
        'or huge numbers in observations and rewards, lower the learning rate, clip gradients, or pass `on_non_finite="skip"`.'
    )
