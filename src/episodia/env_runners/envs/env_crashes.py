"""Environments that crash: an environment that raises, or returns what is not a step, is replaced by a new one."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, final

import gymnasium as gym
import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate

from episodia.env_runners.envs.vector_batches import checked_observation
from episodia.errors import EnvError, EpisodiaError, SpaceError
from episodia.trees import describe
from episodia.types import Item

# The key in the info of the first observation after an environment was rebuilt.
RESTARTED = "env_restarted_after"


@final
class Restart(str):
    """The reason why an environment was rebuilt. Strings of other classes are an environment's own.

    Attributes:
        rejection: The message of the error that is still to be raised, if the environment returned something else than a step.
    """

    rejection: str | None

    def __new__(cls, text: str, rejection: str | None = None) -> Self:
        """Return the text of an error, and what to raise because of it."""
        restart = super().__new__(cls, text)
        restart.rejection = rejection
        return restart

    def __reduce__(self) -> Any:
        return Restart, (str(self), self.rejection)


def restart_of(info: dict[Any, Any]) -> Restart | None:
    """Return what `info` says about a restart."""
    found = info.get(RESTARTED)
    return found if isinstance(found, Restart) else None


Raised: TypeAlias = tuple[type[BaseException], ...]

# What an environment raises in the main process. Any other BaseException may come from elsewhere, such as Ctrl-C and the time
# limits of test programs, and passes.
RAISED: Raised = (Exception, SystemExit, GeneratorExit)
# What it raises in a process of its own, where nothing comes from elsewhere.
RAISED_IN_WORKER: Raised = (BaseException,)


@final
class GuardedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Rebuilds its environment when that raises.

    If a step fails, the first observation of the next episode is returned instead, and its info has the key
    `env_restarted_after`. If the action was outside of its space, the environment is not to blame, and an error says so.

    A new environment is reset with a seed that is derived from the last seed of the old one and the number of restarts.

    Args:
        make: Makes the environment.
        lane: Its number, for messages.
        max_restarts: How often in a row it is rebuilt without an episode in between that ends by itself; None for any
            number.
        raised: What counts as a failure; other exceptions pass.

    Raises:
        EnvError: If it cannot be made the first time.
    """

    def __init__(
        self, make: Callable[[], gym.Env[Any, Any]], lane: int, max_restarts: int | None, raised: Raised = RAISED
    ) -> None:
        super().__init__(first_env(make, lane, raised))
        self._make = make
        self._raised = raised
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
        except self._raised as error:
            return self.rebuild(error)

    def step(self, action: Item) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, or begin the next episode if that fails."""
        try:
            return self.env.step(action)
        except self._raised as error:
            return self.failed_step(action, error)

    def failed_step(self, action: Item, error: BaseException) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Begin the next episode, because a step with `action` has raised `error`; return that as a step.

        Raises:
            SpaceError: If the action was outside of its space.
        """
        check_action(self.env.action_space, action, f"environment {self.lane}", error)
        observation, info = self.rebuild(error)
        return observation, 0.0, False, False, info

    def rebuild(self, error: BaseException) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in a new environment, because of `error`.

        Raises:
            EnvError: If that was done too often.
        """
        restart = Restart(_text(error), str(error) if isinstance(error, EnvError) else None)
        while True:
            self._in_a_row += 1
            if self._max_restarts is not None and self._in_a_row > self._max_restarts:
                raise EnvError(self._given_up(error)) from error
            self._restarts += 1
            self.close()
            try:
                self.env = self._make()
                observation, info = self.env.reset(seed=self._next_seed())
            except self._raised as again:
                error = again
                continue
            return observation, {**info, RESTARTED: restart}

    def close(self) -> None:
        """Close the environment; errors of closing are ignored."""
        with contextlib.suppress(*self._raised):
            self.env.close()

    def _next_seed(self) -> int | None:
        if self._seed is None:
            return None
        return int(np.random.SeedSequence([self._seed, self._restarts]).generate_state(1)[0])

    def _given_up(self, error: BaseException) -> str:
        return (
            f"environment {self.lane}: found {_text(error)}, after it was rebuilt {self._in_a_row - 1} times in a row; "
            f"expected steps. Correct the environment, or let the runner be more patient with `max_restarts=`. It raised:\n"
            f"{''.join(traceback.format_exception(error))}"
        )


def first_env(make: Callable[[], Any], lane: int, raised: Raised = RAISED) -> Any:
    """Return what `make` makes.

    Raises:
        EnvError: If it raises.
    """
    try:
        return make()
    except EpisodiaError:
        raise
    except raised as error:
        raise EnvError(
            f"environment {lane}: found {_text(error)} when it was made, expected an environment. Correct what makes it. It "
            f"raised:\n{''.join(traceback.format_exception(error))}"
        ) from error


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# What is raised where something else than a step is taken apart.
NO_STEP = (EnvError, TypeError, ValueError, OverflowError)


def check_flags(terminated: Any, truncated: Any) -> None:
    """Check the two flags of a step: True, False, 1 or 0, not just anything.

    Raises:
        TypeError: If one of them is something else.
    """
    for flag in (terminated, truncated):
        if type(flag) is not bool and flag not in (0, 1):
            raise TypeError(f"{describe(flag)} is not a flag")


def checked_reward(reward: Any) -> float:
    """Return a reward as a float.

    Raises:
        TypeError: If it is a text, which Python would convert, or no number.
        ValueError: If it is an array of several numbers.
    """
    if isinstance(reward, (str, bytes)):
        raise TypeError(f"{describe(reward)} is not a reward")
    return float(reward)


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
            check_flags(terminated, truncated)
            seen = checked_observation(self.observation_space, self._lane, observation)
            return seen, checked_reward(reward), bool(terminated), bool(truncated), checked_info(info) if info else {}
        except NO_STEP as error:
            raise no_step(self._lane, made, error) from error


def check_action(space: Space[Any], action: Item, owner: str, error: BaseException) -> None:
    """Check that an environment that has raised `error` was given an action of its space.

    Args:
        space: The action space.
        action: What the environment received.
        owner: Whose action it is, for the message.
        error: What the environment has raised.

    Raises:
        SpaceError: If it was not: the error of the code that chose the action.
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
