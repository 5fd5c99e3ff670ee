"""What one agent of a multi-agent episode has seen and done, on the environment's clock.

Each item *stands* at an environment step: an observation (its info, the agent's time step, ids) where it was shown, an action
and what else the module put out at the observation that it answers. A reward, as well as a flag, is complete only when the
next observation is shown; it stands one environment step before that. So whatever stands before environment step e was known
when agents acted at e.

    environment step     0    1    2    3    4
    the agent sees       o0             o1   o2
    its actions          a0             a1
    its rewards                    r0   r1          r0 holds all that came while a0 was pending
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from episodia.columns import Columns
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.lists.list_columns import COMPUTED, FLAGS, IDS, joined
from episodia.episodes.multi_agent.agent_columns import (
    ACTIONS,
    INFOS,
    OBSERVATIONS,
    REWARDS,
    Source,
    extended,
    extra_output,
    missing_steps,
)
from episodia.episodes.multi_agent.departed_agents import shown_at
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.multi_agent.pending_step import NOTHING
from episodia.errors import EpisodeIndexError
from episodia.stacking import object_array

_SOURCES = {Columns.OBS: OBSERVATIONS, Columns.INFOS: INFOS, Columns.ACTIONS: ACTIONS, Columns.REWARDS: REWARDS}
_AT_OBSERVATIONS = frozenset({Columns.OBS, Columns.INFOS, Columns.T, *IDS})


def observation_env_steps(episode: MultiAgentEpisode, agent: Any) -> np.ndarray:
    """Return at which environment step each stored observation of an agent was shown, the lookback included."""
    return np.array(shown_at(episode, agent), np.int64)


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
        departed = episode._departed.get(agent)
        self._single = episode.agent_episodes.get(agent) if departed is None else departed.single
        self._ended_at = episode._ended.get(agent) if departed is None else departed.ended_at
        self._source: Source | None = None if column in COMPUTED else _SOURCES.get(column) or extra_output(column)
        self._stands_at = np.empty(0, np.int64)
        if departed is not None:
            self._stands_at = self._standing(np.array(departed.shown_at, np.int64))
        elif self._single is not None:
            self._stands_at = self._standing(observation_env_steps(episode, agent))

    @property
    def buffer(self) -> LookbackBuffer | None:
        """Where the items are stored that are not pending; None if nothing is."""
        return None if self._single is None or self._source is None else self._source.column(self._single)

    def _standing(self, observed_at: np.ndarray) -> np.ndarray:
        """Return the environment step of each item, stored or pending: int64, ascending."""
        if self._column in _AT_OBSERVATIONS:
            return observed_at
        if self._column == Columns.REWARDS or self._column in FLAGS:
            return observed_at[1:] - 1
        single, column = self._single, self.buffer
        steps = single.rewards.len_incl_lookback() if single is not None else 0
        first = steps if column is None or single is None else missing_steps(single, column)
        return observed_at[first : steps + (self._pending_item() is not NOTHING)]

    def _pending_item(self) -> Any:
        pending, source = self._episode._pending.get(self._agent), self._source
        if pending is None or not pending.has_action or source is None or source.pending is None:
            return NOTHING
        return source.pending(pending)

    # --- Looking up -------------------------------------------------------------------------------------------------

    def positions(self, moments: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return the last item that stands at or before each environment step `wanted`, -1 if there is none: int64 [N, K].

        An agent that has ended is gone: at `moments` from its end on, nothing of it is there. Only where the whole episode
        ends with it, it still is, for whoever bootstraps from that moment.

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
        if single is None or self._column == Columns.T:
            return np.arange(size) + self._first_t()
        if self._column in IDS:
            return object_array([IDS[self._column](single)] * size)
        flags = np.zeros(size, np.bool_)
        flags[-1:] = single.is_terminated if self._column == Columns.TERMINATEDS else single.is_truncated
        return flags


def joined_items(parts: list[tuple[LookbackBuffer, int, int] | np.ndarray]) -> Any:
    """Return what `AgentHistory.items` has returned for several agents, as one batch."""
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if arrays:
        return np.concatenate(arrays)
    columns, starts, stops = zip(*(part for part in parts if not isinstance(part, np.ndarray)), strict=True)
    return joined(columns, list(starts), list(stops))
