"""Optimizers: one for each component, with its own class, learning rate and schedule. Components without one are frozen."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast, final

import torch
from torch.nn import Parameter
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from episodia.arguments import checked_whole, names_nearest_argument
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.errors import LearnerError
from episodia.learners.losses.coefficients import check_within
from episodia.learners.losses.loss import LOSS
from episodia.schedules import Schedule, as_schedule
from episodia.trees import map_batch, shown

# One kernel for each parameter instead of a dozen: several times faster for small networks, on the CPU too.
_FUSED = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)


@names_nearest_argument
@final
@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """An optimizer for some components.

    Args:
        components: Beginnings of parameter names, up to a dot: `"actor"` means `actor.tower.0.weight`, not `actor_head.weight`.
            Names begin with the module's id if a learner has several modules; a beginning without an id means that component
            of every module. None means everything. Weights that several
            modules share learn from all of these, under any of their names, except from frozen modules.
        optimizer: A class of `torch.optim`, or any function of the parameters and `lr=` that returns such an optimizer.
        learning_rate: A number, or a schedule over the steps trained on; None takes the algorithm's.
        loss: The name of the loss that these components learn from; gradients of other losses never reach them.
        every: The number of gradient steps between two steps of this optimizer. Optimizers of one loss have the same number.
        options: Further arguments of the optimizer.

    Raises:
        LearnerError: If the learning rate is negative, or if `components` is empty.

    >>> OptimizerConfig(components=("actor", "actor_head"), learning_rate=1e-3).options
    {}
    """

    components: tuple[str, ...] | None = None
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    learning_rate: float | Schedule | None = None
    loss: str = LOSS
    every: int = 1
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_within("OptimizerConfig", "learning_rate", self.learning_rate, 0.0, may_change=True)
        checked_whole(LearnerError, "OptimizerConfig", "every", self.every, 1)
        if not isinstance(cast("object", self.loss), str):
            raise LearnerError(
                f"OptimizerConfig: found `loss={shown(self.loss)}`, expected the name of a loss that the algorithm returns. "
                "Pass a string."
            )
        if self.components is not None and not are_names(self.components):
            raise LearnerError(
                f"OptimizerConfig: found `components={shown(self.components)}`, expected a tuple of names such as "
                "`('actor',)`, or None for everything. Put a comma behind a single name."
            )
        options, optimizer = cast("object", self.options), cast("object", self.optimizer)
        if not isinstance(options, Mapping) or not callable(optimizer):
            raise LearnerError(
                f"OptimizerConfig: found `optimizer={shown(optimizer)}` and `options={shown(options)}`, expected a class of "
                "`torch.optim` and a dict of its arguments. Pass these."
            )
        # A copy, so that changes of the caller's dict do not change the config.
        object.__setattr__(self, "options", dict(options))


def are_names(components: object) -> bool:
    """Tell whether `components` is a tuple of at least one name."""
    return isinstance(components, tuple) and len(components) > 0 and all(isinstance(each, str) for each in components)


@final
class Optimizers:
    """The optimizers of a learner.

    Args:
        parameters: All parameters that could be trained, by name; a shared one may have several names.
        configs: One config per optimizer.
        learning_rate: The learning rate of configs without their own.
        module_ids: The modules whose ids the names begin with; empty for a single module, whose names have no id.

    Raises:
        LearnerError: If a component is not the beginning of any name, or if two optimizers claim one parameter.

    >>> weights = {"actor.w": Parameter(torch.zeros(2)), "critic.w": Parameter(torch.zeros(2))}
    >>> Optimizers(weights, [OptimizerConfig(components=("actor",))], 0.1).trained
    frozenset({'actor.w'})
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        configs: Sequence[OptimizerConfig],
        learning_rate: float | Schedule,
        module_ids: Collection[str] = (),
    ) -> None:
        self._names = _claimed(parameters, configs, module_ids)
        self._rates = [
            as_schedule(learning_rate if config.learning_rate is None else config.learning_rate) for config in configs
        ]
        self._optimizers = [
            _made(config, [parameters[name] for name in _without_aliases(names, parameters)], rate.at(0))
            for config, names, rate in zip(configs, self._names, self._rates, strict=True)
        ]
        self._parameters = parameters
        self._configs = configs
        self.set_learning_rates(0)

    @property
    def trained(self) -> frozenset[str]:
        """The names of the parameters that an optimizer trains."""
        return frozenset(name for names in self._names for name in names)

    @property
    def learning_rates(self) -> list[float]:
        """The learning rate of each optimizer."""
        return [float(optimizer.param_groups[0]["lr"]) for optimizer in self._optimizers]

    def set_learning_rates(self, t: int) -> None:
        """Set the learning rates to those of step `t`."""
        for optimizer, rate in zip(self._optimizers, self._rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate.at(t)

    def step(self) -> None:
        """Change all parameters that have a gradient, and clear the gradients.

        Raises:
            LearnerError: If an optimizer fails.
        """
        try:
            for optimizer in self._optimizers:
                direct = _DIRECT_STEPS.get(type(optimizer))
                if direct is None or optimizer.defaults["differentiable"] or _has_hooks(optimizer):
                    optimizer.step()
                else:
                    direct(optimizer)
        except Exception as error:  # foreign optimizers raise anything
            raise LearnerError(
                f"gradient step: found that {type(optimizer).__name__} failed ({error}), expected that it changes its "
                "parameters. Choose another optimizer; the weights may be half changed."
            ) from error
        finally:
            self.forget_gradients()

    def forget_gradients(self) -> None:
        """Clear `.grad`, so that gradients left by other code are not applied."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None

    # --- State ------------------------------------------------------------------------------------------------------

    def get_state(self) -> list[dict[str, Any]]:
        """Return for each optimizer its class and what it remembers of each parameter, by name, as tensors and numbers."""
        return [
            {"class": type(optimizer).__name__, "parameters": self._memory(position)}
            for position, optimizer in enumerate(self._optimizers)
        ]

    def check_state(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Check that `state` fits these optimizers.

        Raises:
            LearnerError: If classes, names of parameters, or shapes of memories differ.
        """
        expected = [type(optimizer).__name__ for optimizer in self._optimizers]
        if [part["class"] for part in state] != expected:
            raise LearnerError(
                f"state of optimizers: found {[part['class'] for part in state]}, expected {expected}. Load the state of a "
                "learner with the same optimizers."
            )
        for config, part, names in zip(self._configs, state, self._names, strict=True):
            own = _without_aliases(names, self._parameters)
            unknown = [name for name in part["parameters"] if name not in own]
            if unknown:
                raise LearnerError(
                    f"state of optimizers: found memories of {unknown}, expected only some of {own}. Load the state of a "
                    "learner with the same modules and optimizers."
                )
            usual = _usual_shapes(partial(_made, config, learning_rate=1e-3), [self._parameters[name] for name in own])
            for name, memory in part["parameters"].items():
                _check_memory(name, memory, usual[own.index(name)])

    def set_state(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Continue from `state`, see `check_state`."""
        self.check_state(state)
        for position, (optimizer, part) in enumerate(zip(self._optimizers, state, strict=True)):
            own = _without_aliases(self._names[position], self._parameters)
            # Copies, because torch adopts fitting tensors and then writes into them.
            memories = {
                own.index(name): map_batch(_copied, dict(memory)) for name, memory in part["parameters"].items()
            }
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": memories, "param_groups": groups})

    def _memory(self, position: int) -> dict[str, Any]:
        own = _without_aliases(self._names[position], self._parameters)
        found = self._optimizers[position].state_dict()["state"]
        return {own[index]: map_batch(_copied, memory) for index, memory in found.items()}


def names_by_loss(
    parameters: Mapping[str, Parameter], configs: Sequence[OptimizerConfig], module_ids: Collection[str] = ()
) -> dict[str, frozenset[str]]:
    """Return the names of the parameters that learn from each loss, in the order of `configs`.

    Raises:
        LearnerError: See `Optimizers`.
    """
    found: dict[str, frozenset[str]] = {}
    for config, names in zip(configs, _claimed(parameters, configs, module_ids), strict=True):
        found[config.loss] = found.get(config.loss, frozenset()) | frozenset(names)
    return found


def due_losses(configs: Sequence[OptimizerConfig], num_gradient_steps: int) -> frozenset[str]:
    """Return the losses that an optimizer follows in the next gradient step, after `num_gradient_steps`.

    >>> configs = [OptimizerConfig(loss="critic"), OptimizerConfig(loss="actor", every=2)]
    >>> [sorted(due_losses(configs, step)) for step in range(3)]
    [['actor', 'critic'], ['critic'], ['actor', 'critic']]
    """
    return frozenset(config.loss for config in configs if num_gradient_steps % config.every == 0)


def _claimed(
    parameters: Mapping[str, Parameter], configs: Sequence[OptimizerConfig], module_ids: Collection[str]
) -> list[list[str]]:
    """Return the names of the parameters of each optimizer."""
    if not configs:
        raise LearnerError("optimizers: found no optimizer, expected at least one. Add an `OptimizerConfig()`.")
    _check_cadences(configs)
    claims: list[list[str]] = []
    owners: dict[int, int] = {}
    for position, config in enumerate(configs):
        matching = {id(parameters[name]) for name in _matching(list(parameters), config.components, module_ids)}
        # A shared parameter has a name in each of its modules, and learns under all of these names.
        names = [name for name, parameter in parameters.items() if id(parameter) in matching]
        for name in names:
            owner = owners.setdefault(id(parameters[name]), position)
            if owner != position:
                raise LearnerError(
                    f"optimizer {position}: found the parameter {name!r}, which optimizer {owner} trains already; "
                    "expected one optimizer for each parameter. Correct the `components` so that they do not overlap."
                )
        claims.append(names)
    return claims


def _check_cadences(configs: Sequence[OptimizerConfig]) -> None:
    cadences: dict[str, int] = {}
    for config in configs:
        if cadences.setdefault(config.loss, config.every) != config.every:
            raise LearnerError(
                f"optimizers: found `every={config.every}` and `every={cadences[config.loss]}` for the loss {config.loss!r}, "
                "expected one number for each loss. Give all optimizers of a loss the same `every`."
            )


def _matching(names: list[str], components: tuple[str, ...] | None, module_ids: Collection[str]) -> list[str]:
    if components is None:
        return names
    for component in components:
        if not any(_is_in(name, component, module_ids) for name in names):
            known = sorted({name.rsplit(".", 1)[0] for name in names})
            raise LearnerError(
                f"optimizers: found the component {component!r} without parameters, expected one of {known}, or a "
                "beginning of these up to a dot. Correct its name."
            )
    return [name for name in names if any(_is_in(name, component, module_ids) for component in components)]


def _is_in(name: str, component: str, module_ids: Collection[str]) -> bool:
    beginnings = [component, *(f"{module_id}.{component}" for module_id in module_ids)]
    return any(name == beginning or name.startswith(f"{beginning}.") for beginning in beginnings)


def _without_aliases(names: Sequence[str], parameters: Mapping[str, Parameter]) -> list[str]:
    """Return one name for each parameter: the first."""
    firsts: dict[int, str] = {}
    for name in names:
        firsts.setdefault(id(parameters[name]), name)
    return list(firsts.values())


def _made(config: OptimizerConfig, parameters: list[Parameter], learning_rate: float) -> torch.optim.Optimizer:
    options = dict(config.options)
    if config.optimizer in _FUSED and not {"fused", "foreach", "differentiable"} & options.keys():
        options["fused"] = all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)
    if not parameters:
        raise LearnerError(
            "optimizers: found no parameters to train, expected some. Give the learner a `torch.nn.Module` with weights."
        )
    try:
        made: object = config.optimizer(parameters, lr=learning_rate, **options)
    except Exception as error:  # foreign constructors raise anything
        raise LearnerError(
            f"optimizers: found {config.optimizer!r} with the options {options}, which raise an error ({error}), expected a "
            "class of `torch.optim` and its arguments. Correct the options."
        ) from error
    if not isinstance(made, torch.optim.Optimizer):
        raise LearnerError(
            f"optimizers: found {config.optimizer!r}, which returns {made!r}, expected an optimizer of `torch.optim`. Pass its "
            "class, or a function that returns one."
        )
    closure = inspect.signature(made.step).parameters.get("closure")
    if isinstance(made, torch.optim.SparseAdam) or (closure and closure.default is inspect.Parameter.empty):
        raise LearnerError(
            f"optimizers: found {type(made).__name__}, which needs more than gradients, expected one for dense gradients. "
            "Choose Adam, for example."
        )
    return made


# The steps of torch's optimizers without what is around them: torch calls hooks, and marks steps for its profiler and compiler,
# which takes longer than the step of a small network.
_DIRECT_STEPS: dict[type, Callable[[torch.optim.Optimizer], object]] = {
    kind: torch.no_grad()(inspect.unwrap(kind.step)) for kind in _FUSED
}


def _has_hooks(optimizer: torch.optim.Optimizer) -> bool:
    # torch has no public method for this question.
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


# By name; the shape of a number is ().
Shapes: TypeAlias = dict[str, tuple[int, ...]]


def _usual_shapes(
    make: Callable[[list[Parameter]], torch.optim.Optimizer], parameters: Sequence[Parameter]
) -> list[Shapes]:
    """Return the shapes of an optimizer's memory of each parameter after one step, by the optimizer's own names.

    Only the optimizer itself knows them, so an equal one takes a step with copies of the parameters. If that fails, because
    it needs more than gradients, no shapes are expected.

    >>> sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.0, momentum=0.9)
    >>> _usual_shapes(sgd, [Parameter(torch.zeros(3, 2))])
    [{'momentum_buffer': (3, 2)}]
    """
    copies = [Parameter(torch.zeros_like(parameter)) for parameter in parameters]
    for copied in copies:
        copied.grad = torch.zeros_like(copied)
    try:
        optimizer = make(copies)
        optimizer.step()
    except Exception:  # noqa: BLE001  # foreign optimizers raise anything
        return [{} for _ in parameters]
    found = optimizer.state_dict()["state"]
    return [_shapes(found.get(index, {})) for index in range(len(copies))]


def _shapes(memory: Mapping[str, Any]) -> Shapes:
    # A value that is None after one step may be a tensor later.
    return {name: shape for name, value in memory.items() if (shape := _shape(value)) is not None}


def _shape(value: object) -> tuple[int, ...] | None:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return () if isinstance(value, (int, float)) else None


def _check_memory(name: str, memory: object, usual: Shapes) -> None:
    """Check that `memory` can be an optimizer's memory of the parameter `name`.

    Raises:
        LearnerError: If an entry is missing, has another shape, or is neither a number nor a tensor.

    >>> _check_memory("w", {"momentum_buffer": torch.zeros(3, 2)}, {"momentum_buffer": (3, 2)})
    """
    if (
        isinstance(memory, Mapping)
        and all(value is None or _shape(value) is not None for value in memory.values())
        and all(key in memory and _shape(memory[key]) == shape for key, shape in usual.items())
    ):
        return
    raise LearnerError(
        f"state of optimizers: found {describe_column(memory)} as the memory of {name!r}, expected a dict of numbers and "
        f"tensors, with {usual} (names and shapes) among them. Load what `get_state` returned."
    )
