"""Telling callbacks what happens in the lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

from episodia.env_runners.callbacks import Listeners, notify
from episodia.env_runners.rollout.delayed_chunks import joined
from episodia.episodes import EpisodeList, SingleAgentEpisode

if TYPE_CHECKING:
    from episodia.env_runners.rollout.rollout import Rollout


@final
class Watcher:
    """Calls callbacks about environments and episodes.

    Episodes whose end somebody wants to see are kept until then, also if they are handed out chunk by chunk.

    Args:
        listeners: Whom to call.
        runner: What they get as `env_runner`.
    """

    def __init__(self, listeners: Listeners, runner: Any) -> None:
        self._listeners = listeners
        self._runner = runner
        # What was handed out of episodes that have not ended, by id.
        self._earlier: dict[str, list[SingleAgentEpisode]] = {}
        self.is_listening = bool(listeners.on_episode_start or listeners.on_episode_step or listeners.on_episode_end)

    def on_created(self, rollout: Rollout) -> None:
        """Tell that environments were made."""
        notify(self._listeners.on_environment_created, env_runner=self._runner, env=rollout.env)

    def on_starts(self, rollout: Rollout, lanes: Sequence[int]) -> None:
        """Tell that an episode has begun in each of `lanes`."""
        if self._listeners.on_episode_start:
            for lane in lanes:
                self._tell(self._listeners.on_episode_start, rollout, lane, rollout.recorder.episode(lane))

    def on_steps(self, rollout: Rollout, stepped: Sequence[int], ended: Sequence[int]) -> None:
        """Tell that some lanes have stepped, and that the episodes of some have ended."""
        if self._listeners.on_episode_step:
            for lane in stepped:
                self._tell(self._listeners.on_episode_step, rollout, lane, rollout.recorder.episode(lane))
        if self._listeners.on_episode_end:
            for lane in ended:
                episode = self._whole(rollout.recorder.episode(lane))
                self._tell(self._listeners.on_episode_end, rollout, lane, episode)

    def on_cut(self, chunks: EpisodeList) -> None:
        """Keep what may be needed of chunks that are handed out, now or later."""
        if self._listeners.on_episode_end:
            for chunk in chunks:
                if chunk.is_done:
                    self._earlier.pop(chunk.id_, None)
                else:
                    self._earlier.setdefault(chunk.id_, []).append(chunk)

    def on_sample_end(self, rollout: Rollout, samples: Any) -> None:
        """Tell that a sample is complete."""
        notify(self._listeners.on_sample_end, env_runner=self._runner, env=rollout.env, samples=samples)

    def _whole(self, last: SingleAgentEpisode) -> SingleAgentEpisode:
        whole: SingleAgentEpisode = joined([*self._earlier.get(last.id_, ()), last])
        return whole

    def _tell(self, functions: Any, rollout: Rollout, lane: int, episode: SingleAgentEpisode) -> None:
        notify(
            functions,
            episode=episode,
            env_index=lane,
            env=rollout.env,
            env_runner=self._runner,
            rl_module=rollout.actor.module,
            metrics_logger=None,
        )
