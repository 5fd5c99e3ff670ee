"""Rewards that are set some ticks after their step: which are due, and how chunks hear of them that end before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

Episode = SingleAgentEpisode | MultiAgentEpisode

# The episode of one agent, and how many steps of its own before the end: `get_rewards(-age)`.
_Due = tuple[SingleAgentEpisode, int]


def due_steps(episode: Episode, delay: int) -> Iterator[_Due]:
    """Yield the steps whose reward is to be set at the present moment, the oldest of an agent first.

    That is the step that became `delay` ticks old with the last one, or that was completed just now and is older. When an
    agent or the episode has ended with the last tick, it is all steps whose turn has not come.

    >>> walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[0, 0], rewards=[1.0, 1.0], len_lookback_buffer=0)
    >>> [age for _, age in due_steps(walk, delay=1)]
    [2]
    >>> walk.is_terminated = True
    >>> [age for _, age in due_steps(walk, delay=1)]
    [2, 1]
    """
    if isinstance(episode, SingleAgentEpisode):
        oldest = delay + 1
        for age in range(min(oldest, episode.t), 0, -1):
            if age == oldest or episode.is_done:
                yield episode, age
        return
    now = episode.env_t
    for record in episode.roster.present():
        single, ended_at = record.known, record.ended_at
        if ended_at is None or ended_at == now:
            for age, due_at in _ages(record.shown_at(), delay):
                if due_at == now or (ended_at is not None and due_at > now):
                    yield single, age


def open_steps(episode: Episode, delay: int) -> Iterator[_Due]:
    """Yield the steps of a running episode whose turn is still to come, the oldest of an agent first."""
    if isinstance(episode, SingleAgentEpisode):
        for age in range(min(delay, episode.t), 0, -1):
            yield episode, age
        return
    for record in episode.roster.present():
        if record.ended_at is None:
            for age, due_at in _ages(record.shown_at(), delay):
                if due_at > episode.env_t:
                    yield record.known, age


def _ages(env_steps: list[int], delay: int) -> Iterator[tuple[int, int]]:
    """Yield the age of each step of an agent in its own steps, and the tick at which its reward is due."""
    # No step before the last `delay + 1` can be due now, except one that took longer than that: the last one.
    first = max(0, len(env_steps) - 2 - delay)
    for position in range(first, len(env_steps) - 1):
        yield len(env_steps) - 1 - position, max(env_steps[position] + delay + 1, env_steps[position + 1])


def take_over_rewards(earlier: Episode, later: Episode) -> None:
    """Give the last steps of `earlier` the rewards that they have in the lookback of `later`, a chunk that follows it.

    >>> first = SingleAgentEpisode(observations=[0, 1, 2], actions=[0, 0], rewards=[1.0, 1.0], len_lookback_buffer=0)
    >>> rest = first.cut(len_lookback_buffer=1)
    >>> rest.set_rewards(new_data=5.0, at_indices=-1)
    >>> take_over_rewards(first, rest)
    >>> first.get_rewards()
    [1.0, 5.0]
    """
    if isinstance(earlier, MultiAgentEpisode):
        if isinstance(later, MultiAgentEpisode):
            for agent, single in earlier.agent_episodes.items():
                if agent in later.agent_episodes:
                    take_over_rewards(single, later.agent_episodes[agent])
        return
    if not isinstance(later, SingleAgentEpisode):
        return
    between = later.t_started - earlier.t
    count = min(later.rewards.lookback - between, len(earlier))
    if between < 0 or count <= 0:
        return
    known = later.get_rewards(slice(-between - count, -between), neg_index_as_lookback=True)
    last = slice(len(earlier) - count, len(earlier))
    if not np.array_equal(known, earlier.get_rewards(last), equal_nan=True):
        earlier.set_rewards(new_data=known, at_indices=last)
