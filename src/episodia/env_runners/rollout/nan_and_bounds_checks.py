"""Checks of observations and rewards: NaN and infinite numbers, and observations outside of their space."""

from __future__ import annotations

import warnings
from typing import Any, final

import numpy as np
from gymnasium import Space, spaces

from episodia.columns import Columns
from episodia.env_runners.runner_settings import CheckFinite
from episodia.episodes import EpisodeList, LookbackBuffer, MultiAgentEpisode
from episodia.errors import EnvError, SpaceError
from episodia.space_rules import Check, bounds_check
from episodia.spaces import ARRAY_SPACES
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


def no_action_allowed(lanes: list[int]) -> EnvError:
    """Return the error for lanes whose action mask allows nothing."""
    who = f"environment {lanes[0]}" if len(lanes) == 1 else f"environments {lanes}"
    return EnvError(
        f"{who}: found an action mask that allows no action, expected at least one. What was recorded of that episode is "
        "dropped, all else comes with the next `sample()`. Let the environment allow an action, or end the episode."
    )


@final
class FiniteWatch:
    """Rejects or reports NaN and infinite numbers in observations and rewards.

    Args:
        policy: True rejects the chunk, `"warn"` warns of the first one of a runner, False allows all.

    Attributes:
        is_open: Whether there is something to look for.
    """

    def __init__(self, policy: CheckFinite) -> None:
        self._warns = policy == "warn"
        self.is_open = bool(policy)

    def note(self, found: str) -> None:
        """Warn of what was found where, or reject it.

        Raises:
            EnvError: If the policy is to reject it.
        """
        if not self._warns:
            raise EnvError(
                f"{found}, expected finite numbers. This chunk is dropped; all others come with the next `sample()`. Correct "
                "the environment, or allow such numbers with `check_finite=False`."
            )
        self.is_open = False
        warnings.warn(
            f"{found}, expected finite numbers. They are recorded as they are. This is said once for each runner.",
            stacklevel=2,
        )


def note_not_finite(watch: FiniteWatch, chunk: MultiAgentEpisode, env_index: int) -> None:
    """Look for NaN and infinite numbers in the observations and rewards of all agents in a finalized chunk.

    Raises:
        EnvError: Naming environment, episode, agent and time step.
    """
    agents = chunk.agent_episodes
    singles = agents.values()
    if _all_finite([one.observations.data for one in singles]) and _all_finite([one.rewards.data for one in singles]):
        return
    for agent, single in agents.items():
        for name, column in (("observations", single.observations), ("rewards", single.rewards)):
            for path, array in leaves(column.data):
                if not _is_finite_leaf(array):
                    t = _first_bad(array, column) + single.t_started
                    watch.note(
                        f"environment {env_index}, episode {chunk.id_!r}, agent {agent!r}, t={t}: found NaN or an infinite "
                        f"number in its {name}{path}"
                    )
                    return


def _all_finite(columns: list[Any]) -> bool:
    """Tell whether all numbers in arrays of one dtype and shape are finite; False, too, if they differ in these."""
    kinds = {(column.dtype, column.shape[1:]) if type(column) is np.ndarray else None for column in columns}
    if None in kinds or len(kinds) != 1:
        return False
    return columns[0].dtype.kind != "f" or bool(np.isfinite(np.concatenate(columns)).all())


def is_finite(observations: Any) -> bool:
    """Tell whether all numbers in `observations`, of one agent or by agent, are finite."""
    return all(_is_finite_leaf(leaf) for _, leaf in leaves(observations))


def _is_finite_leaf(array: Any) -> bool:
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return True
    return bool(np.isfinite(array).all())


def _first_bad(array: np.ndarray, column: LookbackBuffer) -> int:
    return int(np.argwhere(~np.isfinite(array))[0][0]) - column.lookback


@final
class BoundsWatch:
    """Finds the first observation of a runner that lies outside of its space, and warns of it once.

    Such observations are recorded as they are: an environment that goes a little beyond its own bounds is common, and
    `validate()` of the episode raises.

    Attributes:
        is_open: Whether none was found yet.
    """

    def __init__(self) -> None:
        self.is_open = True
        self._found: SpaceError | None = None
        self._space: Space[Any] | None = None
        self._check: Check | None = None

    def look_at(self, chunks: EpisodeList) -> None:
        """Look at the observations of single-agent episodes, all at once."""
        if not self.is_open or not len(chunks):
            return
        space = chunks.space_of(Columns.OBS)
        if space is not self._space:
            self._space = space
            self._check = bounds_check(space) if space is not None and _has_bounds(space) else None
        if self._check is not None:
            try:
                self._check(chunks.flat(Columns.OBS, tail=True).values)
            except SpaceError as error:
                self._note(error)

    def finalize(self, chunk: MultiAgentEpisode) -> None:
        """Finalize `chunk`, which looks at the observations of all agents."""
        try:
            chunk.finalize(check_bounds=self.is_open)
        except SpaceError as error:
            chunk.finalize(check_bounds=False)
            self._note(error)

    def _note(self, error: SpaceError) -> None:
        self.is_open, self._found = False, error

    def warn(self) -> None:
        """Warn if an observation was found since the last call; before chunks are returned, so that none gets lost."""
        error, self._found = self._found, None
        if error is not None:
            warnings.warn(
                f"observations: {error} They are recorded as they are, and `validate()` of their episodes raises. This is said "
                "once for each runner.",
                stacklevel=2,
            )


def _has_bounds(space: Space[Any]) -> bool:
    """Tell whether an observation can be outside of `space`, given that it has its structure, shape and dtype."""
    if isinstance(space, spaces.Dict):
        return any(map(_has_bounds, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return any(map(_has_bounds, space.spaces))
    if not isinstance(space, spaces.Box):
        return isinstance(space, ARRAY_SPACES)
    dtype = np.dtype(space.dtype)
    if dtype.kind not in "iu":
        return bool(space.bounded_below.any() or space.bounded_above.any())
    limits = np.iinfo(dtype)
    return bool((space.low > limits.min).any() or (space.high < limits.max).any())
