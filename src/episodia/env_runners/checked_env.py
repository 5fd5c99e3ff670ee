"""An environment whose steps are looked at before anything else is done with them."""

from __future__ import annotations

from typing import Any, final

import gymnasium as gym

from episodia.env_runners.observation_batch import checked_observation
from episodia.errors import EnvError
from episodia.trees import describe


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
            seen = checked_observation(self.observation_space, self._lane, observation)
            return seen, float(reward), bool(terminated), bool(truncated), info
        except (EnvError, TypeError, ValueError) as error:
            raise no_step(self._lane, made, error) from error
