"""Making vector environments out of whatever names an environment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from episodia.env_runners.envs.async_lanes import AsyncLanes
from episodia.env_runners.envs.checked_env import CheckedEnv
from episodia.env_runners.envs.guarded_env import GuardedEnv
from episodia.env_runners.envs.sync_lanes import Make, SyncLanes
from episodia.env_runners.runner_settings import RunnerSettings
from episodia.env_runners.setting_checks import check_whole
from episodia.errors import EnvRunnerError

AnyEnv: TypeAlias = (
    str | EnvSpec | Callable[[], gym.Env[Any, Any] | VectorEnv[Any, Any, Any]] | VectorEnv[Any, Any, Any]
)

_VECTORIZATIONS = ("sync", "async", "vector_entry_point")


@final
@dataclass(frozen=True)
class EnvSource:
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
