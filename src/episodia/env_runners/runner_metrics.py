"""What a runner has done since somebody last asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, final

import numpy as np

from episodia.columns import Columns
from episodia.env_runners.rollout.episode_totals import summaries
from episodia.episodes import EpisodeList


@final
@dataclass
class RunnerMetrics:
    """Counts, times and the results of finished episodes. Everything adds up: `merged` is a sum, field by field.

    Times are in seconds. `episode_returns` and `episode_lengths` are of whole episodes, also if they were handed out in
    chunks; episodes that never ended are not among them.

    >>> merged = RunnerMetrics.merged([RunnerMetrics(num_env_steps=3), RunnerMetrics(num_env_steps=4)])
    >>> merged.num_env_steps
    7
    """

    num_env_steps: int = 0
    num_episodes: int = 0  # that ended
    num_env_restarts: int = 0
    num_episodes_dropped: int = 0  # because an environment failed, or returned what is no step
    num_env_steps_dropped: int = 0  # with them; and one for each lane, where a whole vector step has failed
    sample_time_s: float = 0.0
    env_step_time_s: float = 0.0
    env_to_module_time_s: float = 0.0
    forward_time_s: float = 0.0
    module_to_env_time_s: float = 0.0
    record_time_s: float = 0.0  # single-agent runners count it as part of the step
    episode_returns: list[float] = field(default_factory=list)
    episode_lengths: list[int] = field(default_factory=list)
    episode_durations_s: list[float] = field(default_factory=list)

    @classmethod
    def merged(cls, parts: Iterable[RunnerMetrics]) -> RunnerMetrics:
        """Return the sum of `parts`: what several runners have done together."""
        merged = cls()
        for part in parts:
            for each in fields(cls):
                setattr(merged, each.name, getattr(merged, each.name) + getattr(part, each.name))
        return merged

    def taken(self) -> RunnerMetrics:
        """Return a copy, and begin to count anew."""
        taken = RunnerMetrics(**{each.name: getattr(self, each.name) for each in fields(self)})
        for name, value in vars(RunnerMetrics()).items():
            setattr(self, name, value)
        return taken

    @property
    def env_steps_per_s(self) -> float:
        """Recorded steps per second of sampling; 0 if there were none."""
        return self.num_env_steps / self.sample_time_s if self.sample_time_s else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return numbers only: counts, times, and mean, least and largest of what is known of episodes.

        >>> RunnerMetrics(num_episodes=2, episode_returns=[1.0, 4.0]).as_dict()["episode_return_mean"]
        2.5
        """
        numbers = {each.name: getattr(self, each.name) for each in fields(self) if not each.name.startswith("episode_")}
        numbers["env_steps_per_s"] = self.env_steps_per_s
        for name, values in (
            ("episode_return", self.episode_returns),
            ("episode_length", self.episode_lengths),
            ("episode_duration_s", self.episode_durations_s),
        ):
            if values:
                numbers |= {f"{name}_mean": sum(values) / len(values), f"{name}_min": min(values)}
                numbers[f"{name}_max"] = max(values)
        return numbers


@final
class EpisodeTotals:
    """Adds up chunks of single-agent episodes until they end."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[float, float]] = {}  # return and duration so far, by episode

    def __len__(self) -> int:
        return len(self._open)

    def note(self, chunks: EpisodeList, metrics: RunnerMetrics) -> None:
        """Count chunks that are handed out, none of which is empty.

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
