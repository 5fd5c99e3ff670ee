"""An environment whose steps are looked at before anything else is done with them."""

from __future__ import annotations

from typing import Any, final

import gymnasium as gym

from episodia.env_runners.envs.observation_batch import checked_observation
from episodia.errors import EnvError
from episodia.trees import describe

# What is raised where the parts of something are looked at that is no step.
NO_STEP = (EnvError, TypeError, ValueError, OverflowError)


def check_flags(terminated: Any, truncated: Any) -> None:
    """Check flags of which at least one is set: true means True or 1, not just anything.

    Raises:
        TypeError: If one of them is something else.
    """
    for flag in (terminated, truncated):
        if type(flag) is not bool and flag not in (0, 1):
            raise TypeError(f"{describe(flag)} is no flag")


def checked_info(info: Any) -> dict[Any, Any]:
    """Return an info that is not empty.

    Raises:
        TypeError: If it is no dict.
    """
    if not isinstance(info, dict):
        raise TypeError(f"{describe(info)} is no info")
    return info


def no_step(lane: int, found: Any, error: Exception) -> EnvError:
    """Return what to say about something that an environment has returned as a step."""
    if isinstance(error, EnvError):
        return error
    return EnvError(
        f"environment {lane}: found {describe(found)} as a step ({error}), expected an observation, a number as the reward, "
        "two flags, and an info. Correct the environment."
    )


@final
class CheckedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Refuses what is no step, and observations that do not belong to the space, which shared memory would cast silently."""

    def __init__(self, env: gym.Env[Any, Any], lane: int) -> None:
        """Look at what `env` returns, which is the environment of `lane`."""
        super().__init__(env)
        self._lane = lane

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return checked_observation(self.observation_space, self._lane, observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, and return it with a copy of the observation.

        Raises:
            EnvError: If it is none.
        """
        made: Any = self.env.step(action)
        try:
            observation, reward, terminated, truncated, info = made
            check_flags(terminated or False, truncated or False)
            seen = checked_observation(self.observation_space, self._lane, observation)
            return seen, float(reward), bool(terminated), bool(truncated), checked_info(info) if info else {}
        except NO_STEP as error:
            raise no_step(self._lane, made, error) from error
