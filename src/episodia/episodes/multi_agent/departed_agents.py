"""Agents that have ended before a chunk begins, and that some of its rows may still see.

An agent that waits at a cut has its first row of the next chunk at its last observation, which is before the cut. When it acted
there, another agent may still have been alive that has ended since. Whoever asks later what was known then needs that agent's
last steps; they travel with the chunk, out of sight.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from episodia.episodes.single_agent import single_agent_chunks as chunks
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode


@dataclass(frozen=True)
class Departed:
    """The last steps of an agent that has ended, at which environment steps its observations stand, and when it ended."""

    single: SingleAgentEpisode
    shown_at: list[int]
    ended_at: int


def shown_at(episode: MultiAgentEpisode, agent: Any) -> list[int]:
    """Return at which environment step each stored observation of an agent was shown, the lookback included."""
    steps = episode._timelines[agent].env_steps
    if len(steps) < episode.agent_episodes[agent].observations.len_incl_lookback():
        # It was not shown its last observation, and has its previous one repeated, at its end.
        return [*steps, episode._ended[agent]]
    return steps


def departed_before(episode: MultiAgentEpisode, chunk: MultiAgentEpisode) -> dict[Any, Departed]:
    """Return the agents of `episode` that ended before its part `chunk` begins, as far as rows of the chunk may see them."""
    rows = [shown_at(chunk, agent)[single.observations.lookback] for agent, single in chunk.agent_episodes.items()]
    earliest = min(rows, default=chunk.env_t_started)
    if earliest >= chunk.env_t_started:
        return {}
    kept = dict(episode._departed)
    for agent, ended_at in episode._ended.items():
        if agent not in chunk.agent_episodes and ended_at <= chunk.env_t_started:
            kept[agent] = Departed(episode.agent_episodes[agent], shown_at(episode, agent), ended_at)
    start = chunk.env_t_started - chunk.env_lookback
    return {agent: _from_env_step(gone, start) for agent, gone in kept.items() if gone.ended_at > earliest}


def _from_env_step(gone: Departed, start: int) -> Departed:
    """Return the steps from environment step `start` on."""
    single, past = gone.single, gone.single.observations.lookback
    # At least the last observation, as of agents that go on.
    first = min(bisect_left(gone.shown_at, start), len(gone.shown_at) - 1)
    index = first - past
    part = chunks.part(single, slice(max(0, index), None), max(0, -index))
    part.is_terminated, part.is_truncated = single.is_terminated, single.is_truncated
    return Departed(part, gone.shown_at[first:], gone.ended_at)
