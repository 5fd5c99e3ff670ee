"""Sources of environments: they make vector environments and multi-agent environments, once and again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, TypeAlias, final

import gymnasium as gym
from gymnasium import Space, spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from episodia.arguments import checked_choice
from episodia.env_runners.envs.async_lanes import AsyncLanes, close_in_time, make_in_time
from episodia.env_runners.envs.env_crashes import RAISED_IN_WORKER, CheckedEnv, GuardedEnv, first_env
from episodia.env_runners.envs.env_horizons import with_horizon
from episodia.env_runners.envs.pettingzoo_envs import from_pettingzoo
from episodia.env_runners.envs.remote_agents import RemoteEnv
from episodia.env_runners.envs.sync_lanes import Make, SyncLanes
from episodia.env_runners.runner_settings import RunnerSettings, check_num_envs
from episodia.errors import EnvError, EnvRunnerError, EpisodeError
from episodia.trees import describe

AnyEnv: TypeAlias = (
    str | EnvSpec | Callable[[], gym.Env[Any, Any] | VectorEnv[Any, Any, Any]] | VectorEnv[Any, Any, Any]
)


@dataclass(frozen=True)
class EnvSource(ABC):
    """Makes the environments of a runner, and rebuilds them.

    Args:
        env: What makes environments, or one that is ready.
        num_envs: How many environments the runner plays in; None for 1, or for as many as a vector environment has.
        settings: How they are played.

    Raises:
        EnvRunnerError: If there cannot be so many of them, or not where they are to be.
    """

    env: Any
    num_envs: int | None
    settings: RunnerSettings

    vectorizations: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        vectorization = self.settings.vectorization
        checked_choice(EnvRunnerError, "runner", "vectorization", vectorization, self.vectorizations)
        check_num_envs(self.num_envs)

    @property
    @abstractmethod
    def can_remake(self) -> bool:
        """Whether environments can be made more than once."""

    def check_can_remake(self, where: str) -> None:
        """Check that there can be environments beside those that are sampled from.

        Raises:
            EnvRunnerError: If there is a ready environment only.
        """
        if not self.can_remake:
            raise EnvRunnerError(
                f"{where}: found a ready environment, {self.env}, which is busy with sampling and cannot be made a second "
                "time; expected a callable that makes environments. Pass the runner one."
            )


@final
class VectorEnvSource(EnvSource):
    """Makes vector environments, of a gymnasium id, an `EnvSpec`, or a function that makes a (vector) environment."""

    vectorizations = ("sync", "async", "vector_entry_point")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.env, (str, EnvSpec, VectorEnv)) and not callable(self.env):
            raise EnvRunnerError(
                f"found {type(self.env).__name__} as the environment, expected a gymnasium id, an EnvSpec, a function that "
                "makes one, or a VectorEnv. Of a ready environment, pass the function that made it."
            )

    @property
    def can_remake(self) -> bool:
        """See `EnvSource`: all but a ready vector environment."""
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
        made = self._first(self.env)
        if isinstance(made, VectorEnv):
            self._check_size(made)
            return made
        if not isinstance(made, gym.Env):
            raise EnvRunnerError(
                f"found {type(made).__name__} from the function that makes the environment, expected a gymnasium.Env or a "
                "VectorEnv. Wrap it into one; for several agents, use `MultiAgentEnvRunner`, with `Training(runner, learner, "
                "recipe)` to train."
            )
        return self._lanes(_FirstOf(made, self.env))

    def _registered(self, env: str | EnvSpec) -> VectorEnv[Any, Any, Any]:
        try:
            if self.settings.vectorization == "vector_entry_point":
                return self._own_form(env)
            return self._lanes(partial(gym.make, env))
        except (gym.error.Error, ImportError, EnvError) as error:
            reason = error.__cause__ if isinstance(error, EnvError) else error
            if not isinstance(reason, (gym.error.Error, ImportError)):
                raise
            raise EnvRunnerError(
                f"found {env!r} as the environment, which gymnasium cannot make ({' '.join(str(reason).split())}); expected "
                "the id of one that is registered and installed. Correct it, or pass a function that makes the environment."
            ) from error

    def _first(self, make: Make) -> Any:
        if self.settings.vectorization == "async":
            return make_in_time(make, self.settings.step_timeout_s)
        return first_env(make, 0)

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
        probe = self._first(make)
        close_in_time(probe)
        makes = [
            partial(GuardedEnv, partial(_checked, limited, lane), lane, settings.max_restarts, RAISED_IN_WORKER)
            for lane in lanes
        ]
        return AsyncLanes(
            makes,
            probe,
            timeout_s=settings.step_timeout_s,
            context=settings.async_context,
            max_losses=settings.max_restarts,
        )


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
    return make() if horizon is None else with_horizon(make(), horizon)


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
class AgentEnvSource(EnvSource):
    """Makes multi-agent environments: in this process or, asynchronous, in one of their own.

    `env` is a callable that returns a `MultiAgentEnv`, one of PettingZoo's environments, or anything with the methods of a
    `MultiAgentEnv`; or it is a ready one of these.

    Raises:
        EpisodeError: If `env` is something else.
    """

    vectorizations = ("sync", "async")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._ready is None and not callable(self.env):
            raise _no_env(self.env)
        if not self.can_remake and (self.num_envs or 1) > 1:
            raise EnvRunnerError(
                f"found a ready environment for num_envs={self.num_envs}, expected a callable that makes environments. "
                "Pass one, or num_envs=1."
            )
        if not self.can_remake and self.settings.vectorization == "async":
            raise EnvRunnerError(
                "found a ready environment for vectorization='async', expected a callable: it is made in another process."
            )

    @cached_property
    def _ready(self) -> Any:
        """The environment that was given, None if that makes environments."""
        return _as_env(self.env)

    @property
    def can_remake(self) -> bool:
        """See `EnvSource`: a callable that is not itself an environment."""
        return self._ready is None

    def build(self, lane: int) -> Any:
        """Return a new environment for a lane, or the ready one.

        Raises:
            EnvError: If it cannot be made.
        """
        if self._ready is not None:
            return self._ready
        make, settings = partial(_made, self.env), self.settings
        if settings.vectorization == "sync":
            return first_env(make, lane)
        return RemoteEnv(make, lane, timeout_s=settings.step_timeout_s, context=settings.async_context)


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
