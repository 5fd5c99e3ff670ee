"""NaN and infinite numbers in observations and rewards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from episodia.episodes import LookbackBuffer, MultiAgentEpisode
from episodia.errors import EnvError
from episodia.trees import leaves


def lanes_not_finite(observations: Any, num_lanes: int) -> list[int]:
    """Return the lanes whose row of `observations` has NaN or infinite numbers in it.

    >>> lanes_not_finite({"speed": np.array([[0.0], [np.nan], [np.inf]]), "gear": np.array([1, 2, 3])}, 3)
    [1, 2]
    """
    is_bad = np.zeros(num_lanes, np.bool_)
    for _, leaf in leaves(observations):
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f":
            is_bad |= ~np.isfinite(leaf).reshape(num_lanes, -1).all(-1)
    found: list[int] = is_bad.nonzero()[0].tolist()
    return found


def cannot_act_on(lanes: list[int], error: Exception) -> EnvError:
    """Return the error for a module or pipeline that failed with the last observations of `lanes`."""
    who = f"environment {lanes[0]}" if len(lanes) == 1 else f"environments {lanes}"
    return EnvError(
        f"{who}: found NaN or infinite numbers in the last observation, on which acting has failed ({type(error).__name__}: "
        f"{error}); expected finite numbers. What was recorded of that episode is dropped, all else comes with the next "
        "`sample()`, which begins with a reset. Correct the environment, or replace such numbers by a connector."
    )


def check_finite(chunk: MultiAgentEpisode, env_index: int) -> None:
    """Check that the observations and rewards of all agents in a finalized chunk are finite.

    Raises:
        EnvError: Naming environment, episode, agent and time step.
    """
    for agent, single in chunk.agent_episodes.items():
        for name, column in (("observations", single.observations), ("rewards", single.rewards)):
            for path, array in leaves(column.data):
                if not _is_finite_leaf(array):
                    t = _first_bad(array, column) + single.t_started
                    raise EnvError(
                        f"environment {env_index}, episode {chunk.id_!r}, agent {agent!r}, t={t}: found NaN or an infinite "
                        f"number in its {name}{path}, expected finite ones. This chunk is dropped; all others come with the "
                        "next `sample()`. Correct the environment, or allow such numbers with `check_finite=False`."
                    )


def is_finite(observations: Any) -> bool:
    """Tell whether there is no NaN and no infinite number in `observations`, of one agent or by agent."""
    return all(_is_finite_leaf(leaf) for _, leaf in leaves(observations))


def _is_finite_leaf(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return True
    # A finite sum has finite terms: one cheap reduction for the usual case.
    with np.errstate(all="ignore"):
        return math.isfinite(array.sum()) or bool(np.isfinite(array).all())


def _first_bad(array: np.ndarray, column: LookbackBuffer) -> int:
    return int(np.argwhere(~np.isfinite(array))[0][0]) - column.lookback
