"""Overwriting what is in a multi-agent episode, for some agents at once: all or none."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from episodia.episodes.columns.indexing import Index
from episodia.episodes.multi_agent.multi_agent_stepping import check_mapping, flag_of
from episodia.errors import EpisodeKeyError, EpisodiaError

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_facts import AgentID, MultiAgentFacts


def set_column(
    episode: MultiAgentFacts,
    column: str,
    new_data: Mapping[AgentID, Any],
    indices: Index,
    negative_is_lookback: Any,
    **key: str,
) -> None:
    """Overwrite items of one column, at the agents' own steps.

    Args:
        episode: The episode to change.
        column: The name of the column.
        new_data: The new items of each agent.
        indices: Which items.
        negative_is_lookback: Whether negative indices count from the first step to the left.
        **key: The name of an extra model output, as `key`.
    """
    singles = episode.agent_episodes
    new_data = check_mapping(episode, "new_data", new_data)
    unknown = [agent for agent in new_data if agent not in singles]
    if unknown:
        raise EpisodeKeyError(
            f"episode {episode.id_!r}: found data for the agents {unknown}, expected some of {list(singles)}. "
            "Agents come with an observation, in `add_env_reset` or `add_env_step`."
        )
    if type(negative_is_lookback) is not bool:
        negative_is_lookback = flag_of(episode, "neg_index_as_lookback", negative_is_lookback)
    changed = {agent: copy.copy(singles[agent]) for agent in new_data}
    for agent, single in changed.items():
        setter = getattr(single, f"set_{column}")
        try:
            setter(**key, new_data=new_data[agent], at_indices=indices, neg_index_as_lookback=negative_is_lookback)
        except EpisodiaError as error:
            raise type(error)(f"episode {episode.id_!r}, agent {agent!r}: {error}") from error
    for agent, single in changed.items():
        setattr(singles[agent], column, getattr(single, column))
