"""Totals of episodes: chunks are added up until their episode ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, final

import numpy as np

from episodia.columns import Columns
from episodia.env_runners.runner_metrics import RunnerMetrics
from episodia.episodes import EpisodeList, MultiAgentEpisode
from episodia.episodes.lists.recorded_rows import RecordedRows
from episodia.episodes.lists.unmade_list import UnmadeList


class Summary(NamedTuple):
    """One chunk: whose it is, from when to when it goes, whether its episode ends with it, and how long it took."""

    id_: str
    t_started: int
    t: int
    is_done: bool
    duration_s: float


def summaries(chunks: EpisodeList) -> Iterator[Summary]:
    """Yield what is known of each of `chunks`.

    >>> from episodia import SingleAgentEpisode
    >>> walk = SingleAgentEpisode("walk", observations=[0, 1], actions=[0], rewards=[1.0], len_lookback_buffer=0)
    >>> next(summaries(EpisodeList([walk])))
    Summary(id_='walk', t_started=0, t=1, is_done=False, duration_s=0.0)
    """
    rows = chunks.untouched_rows() if isinstance(chunks, UnmadeList) else None
    if isinstance(rows, RecordedRows):
        make = tuple.__new__  # a fifth of the time of the call, and there are as many as lanes at least
        for chunk in rows.chunks:
            duration_s = (chunk.last_step_time or 0.0) - (chunk.start_time or 0.0)
            is_done = chunk.is_terminated or chunk.is_truncated
            yield make(Summary, (chunk.id_, chunk.t_started, chunk.t_at_slot_0 + chunk.cursor, is_done, duration_s))
    else:
        for episode in chunks:
            yield Summary(episode.id_, episode.t_started, episode.t, episode.is_done, episode.get_duration_s())


@final
class EpisodeTotals:
    """Adds up chunks of single-agent episodes until they end."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[float, float]] = {}  # return and duration so far, by episode

    def __len__(self) -> int:
        return len(self._open)

    def note(self, chunks: EpisodeList, metrics: RunnerMetrics) -> None:
        """Count returned chunks; each has at least one step.

        If an episode ends with its chunk, return, length and duration of the whole are added to `metrics`.
        """
        if not len(chunks):
            return
        rewards = chunks.flat(Columns.REWARDS)
        gained = np.add.reduceat(rewards.values, rewards.offsets[:-1], dtype=np.float64).tolist()
        metrics.num_env_steps += int(rewards.offsets[-1])
        still_open = self._open
        returns, lengths, durations = metrics.episode_returns, metrics.episode_lengths, metrics.episode_durations_s
        num_before = len(returns)
        for (id_, _, t, is_done, duration_s), reward in zip(summaries(chunks), gained, strict=True):
            total, time_s = reward, duration_s
            if id_ in still_open:
                before, time_before_s = still_open.pop(id_)
                total, time_s = before + total, time_before_s + time_s
            if is_done:
                returns.append(total)
                lengths.append(t)
                durations.append(time_s)
            else:
                still_open[id_] = (total, time_s)
        metrics.num_episodes += len(returns) - num_before

    def keep_only(self, ids: Iterable[str]) -> None:
        """Forget all episodes but these."""
        if self._open:
            kept = set(ids)
            self._open = {id_: so_far for id_, so_far in self._open.items() if id_ in kept}

    def forget(self, episode_id: str) -> None:
        """Forget an episode that will not go on."""
        self._open.pop(episode_id, None)


@final
class MultiAgentTotals:
    """Adds up the chunks of one episode until it ends."""

    def __init__(self) -> None:
        self._duration_s = 0.0
        self._returns: dict[Any, float] = {}

    def note(self, chunk: MultiAgentEpisode, metrics: RunnerMetrics) -> None:
        """Count a returned chunk; when the episode ends with it, the whole is added to `metrics`."""
        self._duration_s += chunk.get_duration_s()
        metrics.num_env_steps += len(chunk)
        for agent, single in chunk.agent_episodes.items():
            steps, module = len(single), single.module_id
            gained = float(single.get_return()) if steps else 0.0
            self._returns[agent] = self._returns.get(agent, 0.0) + gained
            metrics.num_agent_steps += steps
            metrics.agent_steps[agent] = metrics.agent_steps.get(agent, 0) + steps
            metrics.module_steps[module] = metrics.module_steps.get(module, 0) + steps
        if chunk.is_done:
            self._finish(chunk, metrics)

    def _finish(self, chunk: MultiAgentEpisode, metrics: RunnerMetrics) -> None:
        metrics.num_episodes += 1
        metrics.episode_returns.append(sum(self._returns.values()))
        metrics.episode_lengths.append(chunk.env_t)
        metrics.episode_durations_s.append(self._duration_s)
        for agent, total in self._returns.items():
            metrics.agent_returns.setdefault(agent, []).append(total)
            metrics.module_returns.setdefault(chunk.module_for(agent), []).append(total)
