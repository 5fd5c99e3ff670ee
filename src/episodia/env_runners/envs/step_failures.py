"""What a failed step is called: the fault of an environment, or that of an action which is outside of its space.

Looked at after a failure only, so that a step which works costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import iterate

from episodia.errors import EnvError, EpisodiaError, SpaceError


def check_action(space: Space[Any], action: Any, owner: str, error: Exception) -> None:
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
            f"environment has refused it ({type(error).__name__}: {error}). Correct what the module or the module-to-env "
            "pipeline puts out."
        ) from error


def check_actions(env: VectorEnv[Any, Any, Any], actions: Any, ignored: Sequence[int], error: Exception) -> None:
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
        "ready cannot be made anew if it does not recover: pass a function that makes it, or single environments."
    )


def is_outside(space: Space[Any], action: Any) -> bool:
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
