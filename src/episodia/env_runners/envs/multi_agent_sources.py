"""Where multi-agent environments come from, and what is known of their agents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, final

from gymnasium import Space, spaces

from episodia.env_runners.envs.pettingzoo_envs import from_pettingzoo
from episodia.errors import EpisodeError
from episodia.trees import describe

SpacesOfAgents: TypeAlias = dict[Any, Space[Any]] | None

_NEEDED = ("reset", "step", "get_observation_space", "get_action_space")


@final
class EnvSource:
    """Makes environments: as many as are wanted from a callable, the one that there is from a ready one.

    Args:
        env: A callable that returns a `MultiAgentEnv`, one of PettingZoo's environments, or anything with the methods of a
            `MultiAgentEnv`; or a ready one.
        remote: Puts an environment, given what makes it, into a process of its own; None to have it in this one.

    Raises:
        EpisodeError: If `env` is none of these.
    """

    def __init__(self, env: Any, remote: Callable[[Callable[[], Any]], Any] | None = None) -> None:
        ready = _as_env(env)
        if ready is None and not callable(env):
            raise _no_env(env)
        self._ready = ready
        self._remote = remote
        self._make: Callable[[], Any] | None = None if ready is not None else env

    @property
    def can_remake(self) -> bool:
        """Whether there can be more than one environment."""
        return self._make is not None

    def make(self) -> Any:
        """Return a new environment, or the ready one."""
        if self._make is None:
            return self._ready
        make = partial(_made, self._make)
        return make() if self._remote is None else self._remote(make)


def _made(make: Callable[[], Any]) -> Any:
    made = make()
    env = _as_env(made)
    if env is None:
        raise _no_env(made)
    return env


def _as_env(env: Any) -> Any:
    if isinstance(env, type):
        return None
    found = from_pettingzoo(env)
    if found is not None:
        return found
    return env if all(callable(getattr(env, name, None)) for name in _NEEDED) else None


def _no_env(found: Any) -> EpisodeError:
    return EpisodeError(
        f"found {describe(found)} as a multi-agent environment, expected a `MultiAgentEnv`, a parallel or turn-based "
        f"environment of PettingZoo, something with the methods {list(_NEEDED)}, or a callable that returns one of these. "
        "Derive your environment from `MultiAgentEnv`."
    )


def spaces_of(env: Any) -> tuple[SpacesOfAgents, SpacesOfAgents]:
    """Return the spaces of all possible agents' observations and actions; None if the agents are not known."""
    agents = list(getattr(env, "possible_agents", None) or ())
    if not agents:
        return None, None
    return {agent: env.get_observation_space(agent) for agent in agents}, {
        agent: env.get_action_space(agent) for agent in agents
    }


def joint(by_agent: SpacesOfAgents) -> Space[Any] | None:
    """Return the spaces of all agents as one, as pipelines take them."""
    return None if by_agent is None else spaces.Dict(by_agent)
