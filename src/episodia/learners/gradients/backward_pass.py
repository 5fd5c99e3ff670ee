"""The backward pass: losses and gradients of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.nn import Parameter

from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.errors import EpisodiaError, LearnerError, NonFiniteError
from episodia.learners.algorithms.algorithm import AlgorithmConfig
from episodia.learners.losses.loss import LossInputs, LossOutputs
from episodia.trees import flat

# By parameter name, without parameters that the loss does not depend on.
Gradients: TypeAlias = dict[str, Tensor]


class Followers(NamedTuple):
    """The trained parameters that follow a loss, by module and name, and whether each of them belongs to one module only."""

    by_module: Mapping[str, Mapping[str, Parameter]]
    are_disjoint: bool

    @classmethod
    def of(cls, by_module: Mapping[str, Mapping[str, Parameter]]) -> Followers:
        """Return these parameters as followers."""
        ids = [id(parameter) for named in by_module.values() for parameter in named.values()]
        return cls(by_module, len(ids) == len(set(ids)))


Named = TypeVar("Named")


class LossHook(Protocol):
    """Sees what a loss takes and returns; `LearnerHook` has more methods."""

    def before_loss(self, module_id: str, inputs: LossInputs) -> LossInputs:
        """Return the inputs that the loss gets."""

    def after_loss(self, module_id: str, outputs: LossOutputs) -> LossOutputs:
        """Return the outputs that count."""


class BackwardPass(NamedTuple):
    """The results of a backward pass, by module: gradients by name, the sum of the losses, metrics, and results of rows.

    If a module's outputs are NaN, its loss is NaN, and it has no gradients.
    """

    gradients: dict[str, Gradients]
    losses: dict[str, Tensor]
    metrics: dict[str, dict[str, Tensor]]
    rows: dict[str, dict[str, Tensor]]


def compute(
    config: AlgorithmConfig, inputs: Mapping[str, LossInputs], followers: Mapping[str, Followers], hook: LossHook
) -> BackwardPass:
    """Return losses, and gradients of all `followers` whose loss is due; the parameters stay unchanged.

    One backward pass serves all modules, unless they share parameters: then each module has its own pass, because its
    gradients may get their own weight later. Each loss has its own pass too, which stops at the parameters that follow it,
    so that no gradient of it reaches others.

    Args:
        config: The algorithm, which has the loss.
        inputs: What the loss of each module works on.
        followers: The trained parameters that follow each loss, by its name.
        hook: May change inputs and outputs of the loss.
    """
    outputs = {
        module_id: _outputs_of(config, module_id, hook.before_loss(module_id, given), followers, hook)
        for module_id, given in inputs.items()
    }
    due = [name for name in followers if any(name in found.losses for found in outputs.values())]
    gradients: dict[str, Gradients] = {module_id: {} for module_id in inputs}
    for name in due:
        (own, are_disjoint), keeps_graph = followers[name], name != due[-1]
        for group in [list(inputs)] if are_disjoint else [[module_id] for module_id in inputs]:
            losses = {key: outputs[key].losses[name] for key in group if name in outputs[key].losses and key in own}
            try:
                for module_id, named in _backward(losses, own, keeps_graph).items():
                    gradients[module_id] |= named
            except EpisodiaError:
                raise
            except Exception as error:  # autograd, and foreign functions in it, raise anything
                raise _not_differentiable(config, group, error) from error
    return BackwardPass(
        gradients,
        {module_id: _total(found.losses) for module_id, found in outputs.items()},
        {module_id: dict(found.metrics) for module_id, found in outputs.items()},
        {module_id: dict(found.rows) for module_id, found in outputs.items()},
    )


def gradients_of(
    losses: Mapping[str, Tensor], parameters: Mapping[str, Mapping[str, Parameter]]
) -> dict[str, Gradients]:
    """Return the gradients of one loss of each module.

    Raises:
        LearnerError: If a loss is not one number that depends on trained weights.
    """
    try:
        checked = {module_id: _without_axes(f"loss of {module_id}", loss) for module_id, loss in losses.items()}
        return _backward(checked, parameters, keeps_graph=False)
    except EpisodiaError:
        raise
    except Exception as error:  # autograd, and foreign functions in it, raise anything
        raise LearnerError(
            f"gradient step: found losses of {list(losses)} that cannot be differentiated ({error}), expected tensors without "
            "axes, computed by torch from weights that require gradients. Compute them again for each step."
        ) from error


def _outputs_of(
    config: AlgorithmConfig, module_id: str, inputs: LossInputs, followers: Mapping[str, Followers], hook: LossHook
) -> LossOutputs:
    """Return the checked outputs of the loss of one module; metrics and rows are detached."""
    try:
        outputs = hook.after_loss(module_id, config.loss(inputs))
        return _checked(outputs, inputs, [name for name, own in followers.items() if module_id in own.by_module])
    except NonFiniteError:
        return LossOutputs({name: torch.tensor(torch.nan) for name in inputs.due})
    except EpisodiaError as error:
        error.add_note(f"in the loss of {module_id!r}")
        raise
    except Exception as error:
        raise _failed(module_id, config, inputs.batch, error) from error


def _total(losses: Mapping[str, Tensor]) -> Tensor:
    first, *others = [loss.detach() for loss in losses.values()]
    return torch.stack([first, *others]).sum() if others else first


def _not_differentiable(config: AlgorithmConfig, module_ids: Sequence[str], error: Exception) -> LearnerError:
    return LearnerError(
        f"gradients of {module_ids}: found a loss of `{type(config).__name__}` that cannot be differentiated "
        f"({type(error).__name__}: {error}), expected one computed by torch from weights that require "
        "gradients. Correct the loss or the module; after `requires_grad_`, make a new learner."
    )


def _failed(module_id: str, config: AlgorithmConfig, columns: Mapping[str, Any], error: Exception) -> LearnerError:
    """Return an error that names the module and its columns, which the messages of torch lack."""
    shapes = {name: describe_column(column) for name, column in columns.items()}
    return LearnerError(
        f"loss of {module_id!r}: found a failure of `{type(config).__name__}.loss` ({type(error).__name__}: {error}) with the "
        f"columns {shapes}, expected `LossOutputs`. Correct the loss, the module or the learner pipeline."
    )


def _checked(found: object, inputs: LossInputs, followed: Sequence[str]) -> LossOutputs:
    """Return the outputs without losses that are not due; `followed` are the losses that the module learns from."""
    if not isinstance(found, LossOutputs):
        raise TypeError(f"it returned {type(found).__name__}, not `LossOutputs`")
    unknown, missing = found.losses.keys() - followed, inputs.due.intersection(followed) - found.losses.keys()
    if unknown or missing or not found.losses:
        raise ValueError(
            f"it returned the losses {sorted(found.losses)}, but the optimizers of this module follow {sorted(followed)}, and "
            f"{sorted(inputs.due)} are due in this step"
        )
    num_rows = len(flat(inputs.batch)[0]) if found.rows else 0
    return LossOutputs(
        {name: _without_axes(name, loss) for name, loss in found.losses.items() if name in inputs.due},
        {name: _without_axes(name, value).detach() for name, value in found.metrics.items()},
        {name: _one_each(name, value, num_rows).detach() for name, value in found.rows.items()},
    )


def _one_each(name: str, numbers: object, num_rows: int) -> Tensor:
    if not isinstance(numbers, Tensor) or numbers.shape != (num_rows,):
        shape = list(numbers.shape) if isinstance(numbers, Tensor) else type(numbers).__name__
        raise ValueError(f"{name!r} is {shape}, not a tensor with one number for each of {num_rows} rows, [{num_rows}]")
    return numbers


def _without_axes(name: str, number: object) -> Tensor:
    if not isinstance(number, Tensor):
        raise TypeError(f"{name!r} is {number!r}, not a tensor")
    if number.dim():
        raise ValueError(f"{name!r} has the shape {list(number.shape)}, not that of one number, []")
    return number


def _backward(
    losses: Mapping[str, Tensor], parameters: Mapping[str, Mapping[str, Parameter]], keeps_graph: bool
) -> dict[str, Gradients]:
    differentiable = {module_id: loss for module_id, loss in losses.items() if loss.requires_grad}
    wanted = [(module_id, name) for module_id in differentiable for name in parameters[module_id]]
    gradients: dict[str, Gradients] = {module_id: {} for module_id in losses}
    if wanted:
        found = torch.autograd.grad(
            torch.stack(list(differentiable.values())).sum()
            if len(differentiable) > 1
            else differentiable[wanted[0][0]],
            [parameters[i][name] for i, name in wanted],
            retain_graph=keeps_graph,
            allow_unused=True,
        )
        # `autograd.grad` leaves `.grad` alone, so that computing gradients changes nothing.
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
