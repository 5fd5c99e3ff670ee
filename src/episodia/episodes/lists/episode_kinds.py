"""Of which kind the episodes of a list are: single-agent or multi-agent, never both; and whose they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError
from episodia.trees import describe


def listed(episodes: Any) -> list[Any]:
    """Return a new list of `episodes`.

    Raises:
        EpisodeError: If they are no collection, such as a single episode.
    """
    try:
        return list(episodes)
    except TypeError as error:
        # An array without axes says that it can be iterated over, too.
        if isinstance(episodes, Iterable) and not isinstance(episodes, np.ndarray):  # what makes them has failed
            raise
        raise EpisodeError(
            f"found {_short(episodes)}, expected a list of episodes. Pass `[episode]` for one."
        ) from error


def _short(stranger: Any) -> str:
    is_episode = isinstance(stranger, (SingleAgentEpisode, MultiAgentEpisode))
    return f"the {type(stranger).__name__} {stranger.id_!r}" if is_episode else describe(stranger)


def are_multi_agent(episodes: list[Any]) -> bool:
    """Tell whether `episodes` are multi-agent ones; of no episodes, they are not.

    Raises:
        EpisodeError: If something else than episodes of one kind is among them.
    """
    if set(map(type, episodes)) == {SingleAgentEpisode}:
        return False
    kinds = {isinstance(episode, MultiAgentEpisode) for episode in episodes}
    strangers = [episode for episode in episodes if not isinstance(episode, (SingleAgentEpisode, MultiAgentEpisode))]
    if strangers or len(kinds) > 1:
        found = describe(strangers[0]) if strangers else "both single-agent and multi-agent episodes"
        remedy = "Leave it out." if strangers else "List them apart."
        raise EpisodeError(f"found {found} in a list of episodes, expected episodes of one kind. {remedy}")
    return kinds == {True}


def agents_in(episodes: list[MultiAgentEpisode], *, to_act: bool) -> list[tuple[int, Any]]:
    """Return the agents of each multi-agent episode, or those that are to act, after the position of the episode."""
    found: list[tuple[int, Any]] = []
    for position, episode in enumerate(episodes):
        chosen = episode.get_agents_to_act() if to_act else episode.agent_episodes
        found += [(position, agent) for agent in episode.agent_episodes if agent in chosen]
    return found
