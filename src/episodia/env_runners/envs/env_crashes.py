"""Environments that crash: an environment that raises, or returns what is not a step, is replaced by a new one."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Sequence
from typing import Any, final

import gymnasium as gym
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate

from episodia.env_runners.envs.vector_batches import checked_observation
from episodia.errors import EnvError, EpisodiaError, SpaceError
from episodia.trees import describe
from episodia.types import Item

# In the info of the first observation after an environment was rebuilt: what had happened.
RESTARTED = "env_restarted_after"
# Beside it, if the environment returned something else than a step: the message of the error that is still to be raised.
REFUSED = "env_refused_because"


@final
class GuardedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Rebuilds its environment when that raises.

    If a step fails, the first observation of the next episode is returned instead, and its info has the key
    `env_restarted_after`. Only exceptions are caught: a KeyboardInterrupt or SystemExit passes. If the action was outside of
    its space, the environment is not to blame, and an error says so.

    A new environment is reset with a seed that is derived from the last seed of the old one and the number of restarts.

    Args:
        make: Makes the environment.
        lane: Its number, for messages.
        max_restarts: How often in a row it is rebuilt without an episode in between that ends by itself; None for any
            number.
    """

    def __init__(self, make: Callable[[], gym.Env[Any, Any]], lane: int, max_restarts: int | None) -> None:
        super().__init__(make())
        self._make = make
        self.lane = lane
        self._max_restarts = max_restarts
        self._in_a_row = 0
        self._restarts = 0
        self._seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, in a new environment if the old one cannot."""
        # A reset follows an end.
        self._in_a_row = 0
        if seed is not None:
            self._seed = seed
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:  # noqa: BLE001  # whatever an environment raises
            return self.rebuild(error)

    def step(self, action: Item) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, or begin the next episode if that fails."""
        try:
            return self.env.step(action)
        except Exception as error:  # noqa: BLE001  # whatever an environment raises
            check_action(self.env.action_space, action, f"environment {self.lane}", error)
            observation, info = self.rebuild(error)
            return observation, 0.0, False, False, info

    def rebuild(self, error: Exception) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in a new environment, because of `error`.

        Raises:
            EnvError: If that was done too often.
        """
        noted = {RESTARTED: _text(error)}
        if isinstance(error, EnvError):
            noted[REFUSED] = str(error)
        while True:
            self._in_a_row += 1
            if self._max_restarts is not None and self._in_a_row > self._max_restarts:
                raise EnvError(self._given_up(error)) from error
            self._restarts += 1
            self.close()
            try:
                self.env = self._make()
                observation, info = self.env.reset(seed=self._next_seed())
            except Exception as again:  # noqa: BLE001  # whatever an environment raises
                error = again
                continue
            return observation, {**info, **noted}

    def close(self) -> None:
        """Close the environment; errors of closing are ignored."""
        with contextlib.suppress(Exception):
            self.env.close()

    def _next_seed(self) -> int | None:
        if self._seed is None:
            return None
        return int(np.random.SeedSequence([self._seed, self._restarts]).generate_state(1)[0])

    def _given_up(self, error: Exception) -> str:
        return (
            f"environment {self.lane}: found {_text(error)}, after it was rebuilt {self._in_a_row - 1} times in a row; "
            f"expected steps. Correct the environment, or let the runner be more patient with `max_restarts=`. It raised:\n"
            f"{''.join(traceback.format_exception(error))}"
        )


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


# What is raised where something else than a step is taken apart.
NO_STEP = (EnvError, TypeError, ValueError, OverflowError)


def check_flags(terminated: Any, truncated: Any) -> None:
    """Check flags of which at least one is set: true means True or 1, not just anything.

    Raises:
        TypeError: If one of them is something else.
    """
    for flag in (terminated, truncated):
        if type(flag) is not bool and flag not in (0, 1):
            raise TypeError(f"{describe(flag)} is not a flag")


def checked_info(info: object) -> dict[Any, Any]:
    """Return an info that is not empty.

    Raises:
        TypeError: If it is not a dict.
    """
    if not isinstance(info, dict):
        raise TypeError(f"{describe(info)} is not an info")
    return info


def no_step(lane: int, found: object, error: Exception) -> EnvError:
    """Return what to say about something that an environment has returned as a step."""
    if isinstance(error, EnvError):
        return error
    return EnvError(
        f"environment {lane}: found {describe(found)} as a step ({error}), expected an observation, a number as the reward, "
        "two flags, and an info. Correct the environment."
    )


@final
class CheckedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Rejects anything but a step, and observations that do not belong to the space, which shared memory would cast."""

    def __init__(self, env: gym.Env[Any, Any], lane: int) -> None:
        """Look at what `env` returns, which is the environment of `lane`."""
        super().__init__(env)
        self._lane = lane

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return checked_observation(self.observation_space, self._lane, observation), info

    def step(self, action: Item) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, and return it with a copy of the observation.

        Raises:
            EnvError: If the environment returned something else.
        """
        made: Any = self.env.step(action)
        try:
            observation, reward, terminated, truncated, info = made
            check_flags(terminated or False, truncated or False)
            seen = checked_observation(self.observation_space, self._lane, observation)
            return seen, float(reward), bool(terminated), bool(truncated), checked_info(info) if info else {}
        except NO_STEP as error:
            raise no_step(self._lane, made, error) from error


def check_action(space: Space[Any], action: Item, owner: str, error: Exception) -> None:
    """Check that an environment that has raised `error` was given an action of its space.

    Args:
        space: The action space.
        action: What the environment received.
        owner: Whose action it is, for the message.
        error: What the environment has raised.

    Raises:
        SpaceError: If it was not: the error of who has chosen the action.
    """
    if is_outside(space, action):
        text = repr(action)
        raise SpaceError(
            f"{owner}: found the action {text if len(text) <= 200 else f'{text[:197]}...'}, expected one of {space}. The "
            f"environment has rejected it ({type(error).__name__}: {error}). Correct what the module or the module-to-env "
            "pipeline puts out."
        ) from error


def check_actions(env: VectorEnv[Any, Any, Any], actions: Item, ignored: Sequence[int], error: Exception) -> None:
    """Do the same for a vector environment, apart from the lanes whose actions are not looked at.

    Raises:
        SpaceError: See `check_action`; for the first lane.
    """
    if isinstance(error, EpisodiaError):
        return  # says already what happened
    try:
        by_lane = list(iterate(env.action_space, actions))
    except (TypeError, ValueError, KeyError, IndexError):
        by_lane = [actions]  # no batch of such actions at all
    for lane, action in enumerate(by_lane):
        if lane not in ignored:
            check_action(env.single_action_space, action, f"environment {lane}", error)


def env_error(env: VectorEnv[Any, Any, Any], error: Exception) -> EpisodiaError:
    """Return what a vector environment has raised as an error of the library."""
    if isinstance(error, EpisodiaError):
        return error
    return EnvError(
        f"{env}: found {type(error).__name__}: {error}, expected a step. Correct the environment. A vector environment that is "
        "ready cannot be rebuilt if it does not recover: pass a function that makes it, or single environments."
    )


def is_outside(space: Space[Any], action: Item) -> bool:
    """Tell whether `action` does not belong to `space`; a number of another precision may.

    >>> is_outside(spaces.Box(0.0, 0.7, ()), np.float64(0.7)), is_outside(spaces.Discrete(2), 2)
    (False, True)
    """
    if isinstance(space, spaces.Dict):
        return not isinstance(action, dict) or any(
            key not in action or is_outside(child, action[key]) for key, child in space.spaces.items()
        )
    if isinstance(space, spaces.Tuple):
        return (
            not isinstance(action, tuple)
            or len(action) != len(space.spaces)
            or any(map(is_outside, space.spaces, action))
        )
    if not isinstance(space, spaces.Box):
        return not space.contains(action)
    array = np.asarray(action)
    if not np.can_cast(array.dtype, space.dtype, "same_kind"):
        return True
    return not space.contains(array.astype(space.dtype))
