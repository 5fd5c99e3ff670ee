"""What the agents of a list of multi-agent episodes know of each other: columns of others, on the environment's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.filling import Fills
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.gather import taken
from episodia.episodes.lists.list_columns import joined
from episodia.episodes.lists.ragged import Ragged, offsets_of, sparse_rows
from episodia.episodes.multi_agent.agent_history import AgentHistory, joined_items, observation_env_steps
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode

# Called with an agent and its episode, returns another agent of that episode; None for nobody.
AgentOf = Callable[[Any, MultiAgentEpisode], Any]


@final
class OtherAgents:
    """For each agent of one module, another agent of its episode.

    Rows are those of the agents that look; what they see is in the episodes of those that they look at.

    Args:
        episodes: Multi-agent episodes.
        module_id: The module whose agents look.
        agent_of: At whom they look.
    """

    def __init__(self, episodes: EpisodeList, module_id: Any, agent_of: AgentOf) -> None:
        owners = episodes.row_owners()
        self._is_current = episodes.is_current
        self._looking: list[tuple[MultiAgentEpisode, Any, Any]] = []
        for row in episodes.by_module()[module_id].tolist():
            position, agent = owners[row]
            # For reading: not forked for it.
            episode = episodes._episodes[position]
            self._looking.append((episode, agent, agent_of(agent, episode)))

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the items of `column` of the first agent that is looked at, None if it is not known."""
        for episode, _, other in self._looking:
            spaces: Any = {Columns.OBS: episode.observation_space, Columns.ACTIONS: episode.action_space}.get(column)
            spaces = getattr(spaces, "spaces", spaces)  # of a `gymnasium.spaces.Dict`
            found: Space[Any] | None = None if spaces is None else spaces.get(other)
            if found is not None:
                return found
        return None

    def row_counts(self, *, tail: bool = False, every: int = 1) -> np.ndarray:
        """Return how many rows each agent that looks has: int64 [B]."""
        return np.array([len(moments) for moments in self._moments(int(tail), every)], np.int64)

    def windows(
        self, column: str, *, shifts: Sequence[int], fills: Fills, tail: bool = False, every: int = 1
    ) -> Ragged | None:
        """Return for each row the other's items at environment steps: leaves `[N, K, ...]`.

        A row stands at the environment step of its own agent's observation. For each of `shifts`, which count environment
        steps from there, it has the last item of the other that stands at or before that step; see `agent_history`. Where
        the other had not come yet, or has ended, stand fills.

        Returns:
            None if nobody has an item, and nobody knows what one would look like.

        Raises:
            EpisodeIndexError: If an item is in a part of the episode that was dropped.
        """
        moments = self._moments(int(tail), every)
        histories: dict[tuple[int, Any], AgentHistory] = {}
        found: list[tuple[tuple[int, Any], np.ndarray]] = []
        for (episode, _, other), at in zip(self._looking, moments, strict=True):
            key = (id(episode), other)
            if key not in histories:
                histories[key] = AgentHistory(episode, other, column)
            wanted = at[:, None] + np.asarray(shifts, np.int64)
            found.append((key, histories[key].positions(at[:, None], wanted)))
        gathered = _Gathered(histories, found)
        if gathered.values is None:
            return None
        size = (0, len(shifts))
        positions = np.concatenate([gathered.places(*pair) for pair in found] or [np.empty(size, np.int64)])
        outside = positions < 0
        values = taken(gathered.values, np.where(outside, 0, positions), outside if outside.any() else None, fills)
        extra = 0 if self._is_current else int(tail)
        return Ragged(values, offsets_of([len(at) for at in moments]), extra, every)

    def _moments(self, tail: int, every: int) -> list[np.ndarray]:
        """Return the environment steps of the rows of each agent that looks."""
        moments = []
        for episode, agent, _ in self._looking:
            shown_at = observation_env_steps(episode, agent)
            if self._is_current:
                moments.append(shown_at[-1:])
            else:
                single = episode.agent_episodes[agent]
                indices, _ = sparse_rows(np.array([len(single)]), tail, every)
                moments.append(shown_at[single.observations.lookback + indices])
        return moments


@final
class _Gathered:
    """The items that were found, one agent's after another's; of each no more than what is between the first and the last."""

    def __init__(
        self, histories: dict[tuple[int, Any], AgentHistory], found: list[tuple[tuple[int, Any], np.ndarray]]
    ) -> None:
        bounds: dict[tuple[int, Any], tuple[int, int]] = {}
        for key, positions in found:
            there = positions[positions >= 0]
            if len(there):
                low, high = bounds.get(key, (there.min(), there.max()))
                bounds[key] = int(min(low, there.min())), int(max(high, there.max()))
        self._base: dict[tuple[int, Any], int] = {}
        size = 0
        for key, (low, high) in bounds.items():
            self._base[key] = size - low
            size += high + 1 - low
        self.values: Any = None
        if bounds:
            self.values = joined_items([histories[key].items(low, high + 1) for key, (low, high) in bounds.items()])
        else:
            # Of an agent that is there, it may be known what its items will look like.
            buffers = [history.buffer for history in histories.values()]
            known = next((buffer for buffer in buffers if buffer is not None and buffer.space is not None), None)
            self.values = None if known is None else joined([known], [0], [0])

    def places(self, key: tuple[int, Any], positions: np.ndarray) -> np.ndarray:
        """Return where the items at `positions` are in `values`, -1 for what is not there."""
        return np.where(positions < 0, -1, positions + self._base.get(key, 0))
