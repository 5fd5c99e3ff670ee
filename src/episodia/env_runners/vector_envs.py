"""Making vector environments out of whatever names an environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, final

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

from episodia.env_runners.async_lanes import AsyncLanes
from episodia.env_runners.checked_env import CheckedEnv
from episodia.env_runners.guarded_env import GuardedEnv
from episodia.env_runners.setting_checks import check_context, check_timeout, check_whole
from episodia.env_runners.sync_lanes import Make, SyncLanes
from episodia.errors import EnvRunnerError

Vectorization: TypeAlias = Literal["sync", "async", "vector_entry_point"]
AnyEnv: TypeAlias = (
    str | EnvSpec | Callable[[], gym.Env[Any, Any] | VectorEnv[Any, Any, Any]] | VectorEnv[Any, Any, Any]
)

_VECTORIZATIONS = ("sync", "async", "vector_entry_point")


@final
@dataclass(frozen=True, kw_only=True)
class EnvSource:
    """How a runner's environments are made, the first time and whenever they have to be made anew.

    Args:
        env: A gymnasium id, an `EnvSpec`, a function that makes an environment or a vector environment, or a vector
            environment that is ready.
        num_envs: How many lanes to make; a vector environment has as many as it has.
        vectorization: In this process, in processes of their own, or the environment's own vectorised form.
        horizon: After so many steps an episode is truncated, and its environment reset.
        soft_horizon: After so many steps an episode is truncated, and its environment goes on.
        ignore_terminations: Whether episodes that terminate are recorded as truncated.
        max_restarts: How often in a row one environment may be made anew; None for any number.
        step_timeout_s: How long a step or a reset of asynchronous environments may take.
        async_context: How their processes are started.
    """

    env: AnyEnv
    num_envs: int | None = None
    vectorization: Vectorization = "sync"
    horizon: int | None = None
    soft_horizon: int | None = None
    ignore_terminations: bool = False
    max_restarts: int | None = 100
    step_timeout_s: float | None = None
    async_context: str = "forkserver"

    def __post_init__(self) -> None:
        if self.vectorization not in _VECTORIZATIONS:
            raise EnvRunnerError(f"found `vectorization={self.vectorization!r}`, expected one of {_VECTORIZATIONS}.")
        if not isinstance(self.env, (str, EnvSpec, VectorEnv)) and not callable(self.env):
            raise EnvRunnerError(
                f"found {type(self.env).__name__} as the environment, expected a gymnasium id, an EnvSpec, a function that "
                "makes one, or a VectorEnv. Of a ready environment, pass the function that made it."
            )
        check_whole(1, or_none=True, num_envs=self.num_envs, horizon=self.horizon, soft_horizon=self.soft_horizon)
        check_whole(0, or_none=True, max_restarts=self.max_restarts)
        check_timeout(self.step_timeout_s)
        check_context(self.async_context)
        if self.step_timeout_s is not None and self.vectorization != "async":
            raise EnvRunnerError(
                f"found `step_timeout_s={self.step_timeout_s}` with `vectorization={self.vectorization!r}`, expected 'async': "
                "a step in this process cannot be interrupted. Run the environments asynchronously."
            )

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
            if self.vectorization == "vector_entry_point":
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
        limit: dict[str, Any] = {} if self.horizon is None else {"max_episode_steps": self.horizon}
        return gym.make_vec(env, num_envs=self.num_envs or 1, vectorization_mode="vector_entry_point", **limit)

    def _lanes(self, make: Make) -> VectorEnv[Any, Any, Any]:
        limited, lanes = partial(_limited, make, self.horizon), range(self.num_envs or 1)
        if self.vectorization == "sync":
            return SyncLanes([partial(GuardedEnv, limited, lane, self.max_restarts) for lane in lanes])
        env = make()
        space = env.observation_space
        env.close()
        makes = [partial(GuardedEnv, partial(_checked, limited, lane), lane, self.max_restarts) for lane in lanes]
        return AsyncLanes(makes, timeout_s=self.step_timeout_s, context=self.async_context, space=space)


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
