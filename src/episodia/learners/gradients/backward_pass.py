"""The backward pass: losses and gradients of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.errors import EpisodiaError, LearnerError, NonFiniteError
from episodia.learners.algorithms.algorithm import AlgorithmConfig

# By parameter name, without parameters that the loss does not depend on.
Gradients: TypeAlias = dict[str, Tensor]

Named = TypeVar("Named")


class BackwardPass(NamedTuple):
    """The results of a backward pass, by module: gradients by name, the loss, and metrics.

    If a module's outputs are NaN, its loss is NaN, and it has no gradients.
    """

    gradients: dict[str, Gradients]
    losses: dict[str, Tensor]
    metrics: dict[str, dict[str, Tensor]]


def compute(
    modules: Mapping[str, Any],
    parameters: Mapping[str, Mapping[str, Parameter]],
    config: AlgorithmConfig,
    batch: Mapping[str, dict[str, Any]],
    coefficients: Mapping[str, Mapping[str, float]],
) -> BackwardPass:
    """Return losses, and gradients of all `parameters`, which stay unchanged.

    One backward pass serves all modules, unless they share parameters: then each module has its own pass, because its
    gradients may get their own weight later.

    Args:
        modules: The modules, by id.
        parameters: The trained parameters of each module, by name.
        config: The algorithm, which has the loss.
        batch: The columns of each module that learns.
        coefficients: The numbers in the loss of each module.
    """
    losses: dict[str, Tensor] = {}
    metrics: dict[str, dict[str, Tensor]] = {}
    for module_id, columns in batch.items():
        try:
            loss, found = _pair(config.loss(modules[module_id], columns, coefficients[module_id]))
            losses[module_id] = _without_axes("loss", loss)
            metrics[module_id] = {key: _without_axes(key, value).detach() for key, value in found.items()}
        except NonFiniteError:
            losses[module_id], metrics[module_id] = torch.tensor(torch.nan), {}
        except EpisodiaError as error:
            error.add_note(f"in the loss of {module_id!r}")
            raise
        except Exception as error:
            raise _failed(module_id, config, columns, error) from error
    together = [list(batch)] if _are_disjoint(parameters) else [[module_id] for module_id in batch]
    gradients: dict[str, Gradients] = {}
    for group in together:
        try:
            gradients |= _backward({module_id: losses[module_id] for module_id in group}, parameters)
        except EpisodiaError:
            raise
        except Exception as error:  # autograd, and foreign functions in it, raise anything
            raise LearnerError(
                f"gradients of {group}: found a loss of `{type(config).__name__}` that cannot be differentiated "
                f"({type(error).__name__}: {error}), expected one computed by torch from weights that require "
                "gradients. Correct the loss or the module; after `requires_grad_`, make a new learner."
            ) from error
    return BackwardPass(gradients, {key: loss.detach() for key, loss in losses.items()}, metrics)


def _failed(module_id: str, config: AlgorithmConfig, columns: Mapping[str, Any], error: Exception) -> LearnerError:
    """Return an error that names the module and its columns, which the messages of torch lack."""
    shapes = {name: describe_column(column) for name, column in columns.items()}
    return LearnerError(
        f"loss of {module_id!r}: found a failure of `{type(config).__name__}.loss` ({type(error).__name__}: {error}) with the "
        f"columns {shapes}, expected a loss and a dict of metrics. Correct the loss, the module or the learner pipeline."
    )


def _pair(found: object) -> tuple[Any, Mapping[str, Any]]:
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping):
        return found
    raise TypeError(f"it returned {type(found).__name__}, not a loss and a dict of metrics")


def _without_axes(name: str, number: object) -> Tensor:
    if not isinstance(number, Tensor):
        raise TypeError(f"{name!r} is {number!r}, not a tensor")
    if number.dim():
        raise ValueError(f"{name!r} has the shape {list(number.shape)}, not that of one number, []")
    return number


def _backward(losses: Mapping[str, Tensor], parameters: Mapping[str, Mapping[str, Parameter]]) -> dict[str, Gradients]:
    differentiable = {module_id: loss for module_id, loss in losses.items() if loss.requires_grad}
    wanted = [(module_id, name) for module_id in differentiable for name in parameters[module_id]]
    if not wanted:
        nothing: dict[str, Gradients] = {module_id: {} for module_id in losses}
        _check_learned(losses, nothing)
        return nothing
    total = (
        torch.stack(list(differentiable.values())).sum()
        if len(differentiable) > 1
        else next(iter(differentiable.values()))
    )
    # `autograd.grad` leaves `.grad` alone, so that computing gradients changes nothing.
    found = torch.autograd.grad(total, [parameters[i][name] for i, name in wanted], allow_unused=True)
    gradients: dict[str, Gradients] = {module_id: {} for module_id in losses}
    for (module_id, name), gradient in zip(wanted, found, strict=True):
        if gradient is not None:
            # Autograd expands one number for sums; optimizers need an element for each weight.
            dense = gradient.to_dense() if gradient.is_sparse else gradient
            gradients[module_id][name] = dense.contiguous()
    _check_learned(losses, gradients)
    return gradients


def _check_learned(losses: Mapping[str, Tensor], gradients: Mapping[str, Gradients]) -> None:
    """Check that losses depend on weights: learning from any other loss would have no effect.

    A loss of 0 is accepted: these steps may hold nothing to learn from.
    """
    without = [module_id for module_id in losses if not gradients[module_id]]
    idle = [module_id for module_id in without if bool(losses[module_id].isfinite()) and bool(losses[module_id] != 0)]
    if idle:
        raise LearnerError(
            f"loss: found losses of {idle} that do not depend on any trained weight, expected that they do. Do not "
            "detach the tensors of a loss, and give the components that it depends on an optimizer."
        )


def _are_disjoint(parameters: Mapping[str, Mapping[str, Parameter]]) -> bool:
    ids = [id(parameter) for named in parameters.values() for parameter in named.values()]
    return len(ids) == len(set(ids))


def flattened(by_module: Mapping[str, Mapping[str, Named]]) -> dict[str, Named]:
    """Return values by name alone instead of by module and name; names of different modules differ.

    >>> flattened({"left": {"left.w": 1}, "right": {"right.w": 2}})
    {'left.w': 1, 'right.w': 2}
    """
    return {name: value for named in by_module.values() for name, value in named.items()}


def merged(
    gradients: Mapping[str, Gradients], parameters: Mapping[str, Parameter]
) -> dict[str, list[tuple[Parameter, Tensor]]]:
    """Return each parameter with its whole gradient, by module; a shared parameter belongs to its first module."""
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
