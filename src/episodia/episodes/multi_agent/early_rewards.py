"""Rewards that belong to no step of their agent, kept apart with the environment step that they came with.

They came before or with the agent's first observation, or after its end and its last step is in an earlier chunk.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from episodia.episodes.columns.rewards import total_of

# By agent: pairs of the environment step after which a reward came, and the reward.
EarlyRewards: TypeAlias = dict[Any, list[tuple[int, Any]]]


def rewards_between(rewards: EarlyRewards, start: int, stop: int) -> EarlyRewards:
    """Return the rewards that came after environment step `start`, up to and including `stop`.

    >>> rewards_between({"a": [(1, 0.5), (3, 2.0)], "b": [(1, 1.0)]}, 1, 3)
    {'a': [(3, 2.0)]}
    """
    kept = {agent: [entry for entry in entries if start < entry[0] <= stop] for agent, entries in rewards.items()}
    return {agent: entries for agent, entries in kept.items() if entries}


def totals(rewards: EarlyRewards) -> dict[Any, Any]:
    """Return the sum of each agent's rewards."""
    return {agent: total_of(reward for _, reward in entries) for agent, entries in rewards.items()}
