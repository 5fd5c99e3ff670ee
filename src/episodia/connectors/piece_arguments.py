"""Constructor arguments of pieces: those that a class accepts, and those that a piece was created with."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch

from episodia.arguments import check_known

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2

# RLlib's own pipelines pass these to their pieces. A piece that does not name them ignores them: here one piece serves
# runners and learners, one and several agents, and gets the modules when it is called.
_RLLIB_ARGUMENTS: Final = frozenset({"as_learner_connector", "multi_agent", "rl_module_specs"})
# Arguments that every piece has; they are not settings.
_COMMON: Final = frozenset({"input_observation_space", "input_action_space", "name"})
_NAMED: Final = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def constructor_of(cls: type) -> inspect.Signature:
    """Return the signature of the constructor of `cls`, without `self`."""
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]  # of this class, not of its subclasses
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def setting_names(cls: type) -> list[str]:
    """Return the names of the constructor arguments of `cls`, without those that every piece has."""
    return [name for name in _named(cls) if name not in _COMMON]


def checked_keywords(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords to pass to the constructor of `cls`: `given` without the arguments that only RLlib's pieces know.

    Raises:
        UnknownArgumentError: If the constructor has no `**kwargs`, and `given` has an argument that it does not name.
    """
    if _takes_any(cls):
        return dict(given)
    known = _named(cls)
    check_known(cls.__name__, given.keys() - _RLLIB_ARGUMENTS, known)
    return {name: value for name, value in given.items() if name in known}


def check_left_over(cls: type, given: Collection[str]) -> None:
    """Check the keywords that have reached the base class from the constructors of `cls`.

    A constructor may pass its own arguments on, as RLlib's examples do. So all arguments that any constructor of the class
    names are accepted.

    Raises:
        UnknownArgumentError: If `given` has an argument that no constructor names.
    """
    known = {name for base in cls.__mro__ if "__init__" in vars(base) for name in _named(base)}
    check_known(cls.__name__, set(given) - _RLLIB_ARGUMENTS, sorted(known))


def settings_of(piece: ConnectorV2) -> dict[str, str]:
    """Return the arguments that rebuild `piece`, as source code, without arguments that have their default value.

    The value of an argument is read from the attribute of the same name. Arguments without such an attribute are left out,
    and so are the spaces, which a pipeline sets.
    """
    settings: dict[str, str] = {}
    for base in type(piece).__mro__:
        if "__init__" in vars(base):
            for name, parameter in _named(base).items():
                value = getattr(piece, name, parameter.default)
                # Compared as text, because `==` of arrays returns an array.
                if name not in _COMMON and _text(value) != _text(parameter.default):
                    settings.setdefault(name, _text(value))
            if not _takes_any(base):
                break
    return settings


def _text(value: object) -> str:
    if isinstance(value, torch.device):
        return repr(str(value))
    if isinstance(value, (set, frozenset)):
        return repr(sorted(value, key=str))
    if isinstance(value, Mapping):
        return repr(dict(value))
    return value.__qualname__ if isinstance(value, (type, FunctionType)) else repr(value)


def _named(cls: type) -> dict[str, inspect.Parameter]:
    parameters = constructor_of(cls).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind in _NAMED}


def _takes_any(cls: type) -> bool:
    kinds = [parameter.kind for parameter in constructor_of(cls).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds
