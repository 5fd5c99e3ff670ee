"""Gradients from several places, with metrics, and their averages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from torch.nn import Parameter

from episodia.arguments import checked_each, is_number
from episodia.errors import LearnerError
from episodia.learners.gradients.backward_pass import BackwardPass, Gradients, flattened
from episodia.learners.update_metrics import Metrics, values_of

# The number of steps behind a set of gradients, for all modules or by module.
Weight: TypeAlias = float | Mapping[str, float]


@final
class MeasuredGradients(dict[str, Tensor]):
    """Gradients by parameter name, with the metrics of their computation.

    Attributes:
        metrics: The loss and the metrics of each module, averages over its steps.

    >>> MeasuredGradients({"w": torch.ones(1)}, {"left": {"loss": 0.5}}).metrics
    {'left': {'loss': 0.5}}
    """

    def __init__(self, gradients: Mapping[str, Tensor], metrics: Metrics) -> None:
        super().__init__(gradients)
        self.metrics = metrics


def measured(computed: BackwardPass, parameters: Mapping[str, Mapping[str, Parameter]]) -> MeasuredGradients:
    """Return gradients and metrics in a form that can be sent.

    The receiver does not see the loss. So if a loss is not finite, all gradients of its module are NaN: otherwise a broken
    module would look like one without anything to learn.
    """
    metrics = {
        module_id: _floats({"loss": loss, **computed.metrics[module_id]}) for module_id, loss in computed.losses.items()
    }
    gradients = {
        module_id: named if _is_finite(metrics[module_id]["loss"]) else _nan_for(parameters[module_id])
        for module_id, named in computed.gradients.items()
    }
    return MeasuredGradients(flattened(gradients), metrics)


def _floats(numbers: Mapping[str, Tensor]) -> dict[str, float]:
    return dict(zip(numbers, values_of(list(numbers.values())), strict=True))


def _is_finite(number: float) -> bool:
    return -torch.inf < number < torch.inf


def _nan_for(parameters: Mapping[str, Parameter]) -> Gradients:
    return {name: torch.full_like(parameter, torch.nan).detach() for name, parameter in parameters.items()}


# --- Received gradients ---------------------------------------------------------------------------------------------


def by_module(
    places: Sequence[Mapping[str, Any]], trained: Mapping[str, Mapping[str, Parameter]]
) -> list[dict[str, Gradients]]:
    """Return received gradients, tensors or arrays by parameter name, as tensors by module and name.

    Args:
        places: Gradients from several places.
        trained: The trained parameters, by module and name.

    Raises:
        LearnerError: If a name is unknown, a shape differs, or a value is not a gradient.
    """
    checked_each(LearnerError, "apply_gradients", "gradients", places, _is_named, "dicts by parameter name")
    return [_of_place(gradients, trained) for gradients in places]


def _is_named(gradients: object) -> bool:
    return isinstance(gradients, Mapping)


def _of_place(gradients: Mapping[str, Any], trained: Mapping[str, Mapping[str, Parameter]]) -> dict[str, Gradients]:
    unknown = sorted(map(str, set(gradients) - set(flattened(trained))))
    if unknown:
        raise LearnerError(
            f"apply_gradients: found gradients of {unknown}, expected names of trained parameters, "
            f"{sorted(flattened(trained))}. Compute them with the same modules and the same config."
        )
    return {
        module_id: {name: _like(parameters[name], name, gradients[name]) for name in parameters if name in gradients}
        for module_id, parameters in trained.items()
    }


def _like(parameter: Tensor, name: str, gradient: Any) -> Tensor:
    """Return a gradient as a tensor with the device and dtype of its parameter."""
    try:
        found = torch.as_tensor(gradient)
        if found.shape == parameter.shape and not found.is_complex():
            return (found.to_dense() if found.is_sparse else found).to(parameter.device, parameter.dtype)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise LearnerError(
            f"apply_gradients: found {type(gradient).__name__} as the gradient of {name!r}, expected a tensor or an array of "
            "numbers. Pass what `compute_gradients` returned."
        ) from error
    raise LearnerError(
        f"apply_gradients: found a gradient of {name!r} with shape {list(found.shape)}, expected that of the parameter, "
        f"{list(parameter.shape)}, and real numbers. Compute it with the same modules."
    )


# --- Averages -------------------------------------------------------------------------------------------------------


def averaged(gradients: Sequence[Mapping[str, Gradients]], weights: Sequence[Weight]) -> dict[str, Gradients]:
    """Return the gradients of all batches together, by module and name.

    Each module is averaged separately, over the places that had steps of it.

    Args:
        gradients: Gradients from several places, by module and name.
        weights: The number of steps behind each of them.

    Raises:
        LearnerError: If there is not one weight for each, if a weight is negative, or if weights by module do not name
            exactly the modules with gradients.

    >>> places = [{"a": {"w": torch.tensor([1.0])}}, {"a": {"w": torch.tensor([4.0])}}]
    >>> averaged(places, weights=[10, 20])
    {'a': {'w': tensor([3.])}}
    """
    _check_weights(gradients, weights)
    found: dict[str, Gradients] = {}
    for module_id in dict.fromkeys(module_id for place in gradients for module_id in place):
        shares = [
            (place[module_id], _weight_of(weight, module_id))
            for place, weight in zip(gradients, weights, strict=True)
            if place.get(module_id)
        ]
        total = sum(weight for _, weight in shares)
        if total > 0.0:
            found[module_id] = _weighted(shares, total)
    return found


def _weighted(shares: Sequence[tuple[Gradients, float]], total: float) -> Gradients:
    result: Gradients = {}
    for name in dict.fromkeys(name for place, _ in shares for name in place):
        parts = [(place[name], weight) for place, weight in shares if name in place and weight > 0.0]
        if parts:
            # In double precision, so that the average of equal parts equals each part.
            whole = torch.stack([part.double() * weight for part, weight in parts]).sum(0) / total
            result[name] = whole.to(parts[0][0].dtype)
    return result


def averaged_metrics(gradients: Sequence[Mapping[str, Any]], weights: Sequence[Weight]) -> Metrics:
    """Return the average metrics of all places, by module; gradients without metrics are left out.

    >>> places = [MeasuredGradients({}, {"left": {"loss": 1.0}}), MeasuredGradients({}, {"left": {"loss": 4.0}}), {}]
    >>> averaged_metrics(places, weights=[10, 20, 30])
    {'left': {'loss': 3.0}}
    """
    shares: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for place, weight in zip(gradients, weights, strict=True):
        metrics = place.metrics if isinstance(place, MeasuredGradients) else {}
        for module_id, numbers in metrics.items():
            for name, number in numbers.items():
                shares.setdefault(module_id, {}).setdefault(name, []).append((number, _weight_of(weight, module_id)))
    return {
        module_id: {name: _mean(found) for name, found in named.items() if any(weight > 0.0 for _, weight in found)}
        for module_id, named in shares.items()
    }


def _mean(shares: Sequence[tuple[float, float]]) -> float:
    # A place without steps does not count.
    counted = [(number, weight) for number, weight in shares if weight > 0.0]
    return sum(number * weight for number, weight in counted) / sum(weight for _, weight in counted)


def _weight_of(weight: Weight, module_id: str) -> float:
    return float(weight.get(module_id, 0.0) if isinstance(weight, Mapping) else weight)


def total_weight(weight: Weight) -> float:
    """Return the weight of a set of gradients for all modules together.

    >>> total_weight({"left": 3, "right": 4})
    7.0
    """
    return float(sum(weight.values()) if isinstance(weight, Mapping) else weight)


def _check_weights(gradients: Sequence[Mapping[str, Gradients]], weights: Sequence[Weight]) -> None:
    given: object = weights
    each = list(given) if isinstance(given, (list, tuple)) else None
    numbers = [
        number for weight in each or () for number in (weight.values() if isinstance(weight, Mapping) else [weight])
    ]
    if (
        each is None
        or len(each) != len(gradients)
        or not all(is_number(number) and 0 <= number < torch.inf for number in numbers)
    ):
        raise LearnerError(
            f"average of gradients: found {len(gradients)} sets of gradients and the weights {weights!r}, expected a weight "
            "from 0 on for each set: the number of steps that it was computed from, or a dict of such numbers by module."
        )
    for place, weight in zip(gradients, each, strict=True):
        if isinstance(weight, Mapping):
            _check_modules(place, weight)
        elif len(several := [module_id for module_id, named in place.items() if named]) > 1:
            raise LearnerError(
                f"average of gradients: found the weight {weight} for the modules {several} together, expected one for each: "
                "they need not have the same number of steps. Pass what `num_steps_of` returns."
            )


def _check_modules(place: Mapping[str, Gradients], weight: Mapping[str, float]) -> None:
    """Check that weights by module name all modules with gradients, and no unknown ones."""
    missing = [module_id for module_id, named in place.items() if named and module_id not in weight]
    unknown = [module_id for module_id in weight if module_id not in place]
    if missing or unknown:
        raise LearnerError(
            f"average of gradients: found the weights {dict(weight)}, which lack {missing} and name {unknown}, which "
            f"are unknown; expected one for each of {[module_id for module_id, named in place.items() if named]}. Pass "
            "what `num_steps_of` returns for the batch that the gradients come from."
        )
