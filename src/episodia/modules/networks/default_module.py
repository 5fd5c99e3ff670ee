"""The network of each kind that is made of spaces."""

from __future__ import annotations

import inspect
from typing import Any, Literal, TypeAlias, overload

from gymnasium import Space

from episodia.arguments import check_known, checked_choice
from episodia.errors import ModuleError
from episodia.modules.networks.actor_with_critics import ActorWithCritics
from episodia.modules.networks.default_actor_critic import DefaultActorCritic
from episodia.modules.networks.q_network import QNetwork

DefaultModule: TypeAlias = DefaultActorCritic | QNetwork | ActorWithCritics

KINDS: dict[str, type[DefaultModule]] = {
    "actor_critic": DefaultActorCritic,
    "q": QNetwork,
    "actor_with_critics": ActorWithCritics,
}


# Arguments of all kinds that are not settings.
_NO_SETTINGS = ("observation_space", "action_space", "generator")


def settings_of(kind: str) -> dict[str, Any]:
    """Return the settings of a kind of network, each with its default.

    >>> settings_of("actor_with_critics")
    {'policy': 'stochastic', 'hidden': (64, 64), 'num_critics': 2, 'shared': False}
    """
    made = KINDS[checked_choice(ModuleError, "default_module", "kind", kind, KINDS)]
    parameters = inspect.signature(made).parameters
    return {name: each.default for name, each in parameters.items() if name not in _NO_SETTINGS}


@overload
def default_module(
    observation_space: Space[Any],
    action_space: Space[Any],
    *,
    kind: Literal["actor_critic"] = "actor_critic",
    **settings: Any,
) -> DefaultActorCritic: ...
@overload
def default_module(
    observation_space: Space[Any], action_space: Space[Any], *, kind: Literal["q"], **settings: Any
) -> QNetwork: ...
@overload
def default_module(
    observation_space: Space[Any], action_space: Space[Any], *, kind: Literal["actor_with_critics"], **settings: Any
) -> ActorWithCritics: ...
@overload
def default_module(
    observation_space: Space[Any], action_space: Space[Any], *, kind: str, **settings: Any
) -> DefaultModule: ...


def default_module(
    observation_space: Space[Any], action_space: Space[Any], *, kind: str = "actor_critic", **settings: Any
) -> DefaultModule:
    """Return a network for these spaces.

    Args:
        observation_space: The space of the observations in a batch.
        action_space: The space of the actions.
        kind: `"actor_critic"` for a `DefaultActorCritic`, `"q"` for a `QNetwork`, `"actor_with_critics"` for an
            `ActorWithCritics`.
        **settings: The arguments of that class.

    Raises:
        ModuleError: If there is no network of this kind for the spaces.
        UnknownArgumentError: If the class has no such argument.

    >>> from gymnasium import spaces
    >>> module = default_module(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), hidden=(8,), recurrent="gru", shared=True)
    >>> sorted(name for name, _ in module.named_children())
    ['actor_head', 'critic_head', 'trunk']
    >>> type(default_module(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2), kind="q", dueling=True)).__name__
    'QNetwork'
    """
    made = KINDS[checked_choice(ModuleError, "default_module", "kind", kind, KINDS)]
    known = inspect.signature(made).parameters
    check_known(f"default_module, {made.__name__}", settings, known)
    return made(observation_space, action_space, **settings)
