"""Gradients: computed for a batch, averaged over several, put where optimizers look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

from episodia.arguments import checked_each, is_number
from episodia.connectors.batches.describing import describe_column
from episodia.errors import EpisodiaError, LearnerError, NonFiniteError
from episodia.learners.algorithm import AlgorithmConfig

# By parameter name; parameters that a loss does not depend on are left out.
Gradients: TypeAlias = dict[str, Tensor]
# How much a set of gradients counts: for all modules alike, or for each; the number of steps it was computed from.
Weight: TypeAlias = float | Mapping[str, float]

Named = TypeVar("Named")


class Computed(NamedTuple):
    """What a backward pass gave, by module: gradients by name, the loss, and metrics. A loss that is NaN has no gradients."""

    gradients: dict[str, Gradients]
    losses: dict[str, Tensor]
    metrics: dict[str, dict[str, Tensor]]


def compute(
    modules: Mapping[str, Any],
    parameters: Mapping[str, Mapping[str, Parameter]],
    config: AlgorithmConfig,
    batch: Mapping[str, dict[str, Any]],
    coefficients: Mapping[str, Mapping[str, float]],
) -> Computed:
    """Return losses, and gradients of all `parameters`; nothing is changed.

    One backward pass serves all modules, unless they share parameters: then each has its own, since its steps may have to
    be weighted on their own later.

    Args:
        modules: The modules, by id.
        parameters: What is trained of each module, by name.
        config: Whose loss it is.
        batch: The columns of each module that learns.
        coefficients: The numbers in the loss of each module.
    """
    losses: dict[str, Tensor] = {}
    metrics: dict[str, dict[str, Tensor]] = {}
    for module_id, columns in batch.items():
        try:
            loss, found = config.loss(modules[module_id], columns, coefficients[module_id])
            losses[module_id], metrics[module_id] = loss, {key: value.detach() for key, value in found.items()}
        except NonFiniteError:
            losses[module_id], metrics[module_id] = torch.tensor(torch.nan), {}
        except EpisodiaError:
            raise
        except Exception as error:
            raise _failed(module_id, config, columns, error) from error
    together = [list(batch)] if _are_disjoint(parameters) else [[module_id] for module_id in batch]
    gradients: dict[str, Gradients] = {}
    for group in together:
        gradients |= _backward({module_id: losses[module_id] for module_id in group}, parameters)
    return Computed(gradients, {key: loss.detach() for key, loss in losses.items()}, metrics)


def _failed(module_id: str, config: AlgorithmConfig, columns: Mapping[str, Any], error: Exception) -> LearnerError:
    """Return an error with what the message of a network or of torch lacks: whose loss it was, and of what."""
    shapes = {name: describe_column(column) for name, column in columns.items()}
    return LearnerError(
        f"loss of {module_id!r}: found that `{type(config).__name__}.loss` failed ({type(error).__name__}: {error}) with the "
        f"columns {shapes}, expected a loss and a dict of metrics. Correct the loss, the module or the learner pipeline."
    )


def _backward(losses: Mapping[str, Tensor], parameters: Mapping[str, Mapping[str, Parameter]]) -> dict[str, Gradients]:
    differentiable = {module_id: loss for module_id, loss in losses.items() if loss.requires_grad}
    wanted = [(module_id, name) for module_id in differentiable for name in parameters[module_id]]
    if not wanted:
        return {module_id: {} for module_id in losses}
    total = (
        torch.stack(list(differentiable.values())).sum()
        if len(differentiable) > 1
        else next(iter(differentiable.values()))
    )
    # Without touching `.grad`, so that computing gradients changes nothing.
    found = torch.autograd.grad(total, [parameters[i][name] for i, name in wanted], allow_unused=True)
    gradients: dict[str, Gradients] = {module_id: {} for module_id in losses}
    for (module_id, name), gradient in zip(wanted, found, strict=True):
        if gradient is not None:
            # One number that stands for many, as autograd gives it for sums, is no memory that optimizers can work with.
            gradients[module_id][name] = gradient.contiguous()
    return gradients


def _are_disjoint(parameters: Mapping[str, Mapping[str, Parameter]]) -> bool:
    ids = [id(parameter) for named in parameters.values() for parameter in named.values()]
    return len(ids) == len(set(ids))


def by_module(
    places: Sequence[Mapping[str, Any]], trained: Mapping[str, Mapping[str, Parameter]]
) -> list[dict[str, Gradients]]:
    """Return gradients that come by parameter name, as tensors or arrays, by module and name, each beside its parameter.

    Args:
        places: Gradients from several places.
        trained: The parameters that can have some, by module and name.

    Raises:
        LearnerError: If a name is unknown, a shape is another one, or something is no gradient.
    """
    checked_each(LearnerError, "apply_gradients", "gradients", places, _is_named, "dicts by parameter name")
    return [_of_place(gradients, trained) for gradients in places]


def _is_named(gradients: object) -> bool:
    return isinstance(gradients, Mapping)


def _of_place(gradients: Mapping[str, Any], trained: Mapping[str, Mapping[str, Parameter]]) -> dict[str, Gradients]:
    unknown = sorted(map(str, set(gradients) - set(flattened(trained))))
    if unknown:
        raise LearnerError(
            f"apply_gradients: found gradients of {unknown}, expected names of parameters that are trained here, "
            f"{sorted(flattened(trained))}. Compute them with the same modules and the same config."
        )
    return {
        module_id: {name: _like(parameters[name], name, gradients[name]) for name in parameters if name in gradients}
        for module_id, parameters in trained.items()
    }


def _like(parameter: Tensor, name: str, gradient: Any) -> Tensor:
    """Return a gradient as a tensor beside its parameter."""
    try:
        found = torch.as_tensor(gradient)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LearnerError(
            f"apply_gradients: found {type(gradient).__name__} as the gradient of {name!r}, expected a tensor or an array of "
            "numbers. Pass what `compute_gradients` returned."
        ) from error
    if found.shape != parameter.shape:
        raise LearnerError(
            f"apply_gradients: found a gradient of {name!r} with shape {list(found.shape)}, expected that of the parameter, "
            f"{list(parameter.shape)}. Compute it with the same modules."
        )
    return found.to(parameter.device, parameter.dtype)


def averaged(gradients: Sequence[Mapping[str, Gradients]], weights: Sequence[Weight]) -> dict[str, Gradients]:
    """Return what one computation over all batches together would have given, by module and name.

    Each module is averaged on its own, over those places that had steps of it.

    Args:
        gradients: From several places, by module and name.
        weights: How many steps each of them was computed from.

    Raises:
        LearnerError: If there is not one weight for each, or if a weight is negative.

    >>> places = [{"a": {"w": torch.tensor([1.0])}}, {"a": {"w": torch.tensor([4.0])}}]
    >>> averaged(places, weights=[10, 20])
    {'a': {'w': tensor([3.])}}
    """
    _check_weights(len(gradients), weights)
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
            # In double precision, so that equal parts give exactly what each of them is.
            whole = torch.stack([part.double() * weight for part, weight in parts]).sum(0) / total
            result[name] = whole.to(parts[0][0].dtype)
    return result


def _weight_of(weight: Weight, module_id: str) -> float:
    return float(weight.get(module_id, 0.0) if isinstance(weight, Mapping) else weight)


def total_weight(weight: Weight) -> float:
    """Return how much a set of gradients counts for all modules together.

    >>> total_weight({"left": 3, "right": 4})
    7.0
    """
    return float(sum(weight.values()) if isinstance(weight, Mapping) else weight)


def _check_weights(count: int, weights: Sequence[Weight]) -> None:
    given: object = weights
    each = list(given) if isinstance(given, (list, tuple)) else None
    numbers = [
        number for weight in each or () for number in (weight.values() if isinstance(weight, Mapping) else [weight])
    ]
    if (
        each is None
        or len(each) != count
        or not all(is_number(number) and 0 <= number < torch.inf for number in numbers)
    ):
        raise LearnerError(
            f"average of gradients: found {count} sets of gradients and the weights {weights!r}, expected a weight from 0 "
            "on for each set: the number of steps that it was computed from, or a dict of such numbers by module."
        )


def flattened(by_module: Mapping[str, Mapping[str, Named]]) -> dict[str, Named]:
    """Return what is kept by module and name under the name alone; names of different modules differ.

    >>> flattened({"left": {"left.w": 1}, "right": {"right.w": 2}})
    {'left.w': 1, 'right.w': 2}
    """
    return {name: value for named in by_module.values() for name, value in named.items()}


def merged(
    gradients: Mapping[str, Gradients], parameters: Mapping[str, Parameter]
) -> dict[str, list[tuple[Parameter, Tensor]]]:
    """Return each parameter with its whole gradient, by module; what modules share belongs to the first of them."""
    places: dict[int, tuple[str, int]] = {}
    result: dict[str, list[tuple[Parameter, Tensor]]] = {module_id: [] for module_id in gradients}
    for module_id, named in gradients.items():
        for name, gradient in named.items():
            parameter = parameters[name]
            first, index = places.setdefault(id(parameter), (module_id, len(result[module_id])))
            if index == len(result[first]):
                result[first].append((parameter, gradient))
            else:
                result[first][index] = (parameter, result[first][index][1] + gradient)
    return result
