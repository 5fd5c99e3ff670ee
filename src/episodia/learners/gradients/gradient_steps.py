"""From gradients to other weights: what is not finite is left out, the rest is processed, and optimizers take a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

from torch import Tensor
from torch.nn import Parameter

from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.gradients.computed_gradients import Gradients, flattened, merged
from episodia.learners.gradients.finiteness import non_finite_error, not_finite
from episodia.learners.gradients.gradient_processing import keep_finite, norm_of, processed
from episodia.learners.optimizers import Optimizers


class Taken(NamedTuple):
    """What became of a gradient step: the norm of the gradients of each module that was not skipped, before processing."""

    norms: dict[str, Tensor]
    num_skipped: int
    has_stepped: bool


@final
class GradientSteps:
    """Takes gradient steps with the optimizers of a learner.

    Args:
        optimizers: The optimizers.
        trained: The parameters that are trained, by module and name.
        config: Which processors there are, and what happens to numbers that are not finite.
    """

    def __init__(
        self, optimizers: Optimizers, trained: Mapping[str, Mapping[str, Parameter]], config: AlgorithmConfig
    ) -> None:
        self._optimizers = optimizers
        self._parameters = flattened(trained)
        self._processors = config.gradient_processors
        self._raises = config.on_non_finite == "raise"

    def take(self, gradients: Mapping[str, Gradients], losses: Mapping[str, Tensor]) -> Taken:
        """Take a gradient step with those modules whose losses and gradients are finite.

        Raises:
            NonFiniteError: If some are not, and the config says that this is an error.
            LearnerError: If a processor or an optimizer fails.
        """
        norms = {module_id: norm_of(list(named.values())) for module_id, named in gradients.items()}
        bad = not_finite(losses, norms)
        usable = {module_id: named for module_id, named in gradients.items() if named and module_id not in bad}
        pairs = merged(usable, self._parameters)
        raw = {module_id: [gradient for _, gradient in found] for module_id, found in pairs.items()}
        final_ones = processed(self._processors, raw) if raw else {}
        if not keep_finite(self._processors):
            bad |= not_finite({}, {module_id: norm_of(found) for module_id, found in final_ones.items()})
        if bad and self._raises:
            raise non_finite_error(bad)
        has_stepped = self._step({key: found for key, found in pairs.items() if key not in bad}, final_ones)
        return Taken({key: norm for key, norm in norms.items() if key not in bad}, len(bad), has_stepped)

    def _step(
        self, pairs: Mapping[str, Sequence[tuple[Parameter, Tensor]]], gradients: Mapping[str, Sequence[Tensor]]
    ) -> bool:
        # What a loss, a processor or somebody else has left there is no gradient of this step.
        self._optimizers.forget_gradients()
        for module_id, found in pairs.items():
            for (parameter, _), gradient in zip(found, gradients[module_id], strict=True):
                parameter.grad = gradient
        if pairs:
            self._optimizers.step()
        return bool(pairs)
