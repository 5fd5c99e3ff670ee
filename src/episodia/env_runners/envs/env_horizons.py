"""The horizon of a runner in its environments: it takes the place of their wrappers' limits; limits in their code stay."""

from __future__ import annotations

import sys
import warnings
from typing import Any, final

import gymnasium as gym


def with_horizon(env: gym.Env[Any, Any], horizon: int) -> gym.Env[Any, Any]:
    """Return `env` with a limit of `horizon` steps in place of those of its wrappers."""
    inner = env
    # They may count other steps than the runner, such as skipped frames.
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, gym.wrappers.TimeLimit):
            inner._max_episode_steps = sys.maxsize
        inner = inner.env
    return _Horizon(env, horizon)


@final
class OwnLimit:
    """Warns once if an environment truncates an episode before the horizon, because a runner cannot raise that limit."""

    def __init__(self, horizon: float) -> None:
        self._horizon = horizon
        self._is_known = False

    def truncated(self, env: object, steps: int) -> None:
        """Take note that `env` has truncated an episode after `steps` steps."""
        if steps < self._horizon and not self._is_known:
            self._is_known = True
            warnings.warn(
                f"environment: found that {env} truncated an episode after {steps} steps, before `horizon={self._horizon}`. A "
                "runner raises limits of `TimeLimit`, and cannot raise those in an environment's own code. Raise the limit "
                "there, if it is one. This is said once for each environment.",
                stacklevel=2,
            )


@final
class _Horizon(gym.wrappers.TimeLimit):
    """Truncates episodes at the horizon."""

    def __init__(self, env: gym.Env[Any, Any], horizon: int) -> None:
        super().__init__(env, horizon)
        self._own_limit = OwnLimit(horizon)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, the last one at the horizon."""
        step = super().step(action)
        if step[3]:
            steps: Any = self._elapsed_steps  # None before the first reset
            self._own_limit.truncated(self.env.unwrapped, steps)
        return step
