"""Processors of gradients: functions between the backward pass and the optimizers.

A processor takes the gradients of all modules, `{module_id: list of tensors}`, and returns new ones in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from torch import Tensor

from episodia.errors import LearnerError
from episodia.learners.losses.coefficients import check_positive
from episodia.learners.update_metrics import values_of

ModuleGradients: TypeAlias = dict[str, list[Tensor]]
GradientProcessor: TypeAlias = Callable[[ModuleGradients], ModuleGradients]

# Prevents a division by 0; a gradient that small is not clipped anyway.
_TINY = 1e-6


@final
@dataclass(frozen=True)
class ClipByValue:
    """Clips each number of a gradient to `[-limit, limit]`.

    >>> ClipByValue(1.0)({"a": [torch.tensor([0.5, -3.0])]})
    {'a': [tensor([ 0.5000, -1.0000])]}
    """

    limit: float

    def __post_init__(self) -> None:
        check_positive("ClipByValue", "limit", self.limit)

    def __call__(self, gradients: ModuleGradients) -> ModuleGradients:
        """Return clipped gradients."""
        return {
            module_id: [tensor.clamp(-float(self.limit), float(self.limit)) for tensor in tensors]
            for module_id, tensors in gradients.items()
        }


@final
@dataclass(frozen=True)
class ClipByNorm:
    """Scales the gradients of each module down until their common norm is at most `limit`.

    >>> ClipByNorm(1.0)({"a": [torch.tensor([3.0]), torch.tensor([4.0])], "b": [torch.tensor([0.5])]})
    {'a': [tensor([0.6000]), tensor([0.8000])], 'b': [tensor([0.5000])]}
    """

    limit: float

    def __post_init__(self) -> None:
        check_positive("ClipByNorm", "limit", self.limit)

    def __call__(self, gradients: ModuleGradients) -> ModuleGradients:
        """Return clipped gradients."""
        return self.clipped(gradients, norms_of(gradients))

    def clipped(self, gradients: ModuleGradients, norms: Mapping[str, float]) -> ModuleGradients:
        """Return clipped gradients of known `norms`, by module."""
        return {
            module_id: _scaled_down(tensors, norms[module_id], float(self.limit))
            for module_id, tensors in gradients.items()
        }


@final
@dataclass(frozen=True)
class ClipByGlobalNorm:
    """Scales the gradients of all modules down by one factor, until their common norm is at most `limit`.

    >>> ClipByGlobalNorm(1.0)({"a": [torch.tensor([3.0])], "b": [torch.tensor([4.0])]})
    {'a': [tensor([0.6000])], 'b': [tensor([0.8000])]}
    """

    limit: float

    def __post_init__(self) -> None:
        check_positive("ClipByGlobalNorm", "limit", self.limit)

    def __call__(self, gradients: ModuleGradients) -> ModuleGradients:
        """Return clipped gradients."""
        return self.clipped(gradients, norms_of(gradients))

    def clipped(self, gradients: ModuleGradients, norms: Mapping[str, float]) -> ModuleGradients:
        """Return clipped gradients of known `norms`, by module."""
        listed = [tensor for tensors in gradients.values() for tensor in tensors]
        clipped = iter(_scaled_down(listed, math.hypot(*norms.values()), float(self.limit)))
        return {module_id: [next(clipped) for _ in tensors] for module_id, tensors in gradients.items()}


def norms_of(gradients: Mapping[str, Sequence[Tensor]]) -> dict[str, float]:
    """Return the Euclidean norm of the gradients of each module, as one vector.

    >>> norms_of({"left": [torch.tensor([3.0]), torch.tensor([4.0])], "right": []})
    {'left': 5.0, 'right': 0.0}
    """
    return measured_norms({}, gradients)[1]


def measured_norms(
    numbers: Mapping[str, Tensor], gradients: Mapping[str, Sequence[Tensor]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the values of tensors without axes, and the norms of `gradients`, see `norms_of`; all are read at once."""
    # torch's own clipping uses the same function; there is no public one for a list in the oldest torch that we support.
    parts = {key: torch._foreach_norm(list(tensors)) if tensors else () for key, tensors in gradients.items()}
    values = iter(values_of([*numbers.values(), *(part for found in parts.values() for part in found)]))
    read = {key: next(values) for key in numbers}
    return read, {key: math.hypot(*(next(values) for _ in found)) for key, found in parts.items()}


def _scaled_down(gradients: list[Tensor], norm: float, limit: float) -> list[Tensor]:
    factor = limit / (norm + _TINY)
    return list(torch._foreach_mul(gradients, factor)) if gradients and not factor >= 1.0 else gradients


def keep_finite(processors: Sequence[GradientProcessor]) -> bool:
    """Tell whether all processors keep finite gradients finite: the shipped ones do, others may not.

    >>> keep_finite([ClipByNorm(1.0)]), keep_finite([lambda gradients: gradients])
    (True, False)
    """
    return all(isinstance(processor, (ClipByValue, ClipByNorm, ClipByGlobalNorm)) for processor in processors)


def processed(
    processors: Sequence[GradientProcessor], gradients: ModuleGradients, norms: Mapping[str, float] | None = None
) -> ModuleGradients:
    """Return `gradients` after all `processors`, one after another.

    Args:
        processors: The processors.
        gradients: The gradients.
        norms: The norms of `gradients` if they are known, so that the first processor need not compute them.

    Raises:
        LearnerError: If a processor fails, or returns tensors of other forms.

    >>> processed([ClipByValue(1.0), ClipByValue(0.5)], {"a": [torch.tensor([-3.0])]})
    {'a': [tensor([-0.5000])]}
    """
    for processor in processors:
        if norms is not None and isinstance(processor, (ClipByNorm, ClipByGlobalNorm)):
            gradients = processor.clipped(gradients, norms)
        else:
            gradients = _processed(processor, gradients)
        norms = None
    return gradients


def _processed(processor: GradientProcessor, gradients: ModuleGradients) -> ModuleGradients:
    problem: str | Exception = "it returned another structure, or tensors of another shape, dtype or device"
    try:
        found = processor(gradients)
        if _forms(found) == _forms(gradients):
            return found
    except Exception as error:  # noqa: BLE001  # foreign functions raise anything; it is reported below
        problem = error
    raise LearnerError(
        f"gradient processor {processor!r}: found a failure ({problem}), expected a dict with the gradients of each "
        "module, as many tensors of the same forms. Correct it, or use another one, such as `ClipByNorm(1.0)`."
    ) from (problem if isinstance(problem, Exception) else None)


def _forms(gradients: ModuleGradients) -> dict[str, list[tuple[torch.Size, torch.dtype, torch.device]]]:
    return {
        module_id: [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        for module_id, tensors in gradients.items()
    }
