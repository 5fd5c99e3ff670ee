"""One vector step: from actions to what is recorded, for each way in which environments begin their next episodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from episodia.env_runners.envs.async_lanes import AsyncLanes
from episodia.env_runners.envs.env_sources import autoreset_mode_of
from episodia.env_runners.envs.last_observations import keep_last_observations
from episodia.env_runners.envs.sync_lanes import SyncLanes
from episodia.env_runners.envs.vector_batches import infos_by_lane, recorded_infos, taken_rows, with_rows
from episodia.env_runners.rollout.crashed_lanes import Faults
from episodia.env_runners.rollout.mask_reader import MaskReader
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder


class Chosen(NamedTuple):
    """The actions of all lanes: those to record, those for the environment, and extra columns to record."""

    actions: Any
    for_env: Any
    extras: dict[str, Any]


class Stepper(ABC):
    """Takes vector steps and records them: every real step once, and nothing else.

    Attributes:
        began: The lanes in which an episode began with the last call.
        ended: The lanes in which one ended with it.
        action_masks: What the infos say about allowed actions, `[lanes, actions]`; None if they have never said anything.
        masks: Reads them.
        begins_by_itself: Whether the next step begins what `begin_next` would have to begin otherwise.
        ignored: The lanes whose next action is not looked at, because their next step is a reset.
    """

    begins_by_itself = False

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        recorder: EpisodeRecorder,
        faults: Faults,
        *,
        masks: MaskReader,
        ignores_terminations: bool,
    ) -> None:
        """Step `env` and write into `recorder`.

        Args:
            env: The environments, one for each lane of `recorder`.
            recorder: Where steps go.
            faults: What to do about episodes whose environment has failed.
            masks: Reads action masks in infos.
            ignores_terminations: Whether episodes that terminate are recorded as truncated.
        """
        self.env = env
        self.recorder = recorder
        self.began: Sequence[int] = ()
        self.ended: Sequence[int] = ()
        self.ignored: Sequence[int] = ()
        self.action_masks: np.ndarray | None = None
        self._faults = faults
        self.masks = masks
        self._space = env.single_observation_space
        self._env_step = _without_terminations(env) if ignores_terminations else env.step
        # Lanes whose next episode is still to begin; `ended` also has the lanes that a horizon has cut.
        self._over: Sequence[int] = ()

    def reset(self, seed: Any) -> None:
        """Begin an episode in each lane; what running ones have is recorded, and they do not go on."""
        observations, infos = self.env.reset(seed=seed)
        if infos and self._faults.happened(infos):
            self._faults.counted(infos)
        infos = self._looked_at(infos)
        self.recorder.reset(observations, infos)
        self.began, self.ended = range(self.recorder.num_lanes), ()

    @abstractmethod
    def step(self, chosen: Chosen) -> int:
        """Take a step, record it, and return how many lanes have really stepped."""

    def begin_next(self) -> None:
        """Begin the next episodes of lanes that have ended, if that is not left to the next step."""
        # Environments of the mode NEXT_STEP do that themselves.
        return

    def restart(self, lanes: Sequence[int]) -> bool:
        """Let the next step begin episodes in `lanes`, which are idle; return whether that works without the others."""
        return False

    def _looked_at(self, infos: Any) -> Any:
        """Take note of action masks in `infos`, and return them as the recorder takes them."""
        self.action_masks = self.masks.read(infos)
        if not infos:
            return None
        return recorded_infos(infos, self.recorder.num_lanes)


@final
class NextStep(Stepper):
    """For environments whose step after the last one of an episode is the reset of the next."""

    begins_by_itself = True

    def __init__(self, env: Any, recorder: EpisodeRecorder, faults: Faults, **settings: Any) -> None:
        super().__init__(env, recorder, faults, **settings)
        self._resets: np.ndarray | None = None  # those lanes, as a mask

    def reset(self, seed: Any) -> None:
        """Begin an episode in each lane; see `Stepper.reset`."""
        super().reset(seed)
        self.ignored, self._resets = (), None

    def step(self, chosen: Chosen) -> int:
        """Take a step; lanes that have ended take none, and begin."""
        observations, rewards, terminateds, truncateds, infos = self._env_step(chosen.for_env)
        began, resets = self.ignored, self._resets
        if infos and self._faults.happened(infos):
            began = self._faults.settled(infos, self.recorder)
            resets = _mask(began, self.recorder.num_lanes)
        # Without masks and infos, there is nothing to look at.
        infos = self._looked_at(infos) if infos or self.action_masks is not None else None
        self.recorder.step(
            observations, chosen.actions, rewards, terminateds, truncateds, infos, chosen.extras, resets=resets
        )
        self.began = began
        self.ended = self.ignored = self.recorder.idle_lanes
        self._resets = terminateds | truncateds if self.ignored else None
        return len(terminateds) - len(began)

    def restart(self, lanes: Sequence[int]) -> bool:
        """See `Stepper.restart`: environments that we built can."""
        if not isinstance(self.env, (SyncLanes, AsyncLanes)):
            return False
        self.env.restart(lanes)
        self.ignored = self.recorder.idle_lanes
        self._resets = _mask(self.ignored, self.recorder.num_lanes)
        return True


@final
class SameStep(Stepper):
    """For environments that reset a lane in the very step with which its episode ends."""

    def __init__(
        self, env: VectorEnv[Any, Any, Any], recorder: EpisodeRecorder, faults: Faults, **settings: Any
    ) -> None:
        super().__init__(env, recorder, faults, **settings)
        keep_last_observations(env)

    def step(self, chosen: Chosen) -> int:
        """Take a step; the last observations of episodes are in the infos."""
        observations, rewards, terminateds, truncateds, infos = self._env_step(chosen.for_env)
        ended = np.flatnonzero(terminateds | truncateds).tolist()
        last, last_infos = observations, _without_final(infos)
        if ended:
            last, last_infos = _last_of_episodes(self._space, observations, infos, ended, self.recorder.num_lanes)
        self.recorder.step(last, chosen.actions, rewards, terminateds, truncateds, last_infos, chosen.extras)
        self.began = ()
        self.ended = self._over = ended
        self._next = observations, _without_final(infos)
        self._looked_at(self._next[1])
        return self.recorder.num_lanes

    def begin_next(self) -> None:
        """Begin with the observations that came along."""
        if not self._over:
            return
        observations, infos = self._next
        by_lane = infos_by_lane(infos, self.recorder.num_lanes)
        first = taken_rows(self._space, observations, self._over)
        self.recorder.reset(first, [by_lane[lane] for lane in self._over], lanes=list(self._over))
        self.began = self._over


@final
class Disabled(Stepper):
    """For environments whose lanes have to be reset by their user when they have ended."""

    def step(self, chosen: Chosen) -> int:
        """Take a step."""
        observations, rewards, terminateds, truncateds, infos = self._env_step(chosen.for_env)
        infos = self._looked_at(infos)
        self.recorder.step(observations, chosen.actions, rewards, terminateds, truncateds, infos, chosen.extras)
        self.began = ()
        self.ended = self._over = self.recorder.idle_lanes
        return self.recorder.num_lanes

    def begin_next(self) -> None:
        """Reset the lanes that have ended."""
        if not self._over:
            return
        # A new dict for each reset, because gymnasium takes the mask out of it.
        mask = _mask(self._over, self.recorder.num_lanes)
        observations, infos = self.env.reset(options={"reset_mask": mask})
        by_lane = infos_by_lane(infos, self.recorder.num_lanes)
        first = taken_rows(self._space, observations, self._over)
        self.recorder.reset(first, [by_lane[lane] for lane in self._over], lanes=list(self._over))
        self._looked_at(infos)
        self.began = self._over


_STEPPERS: dict[AutoresetMode, type[Stepper]] = {
    AutoresetMode.NEXT_STEP: NextStep,
    AutoresetMode.SAME_STEP: SameStep,
    AutoresetMode.DISABLED: Disabled,
}

_FINAL_KEYS = frozenset({"final_obs", "_final_obs", "final_info", "_final_info"})


def stepper_for(env: VectorEnv[Any, Any, Any], recorder: EpisodeRecorder, faults: Faults, **settings: Any) -> Stepper:
    """Return what takes steps in `env`, by its autoreset mode; `settings` are those of `Stepper`."""
    return _STEPPERS[autoreset_mode_of(env)](env, recorder, faults, **settings)


def _without_terminations(env: VectorEnv[Any, Any, Any]) -> Callable[[Any], Any]:
    """Return the `step` of `env`, in which episodes are truncated that would terminate."""

    def step(actions: Any) -> Any:
        observations, rewards, terminateds, truncateds, infos = env.step(actions)
        return observations, rewards, np.zeros_like(terminateds), terminateds | truncateds, infos

    return step


def _mask(lanes: Sequence[int], num_lanes: int) -> np.ndarray:
    mask = np.zeros(num_lanes, np.bool_)
    mask[list(lanes)] = True
    return mask


def _without_final(infos: dict[str, Any]) -> Any:
    return {key: value for key, value in infos.items() if key not in _FINAL_KEYS} if infos else infos


def _last_of_episodes(
    space: Any, observations: Any, infos: dict[str, Any], ended: list[int], num_lanes: int
) -> tuple[Any, list[dict[Any, Any]]]:
    """Return observations and infos as they were before lanes that have ended were reset."""
    last = with_rows(space, observations, ended, [infos["final_obs"][lane] for lane in ended])
    by_lane = infos_by_lane(_without_final(infos), num_lanes)
    final = infos_by_lane(infos.get("final_info", {}), num_lanes)
    for lane in ended:
        by_lane[lane] = final[lane]
    return last, by_lane
