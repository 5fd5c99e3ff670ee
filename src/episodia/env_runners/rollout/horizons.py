"""Limits to the length of episodes that the environments do not set themselves."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from episodia.columns import Columns
from episodia.env_runners.envs.vector_batches import infos_by_lane, taken_rows
from episodia.env_runners.rollout.vector_step import Disabled, Stepper
from episodia.errors import EnvRunnerError


@final
class Horizons:
    """Truncates episodes after a number of steps, counted from where they began, or from the last reset of their environment.

    Args:
        num_lanes: In how many lanes.
        soft: After so many steps of an episode it is truncated, and the environment goes on with the next one.
        hard: After so many steps of an environment its episode is truncated, and the lane is reset; None for no limit.
    """

    def __init__(self, num_lanes: int, *, soft: int | None, hard: int | None) -> None:
        self._soft = soft
        self._hard = hard
        self._t = np.zeros(num_lanes, np.int64)  # steps of the episode
        self._env_t = np.zeros(num_lanes, np.int64)  # steps since the last reset
        self._to_go_on: list[int] = []
        self._to_reset: list[int] = []

    def start(self) -> None:
        """Take note that all lanes were reset."""
        self._t[:] = self._env_t[:] = 0
        self._to_go_on, self._to_reset = [], []

    def cut(self, stepper: Stepper) -> list[int]:
        """End the episodes that have become long enough with the last step, and return their lanes."""
        fresh = [*stepper.began, *stepper.recorder.idle_lanes]
        for steps in (self._t, self._env_t):
            np.add(steps, 1, out=steps)
            steps[fresh] = 0
        is_over = np.zeros_like(self._t, np.bool_) if self._hard is None else self._env_t >= self._hard
        is_long = np.zeros_like(is_over) if self._soft is None else self._t >= self._soft
        self._to_reset, self._to_go_on = np.flatnonzero(is_over).tolist(), np.flatnonzero(is_long & ~is_over).tolist()
        due = [*self._to_reset, *self._to_go_on]
        stepper.recorder.truncate(due)
        stepper.ended = [*stepper.ended, *due]
        return due

    def begin_next(self, stepper: Stepper) -> None:
        """Begin the next episodes of the lanes that were cut."""
        if self._to_go_on:
            self._begin(stepper, self._to_go_on, stepper.recorder.latest(Columns.OBS), None)
        if self._to_reset:
            self._begin(stepper, self._to_reset, *_reset(stepper, self._to_reset))
            self._env_t[self._to_reset] = 0

    def _begin(self, stepper: Stepper, lanes: list[int], observations: Any, infos: Any) -> None:
        first = taken_rows(stepper.env.single_observation_space, observations, lanes)
        stepper.recorder.reset(first, infos, lanes=lanes)
        self._t[lanes] = 0
        stepper.began = [*stepper.began, *lanes]


def _reset(stepper: Stepper, lanes: list[int]) -> tuple[Any, list[Any]]:
    num_lanes = stepper.recorder.num_lanes
    mask = np.zeros(num_lanes, np.bool_)
    mask[lanes] = True
    observations, infos = stepper.env.reset(options={"reset_mask": mask})
    by_lane = infos_by_lane(infos, num_lanes)
    return observations, [by_lane[lane] for lane in lanes]


def check_resets_lanes(env: VectorEnv[Any, Any, Any], stepper: Stepper) -> None:
    """Check that single lanes of a ready vector environment can be reset.

    Raises:
        EnvRunnerError: If that is unknown.
    """
    if not isinstance(stepper, Disabled) and not isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
        raise EnvRunnerError(
            f"found `horizon` with {env}, which does not say that it resets single lanes, expected a limit of its own. Make it "
            "with `max_episode_steps`, or use `soft_horizon`."
        )


def check_own_limit(env: VectorEnv[Any, Any, Any], horizon: int) -> None:
    """Check that a ready vector environment does not end its episodes before the horizon.

    Raises:
        EnvRunnerError: If its spec, or that of one of its environments, has a lower limit.
    """
    specs = [env.spec, *(lane.spec for lane in getattr(env.unwrapped, "envs", ()))]
    limits = [spec.max_episode_steps for spec in specs if spec is not None and spec.max_episode_steps is not None]
    if limits and 0 < min(limits) < horizon:
        raise EnvRunnerError(
            f"found `horizon={horizon}` with {env}, whose own limit is {min(limits)} steps; expected at most that, since the "
            "runner cannot raise the limit of a vector environment that is ready. Make it with a larger "
            "`max_episode_steps`, or pass the runner a gymnasium id or a function that makes one environment."
        )
