"""Module classes by name: only shipped, registered and announced classes are loaded from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import torch
from gymnasium import Space
from torch import Tensor, nn

from episodia.arguments import checked_registered_name
from episodia.class_registry import ClassRegistry
from episodia.errors import ModuleError
from episodia.modules.network_sizes import check_network_fits
from episodia.modules.networks.actor_with_critics import ActorWithCritics
from episodia.modules.networks.default_actor_critic import DefaultActorCritic, LSTMActorCritic, MLPActorCritic
from episodia.modules.networks.q_network import QNetwork
from episodia.modules.protocol import Module
from episodia.modules.rules import RandomModule

_ModuleClass = TypeVar("_ModuleClass", bound=type)


@runtime_checkable
class _Configured(Protocol):
    def get_config(self) -> dict[str, Any]: ...


@runtime_checkable
class _Remembering(Protocol):
    def get_state(self) -> dict[str, Any]: ...


@runtime_checkable
class _Restorable(Protocol):
    def set_state(self, state: dict[str, Any]) -> None: ...


# Their constructors read no values, so that they also work on the meta device.
_NETWORKS = (ActorWithCritics, DefaultActorCritic, LSTMActorCritic, MLPActorCritic, QNetwork)
_SHIPPED: dict[str, type] = {made.__name__: made for made in (*_NETWORKS, RandomModule)}


def _is_configured(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, _Configured)


#: All module classes by name.
MODULES: Final[ClassRegistry[type]] = ClassRegistry(
    "episodia.modules",
    "module",
    "a class with a method `get_config`",
    fits=_is_configured,
    shipped=lambda: _SHIPPED,
    error=ModuleError,
)


def register_module(name: str) -> Callable[[_ModuleClass], _ModuleClass]:
    """Return a class decorator that registers the class, so that its modules can be saved and loaded.

    The class takes `observation_space`, `action_space`, and the JSON values that `get_config()` returns, as keywords.
    A `torch.nn.Module` keeps its weights; other modules may have `get_state()` and `set_state(state)`.

    Args:
        name: The unique name under which the class is saved; it must never change.

    Raises:
        ModuleError: If the name is not a string, or is taken by another class; if the decorated object is not a class, or has
            no `get_config`.

    >>> from episodia.modules import Rule
    >>> @register_module("my_game.Patient")
    ... class Patient(Rule):
    ...     def act(self, batch):
    ...         return [0] * len(batch["obs"])
    ...
    ...     def get_config(self):
    ...         return {}
    >>> module_name(Patient())
    'my_game.Patient'
    """
    checked_registered_name(ModuleError, "register_module", name)

    def registered(made: _ModuleClass) -> _ModuleClass:
        given: object = made
        if not isinstance(given, type):
            raise ModuleError(f"register_module: found {given!r}, expected a class. Decorate the class of the module.")
        if not _is_configured(made):
            raise ModuleError(
                f"register_module: found {made.__name__} without a method `get_config`, expected one that returns the "
                "arguments of the class beside its spaces, as JSON values. Add it."
            )
        MODULES.register("register_module", name, made)
        return made

    return registered


def module_name(module: Module) -> str:
    """Return the name under which the class of `module` is registered.

    Raises:
        ModuleError: If it is not.
    """
    found = MODULES.name_of(type(module))
    if found is None:
        raise ModuleError(
            f"found a module of the class {type(module).__name__}, which is not registered, expected a class with a name that "
            "files can hold. Decorate it with `register_module(name)`, or let its package announce it as an entry point of "
            f"{MODULES.group!r}; write a class instead of a function, see `Rule`."
        )
    return found


def make_module(
    name: object,
    observation_space: Space[Any] | None,
    action_space: Space[Any] | None,
    config: Mapping[str, Any],
    state: Mapping[str, Any],
) -> Module:
    """Return a module of the class that is registered as `name`, with this config and this state, see `module_state`.

    Raises:
        ModuleError: If the class is not registered, or if the state does not fit.
    """
    made: Any = MODULES.find(name) if isinstance(name, str) else None
    if made is None:
        raise ModuleError(
            f"found a module of the class {repr(name)[:80]}, expected a registered one. Install the package that announces "
            "it, or import the module that registers it with `register_module` first."
        )
    if made in _NETWORKS:
        # A small file can ask for any amount of memory, so its sizes must first fit the weights that it holds.
        check_network_fits(config, state)
        with torch.device("meta"):
            _check_fits(made(observation_space, action_space, **config), state)
    module: Any = made(observation_space, action_space, **config)
    if isinstance(module, nn.Module):
        _check_fits(module, state)
        dtypes = {value.dtype for value in state.values() if value.is_floating_point()}
        if len(dtypes) == 1:
            # Features compute in the dtype of the weights, and learn of it through `to`.
            module.to(dtypes.pop())
        # Assigned instead of copied, because parts of a network may differ in their dtypes.
        module.load_state_dict(_weights(module, state), assign=True)
    elif state:
        module.set_state(dict(state))
    finished: Module = module
    return finished


def module_config(module: Module) -> dict[str, Any]:
    """Return the arguments of a module other than its spaces: its `get_config()`.

    Raises:
        ModuleError: If that is not a dict.
    """
    return _returned(module, "get_config", module.get_config() if isinstance(module, _Configured) else None)


def module_state(module: Module) -> dict[str, Any]:
    """Return the state of a module: the weights of a `torch.nn.Module`, or its `get_state()`.

    Raises:
        ModuleError: If that is not a dict, or if the module has no `set_state`.
    """
    if isinstance(module, nn.Module):
        return {key: _own(value) for key, value in module.state_dict().items()}
    state = _returned(module, "get_state", module.get_state()) if isinstance(module, _Remembering) else {}
    if state and not isinstance(module, _Restorable):
        raise ModuleError(
            f"{type(module).__name__}: found a method `get_state` without `set_state`, expected both. Add `set_state`, "
            "which takes the result of `get_state`."
        )
    return state


def _returned(module: Module, method: str, found: object) -> dict[str, Any]:
    if not isinstance(found, Mapping):
        raise ModuleError(
            f"{type(module).__name__}.{method}: found {repr(found)[:80]}, expected a dict. Return a dict, which may be "
            "empty."
        )
    return dict(found)


def _own(value: Any) -> Any:
    # A copy is aligned in memory; results of other tensors may differ in their last bits.
    return value.detach().clone() if isinstance(value, Tensor) else value


def _weights(module: nn.Module, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of the values in `state`; all names of a shared weight of `module` get the same copy."""
    there = module.state_dict(keep_vars=True)
    names = {id(weight): name for name, weight in there.items() if isinstance(weight, Tensor)}
    copies = {name: _own(state[name]) for name in there}
    for name, weight in there.items():
        if isinstance(weight, nn.Parameter):
            # torch would otherwise make a parameter for each name.
            copies[name] = nn.Parameter(copies[name], weight.requires_grad)
    return {name: copies[names.get(id(weight), name)] for name, weight in there.items()}


def _check_fits(module: nn.Module, state: Mapping[str, Any]) -> None:
    own, found = ({key: _shape(value) for key, value in values.items()} for values in (module.state_dict(), state))
    odd = sorted(key for key in {*own, *found} if own.get(key) != found.get(key))
    if odd:
        raise ModuleError(
            f"weights of {type(module).__name__}: found {[(key, found.get(key)) for key in odd[:3]]}, expected "
            f"{[(key, own.get(key)) for key in odd[:3]]} (names and shapes). Load weights of the same module."
        )


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, Tensor) else None
