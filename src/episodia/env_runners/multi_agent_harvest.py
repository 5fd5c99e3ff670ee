"""Chunks and episodes that are ready to be handed out."""

from __future__ import annotations

from typing import final

from episodia.episodes import MultiAgentEpisode


@final
class Harvest:
    """What has been recorded and not been handed out. It outlives a call of `sample` that fails."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, MultiAgentEpisode]] = []
        self.env_steps = 0
        self.agent_steps = 0
        self.num_whole = 0

    def add(self, order: int, episode: MultiAgentEpisode) -> None:
        """Take a finalized chunk; `order` says when its episode began."""
        self._ready.append((order, episode))
        self._count(episode, 1)

    def _count(self, episode: MultiAgentEpisode, sign: int) -> None:
        self.env_steps += sign * len(episode)
        self.agent_steps += sign * episode.agent_steps()
        self.num_whole += sign * is_whole(episode)

    def take_all(self) -> list[MultiAgentEpisode]:
        """Hand out everything, in the order in which it came."""
        return self._take(self._ready)

    def take_whole(self, count: int) -> list[MultiAgentEpisode]:
        """Hand out whole episodes, in the order in which they began; what else there is stays."""
        whole = sorted((pair for pair in self._ready if is_whole(pair[1])), key=lambda pair: pair[0])
        return self._take(whole[:count])

    def _take(self, taken: list[tuple[int, MultiAgentEpisode]]) -> list[MultiAgentEpisode]:
        gone = {id(episode) for _, episode in taken}
        self._ready = [pair for pair in self._ready if id(pair[1]) not in gone]
        for _, episode in taken:
            self._count(episode, -1)
        return [episode for _, episode in taken]


def is_whole(episode: MultiAgentEpisode) -> bool:
    """Tell whether nothing is missing between the reset and the end."""
    return episode.is_done and episode.env_t_started == 0
