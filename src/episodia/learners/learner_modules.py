"""The modules of a learner: names of their parameters, weights, and buffers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from episodia.columns import DEFAULT_MODULE_ID
from episodia.errors import LearnerError
from episodia.modules import Module, MultiModule
from episodia.modules.modes import mode


@final
class LearnerModules:
    """The modules of a learner, and the names of their parameters.

    A parameter has its name in the module, `actor.tower.0.weight`; in a dict of modules the module's id comes first,
    `left.actor.tower.0.weight`. A shared parameter has a name in each of its modules.

    Args:
        modules: One module, or modules by their ids.

    Raises:
        ModuleError: If an object is not a module.
        LearnerError: If parameters of two modules could have the same name.

    >>> from gymnasium import spaces
    >>> from episodia.modules import MLPActorCritic
    >>> walker = MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), hidden=())
    >>> list(LearnerModules(walker).parameters)
    ['actor_head.weight', 'actor_head.bias', 'critic_head.weight', 'critic_head.bias']
    >>> list(LearnerModules({"left": walker}).parameters)[0]
    'left.actor_head.weight'
    """

    def __init__(self, modules: Module | Mapping[str, Module]) -> None:
        self.is_single = not _is_mapping(modules)
        given: Any = {DEFAULT_MODULE_ID: modules} if self.is_single else modules
        given = dict(given.items()) if isinstance(given, nn.ModuleDict) else given
        # A `MultiModule` names its frozen members.
        self.modules = given if isinstance(given, MultiModule) else MultiModule(given)
        _check_ids(list(self.modules))

    @property
    def rl_module(self) -> Module | MultiModule:
        """The argument `rl_module` of pipelines: the only module, or all modules."""
        return self.modules[DEFAULT_MODULE_ID] if self.is_single else self.modules

    @property
    def torch_modules(self) -> dict[str, nn.Module]:
        """The modules that can have weights, by id."""
        return {module_id: module for module_id, module in self.modules.items() if isinstance(module, nn.Module)}

    @property
    def is_stateful(self) -> bool:
        """Whether one of the modules is recurrent."""
        return any(module.is_stateful() for module in self.modules.values())

    @property
    def parameters(self) -> dict[str, Parameter]:
        """All parameters that require gradients, by name, without those of frozen modules."""
        return {
            self.name(module_id, name): parameter
            for module_id, module in self.torch_modules.items()
            if module_id not in self.modules.frozen
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }

    @property
    def ids_in_names(self) -> tuple[str, ...]:
        """The ids that names of parameters begin with; empty for a single module."""
        return () if self.is_single else tuple(self.modules)

    def chosen(self, names: Collection[str]) -> dict[str, dict[str, Parameter]]:
        """Return the parameters with these names, by module; modules without such parameters are left out."""
        found: dict[str, dict[str, Parameter]] = {}
        for module_id, module in self.torch_modules.items():
            full = {self.name(module_id, name): parameter for name, parameter in module.named_parameters()}
            found[module_id] = {name: parameter for name, parameter in full.items() if name in names}
        return {module_id: parameters for module_id, parameters in found.items() if parameters}

    def learning(self, module_ids: Iterable[str]) -> AbstractContextManager[None]:
        """Return a context in which these modules are in training mode; all others stay as they are."""
        return mode([self.modules[module_id] for module_id in module_ids], training=True)

    def name(self, module_id: str, parameter_name: str) -> str:
        """Return the full name of a module's parameter."""
        return parameter_name if self.is_single else f"{module_id}.{parameter_name}"

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Return copies of all weights (and buffers) on the CPU, by module and name."""
        return {
            module_id: {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}
            for module_id, module in self.torch_modules.items()
        }

    def check_weights(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Check that `weights` fit the modules.

        Raises:
            LearnerError: If modules, names or shapes differ.
        """
        own = {module_id: _shapes(module.state_dict()) for module_id, module in self.torch_modules.items()}
        given = {module_id: _shapes(values) for module_id, values in weights.items()}
        if given == own:
            return
        for module_id in {*own, *given}:
            ours, theirs = own.get(module_id, {}), given.get(module_id, {})
            odd = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
            if odd or (module_id in own) != (module_id in given):
                raise LearnerError(
                    f"weights of {module_id!r}: found {[(name, theirs.get(name)) for name in odd[:3]]}, expected "
                    f"{[(name, ours.get(name)) for name in odd[:3]]} (names and shapes). Load weights of the same modules."
                )

    def set_weights(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Copy these weights into all modules, see `check_weights`."""
        self.check_weights(weights)
        for module_id, module in self.torch_modules.items():
            module.load_state_dict(dict(weights[module_id]))


def _check_ids(module_ids: list[str]) -> None:
    """Check that no id is a prefix of another one up to a dot: their parameters could have the same names."""
    for short in module_ids:
        longer = [module_id for module_id in module_ids if module_id.startswith(f"{short}.")]
        if longer:
            raise LearnerError(
                f"learner: found the module ids {short!r} and {longer[0]!r}, expected ids that do not begin with "
                f"another id and a dot: `{longer[0]}.weight` could belong to either. Write "
                f"{longer[0].replace('.', '_')!r}."
            )


def _shapes(weights: Mapping[str, Any]) -> dict[str, tuple[int, ...] | None]:
    # None never equals the shape of a weight.
    return {name: tuple(value.shape) if isinstance(value, Tensor) else None for name, value in weights.items()}


def _is_mapping(modules: object) -> bool:
    # `nn.ModuleDict` is not a `Mapping`.
    return isinstance(modules, (Mapping, nn.ModuleDict))


# Copies of buffers, by module.
_Kept: TypeAlias = dict[str, list[Tensor]]


@final
class NetworkBuffers:
    """The buffers of some modules that belong to their states. Forward passes write into them, even if the loss fails.

    Args:
        modules: The modules, by id.

    >>> buffers = NetworkBuffers({"net": nn.Sequential(nn.BatchNorm1d(2)), "plain": nn.Linear(2, 2)})
    >>> {module_id: len(copies) for module_id, copies in buffers.kept(["net", "plain"]).items()}
    {'net': 3}
    """

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self._modules = {module_id: module for module_id, module in modules.items() if _buffers(module)}

    def kept(self, module_ids: Collection[str]) -> _Kept:
        """Return copies of the buffers of these modules; modules without buffers are left out."""
        return {
            module_id: [buffer.clone() for buffer in _buffers(module)]
            for module_id, module in self._modules.items()
            if module_id in module_ids
        }

    def of(self, module_ids: Iterable[str]) -> _Kept:
        """Return the buffers of these modules themselves."""
        return {key: _buffers(self._modules[key]) for key in module_ids}

    def restore(self, kept: _Kept, module_ids: Iterable[str] | None = None) -> None:
        """Copy `kept` back into the buffers of these modules, or of all."""
        for module_id in kept if module_ids is None else [each for each in module_ids if each in kept]:
            with torch.no_grad():
                for buffer, copied in zip(_buffers(self._modules[module_id]), kept[module_id], strict=True):
                    buffer.copy_(copied)


def _buffers(module: nn.Module) -> list[Tensor]:
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    state = module.state_dict(keep_vars=True)
    return [value for name, value in state.items() if name not in parameters and isinstance(value, Tensor)]
