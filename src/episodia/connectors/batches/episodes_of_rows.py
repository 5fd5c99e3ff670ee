"""To whose episode each row of a module's outputs belongs.

In a batch of one module, row i belongs to episode i. In a batch that is sorted by modules, the piece that sorted it,
`AgentToModuleMapping`, has left a note in `shared_data`: for each module a list with `(position of the episode, agent id)`
for each of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from episodia.connectors.common.agent_to_module_mapping import ROW_OWNERS
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import BatchError
from episodia.types import AgentID, ModuleID


def memorized_rows(shared_data: dict[Any, Any] | None, module_id: ModuleID) -> list[tuple[int, Any]] | None:
    """Return `(position of the episode, agent id)` for each row of a module; None if nobody has noted that.

    >>> memorized_rows({"memorized_map_structure": {"left": [(0, "a"), (1, "a")]}}, "left")
    [(0, 'a'), (1, 'a')]
    """
    noted = (shared_data or {}).get(ROW_OWNERS)
    return noted.get(module_id) if isinstance(noted, dict) else None


def needed_rows(shared_data: dict[Any, Any] | None, module_id: ModuleID) -> list[tuple[int, Any]]:
    """Return what `memorized_rows` returns, if there is such a note.

    Raises:
        BatchError: If there is none.
    """
    rows = memorized_rows(shared_data, module_id)
    if rows is None:
        noted = (shared_data or {}).get(ROW_OWNERS)
        found = f"rows of {list(noted)}" if isinstance(noted, dict) else "none"
        raise BatchError(
            f"module {module_id!r}: found no note to whom its rows belong in `shared_data[{ROW_OWNERS!r}]` ({found}), "
            "expected one for each module. Put `AgentToModuleMapping` into the env-to-module pipeline, and pass the same "
            "`shared_data` to both pipelines."
        )
    return rows


def episodes_of_rows(
    module_id: ModuleID, episodes: Sequence[Any], shared_data: dict[Any, Any] | None
) -> list[SingleAgentEpisode]:
    """Return the single-agent episode, or the agent's episode, that each row of a module belongs to.

    Raises:
        BatchError: If rows of a module cannot be told apart.
    """
    if module_id is None:
        return list(episodes)
    return [agent_episode(episodes[position], agent) for position, agent in needed_rows(shared_data, module_id)]


def agent_episode(episode: SingleAgentEpisode | MultiAgentEpisode, agent: AgentID) -> SingleAgentEpisode:
    """Return the episode of an agent in a multi-agent episode; a single-agent episode is its own."""
    if not isinstance(episode, MultiAgentEpisode):
        return episode
    if agent not in episode.agent_episodes:
        raise BatchError(
            f"episode {episode.id_!r}: found a row of the agent {agent!r}, expected one of its agents, "
            f"{list(episode.agent_episodes)}. Pass the episodes that the env-to-module pipeline was given, in the same order."
        )
    return episode.agent_episodes[agent]
