"""Episodes whose environment has failed: dropped, or returned as truncated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, final

from episodia.env_runners.envs.env_crashes import RESTARTED, restart_of
from episodia.env_runners.envs.vector_batches import Infos, is_by_lane
from episodia.env_runners.rollout.episode_totals import EpisodeTotals
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.env_runners.runner_settings import OnEnvError
from episodia.episodes.recorder.episode_recorder import EpisodeRecorder


@final
class Faults:
    """Settles episodes whose environment was rebuilt, and counts them.

    Args:
        on_env_error: `"drop"` forgets the running episode, as far as it was not returned; `"truncate"` keeps its steps as
            an episode that was stopped from outside.
        metrics: Where to count.
        totals: Which episodes go on, for the metrics.
    """

    def __init__(self, on_env_error: OnEnvError, metrics: RunnerMetrics, totals: EpisodeTotals) -> None:
        self.on_env_error = on_env_error
        self.metrics = metrics
        self._totals = totals
        self.num_steps_lost = 0  # with episodes that were dropped
        # By the id of an episode that was truncated: what its environment had raised.
        self.reasons: dict[str, str] = {}
        # The same episodes, as long as the last rewards of them have not been asked for.
        self.unseen_ends: set[str] = set()
        # What environments have returned that was no step: errors that are raised when the others have been recorded.
        self.rejections: list[str] = []
        # The episodes that the last fault has ended; the order of episodes has to forget or end them.
        self.dropped: Sequence[str] = ()
        self.truncated: Sequence[str] = ()

    def happened(self, infos: Infos) -> bool:
        """Tell whether an environment was rebuilt with this step or reset."""
        return is_by_lane(infos) and any(RESTARTED in info and restart_of(info) is not None for info in infos.values())

    def counted(self, infos: Infos, places: Mapping[int, str] = MappingProxyType({})) -> list[int]:
        """Take note of environments that were rebuilt; return their lanes.

        Args:
            infos: The infos of the step or reset.
            places: By lane, what errors have to say about the episode.
        """
        restarts = {lane: restart for lane, info in infos.items() if (restart := restart_of(info)) is not None}
        self.metrics.num_env_restarts += len(restarts)
        for lane, restart in restarts.items():
            if restart.rejection is not None:
                self.rejections.append(restart.rejection + places.get(lane, ""))
            infos[lane][RESTARTED] = str(restart)
        return list(restarts)

    def settled(self, infos: Infos, recorder: EpisodeRecorder) -> Sequence[int]:
        """End the episodes of environments that were rebuilt; return all lanes that begin with this step."""
        idle = recorder.idle_lanes
        episodes = {
            lane: recorder.episode(lane)
            for lane, info in infos.items()
            if restart_of(info) is not None and lane not in idle
        }
        failed = self.counted(
            infos, {lane: f" It was t={found.t + 1} of episode {found.id_!r}." for lane, found in episodes.items()}
        )
        running = [lane for lane in failed if lane not in recorder.idle_lanes]
        if self.on_env_error == "truncate":
            reasons = {recorder.episode_id(lane): infos[lane][RESTARTED] for lane in running}
            self.truncated = recorder.truncate(running)
            self.dropped = [id_ for id_ in reasons if id_ not in self.truncated]
            self.reasons |= {id_: reasons[id_] for id_ in self.truncated}
            self.unseen_ends.update(self.truncated)
        else:
            self.drop(recorder, running)
        return recorder.idle_lanes

    def drop(self, recorder: EpisodeRecorder, lanes: Sequence[int]) -> None:
        """Forget the running episodes of `lanes`, and count what is lost."""
        self.count_dropped(recorder.drop(lanes))

    def count_dropped(self, dropped: dict[str, int]) -> None:
        """Count episodes that were dropped, by their ids, with so many steps each."""
        self.dropped = list(dropped)
        for id_, steps in dropped.items():
            self.metrics.num_episodes_dropped += 1
            self.metrics.num_env_steps_dropped += steps
            self.num_steps_lost += steps
            self._totals.forget(id_)

    def mark(self, chunk: Any) -> None:
        """Write into the custom data of a truncated episode why it was."""
        if chunk.is_done and chunk.id_ in self.reasons:
            chunk.custom_data["env_error"] = self.reasons.pop(chunk.id_)
            self.unseen_ends.discard(chunk.id_)
