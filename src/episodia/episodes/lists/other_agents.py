"""Columns of other agents of a list of multi-agent episodes, on the environment's clock.

Each item *stands* at an environment step: an observation (its info, the agent's time step, origins) where it was shown, an
action and what else the module put out at the observation that it answers. A reward, as well as a flag, is complete only when
the next observation is shown; it stands one environment step before that. So whatever stands before environment step e was
known when agents acted at e.

    environment step     0    1    2    3    4
    the agent sees       o0             o1   o2
    its actions          a0             a1
    its rewards                    r0   r1          r0 holds all that came while a0 was pending
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.columns.filling import Fills
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.gather import taken
from episodia.episodes.lists.list_columns import COMPUTED, FLAGS, joined
from episodia.episodes.lists.origins import AT_STEPS, ORIGINS, origin_windows
from episodia.episodes.lists.ragged import Ragged, offsets_of, sparse_rows
from episodia.episodes.multi_agent.agent_columns import (
    ACTIONS,
    INFOS,
    OBSERVATIONS,
    REWARDS,
    AgentColumn,
    extended,
    extra_output,
    pending_item,
)
from episodia.episodes.multi_agent.agent_record import AgentRecord, missing_steps
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.multi_agent.pending_step import NOTHING
from episodia.errors import EpisodeIndexError

_SOURCES = {Columns.OBS: OBSERVATIONS, Columns.INFOS: INFOS, Columns.ACTIONS: ACTIONS, Columns.REWARDS: REWARDS}
_AT_OBSERVATIONS = frozenset({Columns.OBS, Columns.INFOS, Columns.T, *ORIGINS}) - AT_STEPS


@final
class AgentHistory:
    """One column of one agent of an episode.

    Args:
        episode: The episode; the agent need not be in it.
        agent: Whose column it is.
        column: One of `Columns`, or the name of an extra model output.

    >>> episode = MultiAgentEpisode("game")
    >>> episode.add_env_reset(observations={"white": 0})
    >>> episode.add_env_step({"black": 1}, {"white": "e4"}, {})
    >>> AgentHistory(episode, "white", "actions").positions(np.array([[1]]), np.array([[0]]))
    array([[0]])
    """

    def __init__(self, episode: MultiAgentEpisode, agent: Any, column: str) -> None:
        self._episode, self._agent, self._column = episode, agent, column
        self._record = record = episode.roster.records.get(agent) or AgentRecord(agent)
        departed = record.departed
        self._single = record.episode if departed is None else departed.episode
        self._ended_at = record.ended_at if departed is None else departed.ended_at
        self._source: AgentColumn | None = None if column in COMPUTED else _SOURCES.get(column) or extra_output(column)
        self._stands_at = np.empty(0, np.int64)
        if self._single is not None:
            shown_at = record.shown_at() if departed is None else departed.shown_at
            self._stands_at = self._standing(np.array(shown_at, np.int64))

    @property
    def buffer(self) -> LookbackBuffer | None:
        """The buffer of the items that are not pending; None if there is none."""
        return None if self._single is None or self._source is None else self._source.column(self._single)

    def _standing(self, observed_at: np.ndarray) -> np.ndarray:
        """Return the environment step of each item, stored or pending: int64, ascending."""
        if self._column in _AT_OBSERVATIONS:
            return observed_at
        if self._column in AT_STEPS:
            return observed_at[: max(0, len(observed_at) - 1) + self._record.has_acted]
        if self._column == Columns.REWARDS or self._column in FLAGS:
            return observed_at[1:] - 1
        single, column = self._single, self.buffer
        steps = single.rewards.len_incl_lookback() if single is not None else 0
        first = steps if column is None or single is None else missing_steps(single, column)
        return observed_at[first : steps + (self._pending_item() is not NOTHING)]

    def _pending_item(self) -> Any:
        return NOTHING if self._source is None else pending_item(self._record, self._source)

    # --- Looking up -------------------------------------------------------------------------------------------------

    def positions(self, moments: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return the last item that stands at or before each environment step `wanted`, -1 without such an item: int64 [N, K].

        An agent that has ended is gone: at `moments` from its end on, nothing of it is there. Only where the whole episode
        ends with it, it still is, for bootstrapping from that moment.

        Args:
            moments: Environment steps at which is asked: [N, 1].
            wanted: What is asked for: [N, K].

        Raises:
            EpisodeIndexError: If the item was there, in a part of the episode that this chunk does not have any more.
        """
        found: np.ndarray = np.searchsorted(self._stands_at, wanted, side="right") - 1
        found = np.where(self._is_gone(moments), -1, found)
        if self._single is not None and self._first_t() > 0:
            self._check_not_dropped((found < 0) & ~self._is_gone(moments), wanted)
        return found

    def _is_gone(self, moments: np.ndarray) -> np.ndarray:
        episode, ended_at = self._episode, self._ended_at
        if ended_at is None:
            return np.zeros_like(moments, np.bool_)
        ends_all = episode.is_done and ended_at == episode.env_t
        return np.asarray(moments > ended_at if ends_all else moments >= ended_at)

    def _first_t(self) -> int:
        single = self._single
        return 0 if single is None else single.t_started - single.observations.lookback

    def _check_not_dropped(self, missing: np.ndarray, wanted: np.ndarray) -> None:
        if missing.any():
            raise EpisodeIndexError(
                f"episode {self._episode.id_!r}: found nothing of the column {self._column!r} of agent {self._agent!r} at or "
                f"before environment step {int(wanted[missing].min())}, expected what it had there: this chunk has it only "
                f"from its own time step {self._first_t()} on, what was before was dropped. Cut with a larger "
                "`len_lookback_buffer`, so that each agent keeps as many of its own steps as the pipeline looks back."
            )

    # --- Reading ----------------------------------------------------------------------------------------------------

    def items(self, start: int, stop: int) -> tuple[LookbackBuffer, int, int] | np.ndarray:
        """Return the items at these positions: an array, or a buffer and the positions in it."""
        if self._source is None:
            return self._computed()[start:stop]
        column = self.buffer
        stored = 0 if column is None else column.len_incl_lookback()
        if column is not None and stop <= stored:
            return column, start, stop
        column = LookbackBuffer() if column is None else column
        # One item more than needed, because rows of an array have one dtype.
        first = max(0, min(start, stored - 1))
        return extended(column, first, self._pending_item()), start - first, stop - first

    def _computed(self) -> np.ndarray:
        single = self._single
        size = len(self._stands_at)
        times = np.arange(size) + self._first_t()
        if single is None or self._column == Columns.T:
            return times
        if self._column in ORIGINS:
            return origin_windows(self._column, [single], np.zeros(size, np.int64), times[:, None])[:, 0]
        flags = np.zeros(size, np.bool_)
        flags[-1:] = single.is_terminated if self._column == Columns.TERMINATEDS else single.is_truncated
        return flags


