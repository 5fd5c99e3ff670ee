"""What can be said of a multi-agent episode from what it holds: who is in it, how far it is, what it has earned."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias

from episodia.episodes.columns.indexing import as_flag
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.multi_agent import early_rewards
from episodia.episodes.multi_agent.departed_agents import Departed
from episodia.episodes.multi_agent.multi_agent_lives import ALL
from episodia.episodes.multi_agent.pending_step import MissingFinalObservation, PendingStep, RewardsAfterDone
from episodia.episodes.multi_agent.timeline import Timeline
from episodia.episodes.single_agent import weights_versions as versions
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.trees import fresh

AgentID: TypeAlias = Hashable
ModuleID: TypeAlias = Hashable


class MultiAgentFacts:
    """The attributes of a `MultiAgentEpisode`, and what follows from them; nothing here changes an episode."""

    id_: str
    observation_space: Any
    action_space: Any
    missing_final_observation: MissingFinalObservation
    rewards_after_done: RewardsAfterDone
    env_t_started: int
    env_t: int
    env_lookback: int
    is_terminated: bool
    is_truncated: bool
    agent_episodes: dict[AgentID, SingleAgentEpisode]
    _agent_to_module_mapping: dict[AgentID, ModuleID]
    _agent_episode_ids: dict[AgentID, str]
    _timelines: dict[AgentID, Timeline]
    _pending: dict[AgentID, PendingStep]
    # When agents ended, and how those did that ended in an earlier chunk.
    _ended: dict[AgentID, int]
    _gone: dict[AgentID, str]
    _departed: dict[AgentID, Departed]
    _early_rewards: early_rewards.EarlyRewards
    # Agents whose pending step, in a slice, is a part of one that was complete later.
    _split_steps: tuple[AgentID, ...]
    # Agents whose first step in this chunk was chosen in the chunk before.
    _carried: frozenset[AgentID]
    _observed_last: set[AgentID]
    _was_reset: bool
    _finalized: bool
    _custom_data: dict[Any, Any]
    _weights_versions: versions.Versions
    _start_time: float | None
    _last_step_time: float | None

    # --- How far it is ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.env_t - self.env_t_started

    def env_steps(self) -> int:
        """Return the number of environment steps in this chunk."""
        return len(self)

    def agent_steps(self) -> int:
        """Return the number of complete steps in this chunk, added up over all agents."""
        return sum(len(single) for single in self.agent_episodes.values())

    @property
    def is_reset(self) -> bool:
        """Whether the episode has been reset."""
        return self._was_reset

    @property
    def is_done(self) -> bool:
        """Whether the episode is terminated or truncated."""
        return self.is_terminated or self.is_truncated

    @property
    def is_finalized(self) -> bool:
        """Whether getters return arrays for all agents, also if those were finalized one by one."""
        singles = self.agent_episodes.values()
        return all(single.is_finalized for single in singles) if singles else self._finalized

    is_numpy = is_finalized

    def get_terminateds(self) -> dict[AgentID, bool]:
        """Return which agents have terminated, and under `"__all__"` whether the episode has."""
        flags: dict[AgentID, bool] = {agent: single.is_terminated for agent, single in self.agent_episodes.items()}
        return {**flags, ALL: self.is_terminated}

    def get_truncateds(self) -> dict[AgentID, bool]:
        """Return which agents were truncated, and under `"__all__"` whether the episode was."""
        flags: dict[AgentID, bool] = {agent: single.is_truncated for agent, single in self.agent_episodes.items()}
        return {**flags, ALL: self.is_truncated}

    def get_return(self, include_hanging_rewards: bool = False) -> float:
        """Return the sum of all agents' rewards in this chunk.

        Args:
            include_hanging_rewards: Add rewards of steps that are not complete, and of agents that had no observation yet.
        """
        total = sum(single.get_return() for single in self.agent_episodes.values())
        if as_flag(include_hanging_rewards):
            total += sum(map(float, (*self._hanging_rewards_end.values(), *self._hanging_rewards_begin.values())))
        return float(total)

    def get_duration_s(self) -> float:
        """Return the seconds from the reset, or the cut, to the last step; 0.0 if it is not known."""
        if self._start_time is None or self._last_step_time is None:
            return 0.0
        return self._last_step_time - self._start_time

    # --- Who is in it -----------------------------------------------------------------------------------------------

    @property
    def agent_ids(self) -> set[AgentID]:
        """The agents that have an episode in this chunk."""
        return set(self.agent_episodes)

    @property
    def agent_episode_ids(self) -> dict[AgentID, str]:
        """The id of each agent's own episode."""
        return {agent: single.id_ for agent, single in self.agent_episodes.items()}

    @property
    def agent_t_started(self) -> dict[AgentID, int]:
        """Each agent's own time step at the start of this chunk."""
        return {agent: single.t_started for agent, single in self.agent_episodes.items()}

    @property
    def env_t_to_agent_t(self) -> dict[AgentID, LookbackBuffer]:
        """For each agent and environment step, the agent's own time step, or "S" if it had no observation there."""
        first, stop, lookback = self.env_t_started - self.env_lookback, self.env_t + 1, self.env_lookback
        first_ts = {
            agent: single.t_started - single.observations.lookback for agent, single in self.agent_episodes.items()
        }
        return {
            agent: LookbackBuffer(timeline.entries(first, stop, first_ts[agent]), lookback)
            for agent, timeline in self._timelines.items()
        }

    def get_agents_to_act(self) -> set[AgentID]:
        """Return the agents with an observation at the last environment step that are not done."""
        return {agent for agent in self._observed_last if not self.agent_episodes[agent].is_done}

    def get_agents_that_stepped(self) -> set[AgentID]:
        """Return the agents with an observation at the last environment step, done or not."""
        return set(self._observed_last)

    @property
    def custom_data(self) -> dict[Any, Any]:
        """A dictionary for your own use. It travels with the episode: copied by `cut` and `slice`, merged by `concat`."""
        return self._custom_data

    # --- What hangs, under RLlib's names ----------------------------------------------------------------------------

    @property
    def _hanging_actions_end(self) -> dict[AgentID, Any]:
        return {agent: fresh(pending.action) for agent, pending in self._pending.items() if pending.has_action}

    @property
    def _hanging_extra_model_outputs_end(self) -> dict[AgentID, dict[str, Any]]:
        return {
            agent: fresh(dict(pending.extra_model_outputs or {}))
            for agent, pending in self._pending.items()
            if pending.has_action
        }

    @property
    def _hanging_rewards_end(self) -> dict[AgentID, Any]:
        return {
            agent: 0.0 if pending.reward is None else pending.reward
            for agent, pending in self._pending.items()
            if agent in self.agent_episodes and (pending.has_action or pending.reward is not None)
        }

    @property
    def _hanging_rewards_begin(self) -> dict[AgentID, Any]:
        return early_rewards.totals(self._early_rewards)
