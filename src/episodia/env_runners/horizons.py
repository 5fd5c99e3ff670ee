"""Limits to the length of episodes that the environments do not set themselves."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from episodia.columns import Columns
from episodia.env_runners.batch_rows import taken_rows
from episodia.env_runners.lane_infos import infos_by_lane
from episodia.env_runners.stepping import Disabled, Stepper
from episodia.episodes.recorder_lanes import truncate_lanes
from episodia.errors import EnvRunnerError


@final
class Horizon:
    """Truncates episodes after so many steps.

    Args:
        steps: How many.
        num_lanes: In how many lanes.
        soft: Let the environment go on: the next episode begins where the last one was cut. Otherwise the lane is reset.
    """

    def __init__(self, steps: int, num_lanes: int, *, soft: bool) -> None:
        self._steps = steps
        self._soft = soft
        self._t = np.zeros(num_lanes, np.int64)

    def start(self) -> None:
        """Take note that all lanes were reset."""
        self._t[:] = 0
        self._due: list[int] = []

    def cut(self, stepper: Stepper) -> list[int]:
        """End the episodes that have become long enough with the last step, and return their lanes."""
        self._t += 1
        self._t[list(stepper.began)] = 0
        idle = stepper.recorder.idle_lanes
        self._t[idle] = 0
        self._due = np.flatnonzero(self._t >= self._steps).tolist()
        truncate_lanes(stepper.recorder, self._due)
        stepper.ended = [*stepper.ended, *self._due]
        return self._due

    def begin_next(self, stepper: Stepper) -> None:
        """Begin the next episodes of the lanes that were cut."""
        due = self._due
        if not due:
            return
        if self._soft:
            observations, infos = stepper.recorder.latest(Columns.OBS), None
        else:
            observations, infos = _reset(stepper, due)
        stepper.recorder.reset(taken_rows(stepper.env.single_observation_space, observations, due), infos, lanes=due)
        self._t[due] = 0
        stepper.began = [*stepper.began, *due]


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
        EnvRunnerError: If nobody knows.
    """
    if not isinstance(stepper, Disabled) and not isinstance(env.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
        raise EnvRunnerError(
            f"found `horizon` with {env}, which does not say that it resets single lanes, expected a limit of its own. Make it "
            "with `max_episode_steps`, or use `soft_horizon`."
        )