def _joined_items(parts: list[tuple[LookbackBuffer, int, int] | np.ndarray]) -> Any:
    """Return what `AgentHistory.items` has returned for several agents, as one batch."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if arrays:
        return np.concatenate(arrays)
    columns, starts, stops = zip(*(part for part in parts if not isinstance(part, np.ndarray)), strict=True)
    return joined(columns, list(starts), list(stops))


# Called with an agent and its episode, returns another agent of that episode; None for no agent.
_AgentOf = Callable[[Any, MultiAgentEpisode], Any]


@final
class OtherAgents:
    """For each agent of one module, another agent of its episode.

    Rows are those of the agents that look; the columns are in the episodes of the other agents.

    Args:
        episodes: Multi-agent episodes.
        module_id: The module whose agents look.
        agent_of: At whom they look.
    """

    def __init__(self, episodes: EpisodeList, module_id: Any, agent_of: _AgentOf) -> None:
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
        steps from there, it has the last item of the other that stands at or before that step; see `AgentHistory`. Where
        the other had not come yet, or has ended, stand fills.

        Returns:
            None if no agent has an item, and no space says what one would look like.

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
            shown_at = np.array(episode.roster.records[agent].shown_at(), np.int64)
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
            self.values = _joined_items([histories[key].items(low, high + 1) for key, (low, high) in bounds.items()])
        else:
            # Of an agent that is there, it may be known what its items will look like.
            buffers = [history.buffer for history in histories.values()]
            known = next((buffer for buffer in buffers if buffer is not None and buffer.space is not None), None)
            self.values = None if known is None else joined([known], [0], [0])

    def places(self, key: tuple[int, Any], positions: np.ndarray) -> np.ndarray:
        """Return where the items at `positions` are in `values`, -1 for what is not there."""
        return np.where(positions < 0, -1, positions + self._base.get(key, 0))
