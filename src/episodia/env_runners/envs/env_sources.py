"""Sources of environments: they make vector environments and multi-agent environments, once and again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import gymnasium as gym
from gymnasium import Space, spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from episodia.env_runners.envs.async_lanes import AsyncLanes
from episodia.env_runners.envs.env_crashes import CheckedEnv, GuardedEnv
from episodia.env_runners.envs.pettingzoo_envs import from_pettingzoo
from episodia.env_runners.envs.sync_lanes import Make, SyncLanes
from episodia.env_runners.runner_settings import RunnerSettings, check_whole
from episodia.errors import EnvRunnerError, EpisodeError
from episodia.trees import describe

AnyEnv: TypeAlias = (
    str | EnvSpec | Callable[[], gym.Env[Any, Any] | VectorEnv[Any, Any, Any]] | VectorEnv[Any, Any, Any]
)

_VECTORIZATIONS = ("sync", "async", "vector_entry_point")


@final
@dataclass(frozen=True)
class VectorEnvSource:
    """How a runner's environments are made, the first time and whenever they have to be made anew.

    Args:
        env: A gymnasium id, an `EnvSpec`, a function that makes an environment or a vector environment, or a vector
            environment that is ready.
        num_envs: How many lanes to make; a vector environment has as many as it has.
        settings: How they are played.
    """

    env: AnyEnv
    num_envs: int | None
    settings: RunnerSettings

    def __post_init__(self) -> None:
        vectorization = self.settings.vectorization
        if vectorization not in _VECTORIZATIONS:
            raise EnvRunnerError(f"found `vectorization={vectorization!r}`, expected one of {_VECTORIZATIONS}.")
        if not isinstance(self.env, (str, EnvSpec, VectorEnv)) and not callable(self.env):
            raise EnvRunnerError(
                f"found {type(self.env).__name__} as the environment, expected a gymnasium id, an EnvSpec, a function that "
                "makes one, or a VectorEnv. Of a ready environment, pass the function that made it."
            )
        check_whole(1, or_none=True, num_envs=self.num_envs)

    @property
    def is_renewable(self) -> bool:
        """Whether the environment can be made more than once."""
        return not isinstance(self.env, VectorEnv)

    def limits_itself(self, env: VectorEnv[Any, Any, Any]) -> bool:
        """Tell whether `env`, which `build` returned, keeps to the horizon."""
        return isinstance(env, (SyncLanes, AsyncLanes)) or isinstance(self.env, (str, EnvSpec))

    def build(self) -> VectorEnv[Any, Any, Any]:
        """Return a new vector environment; the ready one, if that is what was given."""
        if isinstance(self.env, VectorEnv):
            self._check_size(self.env)
            return self.env
        if isinstance(self.env, (str, EnvSpec)):
            return self._registered(self.env)
        made = self.env()
        if isinstance(made, VectorEnv):
            self._check_size(made)
            return made
        if not isinstance(made, gym.Env):
            raise EnvRunnerError(
                f"found {type(made).__name__} from the function that makes the environment, expected a gymnasium.Env or a "
                "VectorEnv. Wrap it into one."
            )
        return self._lanes(_FirstOf(made, self.env))

    def _registered(self, env: str | EnvSpec) -> VectorEnv[Any, Any, Any]:
        try:
            if self.settings.vectorization == "vector_entry_point":
                return self._own_form(env)
            return self._lanes(partial(gym.make, env))
        except (gym.error.Error, ImportError) as error:
            raise EnvRunnerError(
                f"found {env!r} as the environment, which gymnasium cannot make ({' '.join(str(error).split())}); expected the "
                "id of one that is registered and installed. Correct it, or pass a function that makes the environment."
            ) from error

    def _check_size(self, env: VectorEnv[Any, Any, Any]) -> None:
        if self.num_envs is not None and self.num_envs != env.num_envs:
            raise EnvRunnerError(
                f"found `num_envs={self.num_envs}` and a vector environment of {env.num_envs}, expected one number. Leave "
                "`num_envs` out."
            )

    def _own_form(self, env: str | EnvSpec) -> VectorEnv[Any, Any, Any]:
        horizon = self.settings.horizon
        limit: dict[str, Any] = {} if horizon is None else {"max_episode_steps": int(horizon)}
        return gym.make_vec(env, num_envs=self.num_envs or 1, vectorization_mode="vector_entry_point", **limit)

    def _lanes(self, make: Make) -> VectorEnv[Any, Any, Any]:
        settings, lanes = self.settings, range(self.num_envs or 1)
        limited = partial(_limited, make, settings.horizon)
        if settings.vectorization == "sync":
            return SyncLanes([partial(GuardedEnv, limited, lane, settings.max_restarts) for lane in lanes])
        env = make()
        space = env.observation_space
        with contextlib.suppress(Exception):  # as in all lanes, see `GuardedEnv`
            env.close()
        makes = [partial(GuardedEnv, partial(_checked, limited, lane), lane, settings.max_restarts) for lane in lanes]
        return AsyncLanes(makes, timeout_s=settings.step_timeout_s, context=settings.async_context, space=space)


@final
class _FirstOf:
    """Makes environments; the first one is there already."""

    def __init__(self, first: gym.Env[Any, Any], make: Any) -> None:
        self._first: gym.Env[Any, Any] | None = first
        self._make = make

    def __call__(self) -> gym.Env[Any, Any]:
        first, self._first = self._first, None
        made: gym.Env[Any, Any] = self._make() if first is None else first
        return made


def _limited(make: Make, horizon: int | None) -> gym.Env[Any, Any]:
    env = make()
    return env if horizon is None else gym.wrappers.TimeLimit(env, horizon)


def _checked(make: Make, lane: int) -> gym.Env[Any, Any]:
    return CheckedEnv(make(), lane)


def autoreset_mode_of(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """Return how `env` begins the next episode of a lane.

    Raises:
        EnvRunnerError: If it does not say so.
    """
    mode = env.metadata.get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        raise EnvRunnerError(
            f"found the autoreset mode {mode!r} in the metadata of {env}, expected one of {[*AutoresetMode]}: without "
            "it, steps cannot be told from resets. Set `env.metadata['autoreset_mode']`."
        ) from None


SpacesOfAgents: TypeAlias = dict[Any, Space[Any]] | None

_NEEDED = ("reset", "step", "get_observation_space", "get_action_space")


@final
class AgentEnvSource:
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
