"""Chunks and episodes that are recorded, and wait to be handed out."""

from __future__ import annotations

from typing import NamedTuple, final

from episodia.env_runners.multi_agent_metrics import MultiAgentMetrics, MultiAgentTotals
from episodia.episodes import MultiAgentEpisode


class _Entry(NamedTuple):
    order: int
    chunk: MultiAgentEpisode
    totals: MultiAgentTotals


@final
class Harvest:
    """What has been recorded and not been handed out. It outlives a call of `sample` that fails."""

    def __init__(self) -> None:
        self._ready: list[_Entry] = []
        self.env_steps = 0
        self.agent_steps = 0
        self.num_whole = 0

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, order: int, chunk: MultiAgentEpisode, totals: MultiAgentTotals) -> None:
        """Take a finalized chunk.

        Args:
            order: When its episode began.
            chunk: What follows the chunks of that episode that were added before.
            totals: What adds up the chunks of that episode.
        """
        self._ready.append(_Entry(order, chunk, totals))
        self._count(chunk, 1)

    @property
    def chunks(self) -> list[MultiAgentEpisode]:
        """All that waits, in the order in which it came."""
        return [entry.chunk for entry in self._ready]

    def _count(self, episode: MultiAgentEpisode, sign: int) -> None:
        self.env_steps += sign * len(episode)
        self.agent_steps += sign * episode.agent_steps()
        self.num_whole += sign * is_whole(episode)

    def take_first(self, count: int, metrics: MultiAgentMetrics) -> list[MultiAgentEpisode]:
        """Hand out the chunks that came first, and count them in `metrics`."""
        return self._take(self._ready[:count], metrics)

    def take_whole(self, count: int, metrics: MultiAgentMetrics) -> list[MultiAgentEpisode]:
        """Hand out whole episodes, in the order in which they began, and count them; what else there is stays."""
        whole = sorted((entry for entry in self._ready if is_whole(entry.chunk)), key=lambda entry: entry.order)
        return self._take(whole[:count], metrics)

    def _take(self, taken: list[_Entry], metrics: MultiAgentMetrics) -> list[MultiAgentEpisode]:
        gone = {id(entry.chunk) for entry in taken}
        self._ready = [entry for entry in self._ready if id(entry.chunk) not in gone]
        for entry in taken:
            self._count(entry.chunk, -1)
            # Not before: rewards may have been set until now.
            entry.totals.note(entry.chunk, metrics)
        return [entry.chunk for entry in taken]


def is_whole(episode: MultiAgentEpisode) -> bool:
    """Tell whether nothing is missing between the reset and the end."""
    return episode.is_done and episode.env_t_started == 0
