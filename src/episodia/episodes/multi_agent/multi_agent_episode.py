"""The trajectories of many agents, on one clock."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import Any, ClassVar, Literal, TypeAlias

from gymnasium import Space

from episodia.arguments import checked_flag, reject_unknown
from episodia.columns import DEFAULT_MODULE_ID
from episodia.episodes.columns.indexing import Index, as_count, as_flag, with_int_bounds
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import total_of
from episodia.episodes.display import multi_agent_display
from episodia.episodes.multi_agent import joint_stacking, multi_agent_state
from episodia.episodes.multi_agent import multi_agent_construction as construction
from episodia.episodes.multi_agent import multi_agent_stepping as stepping
from episodia.episodes.multi_agent.agent_columns import ACTIONS, INFOS, OBSERVATIONS, REWARDS
from episodia.episodes.multi_agent.multi_agent_getters import Query, read, read_extra_outputs, set_column
from episodia.episodes.multi_agent.multi_agent_stepping import ALL, EnvStep, check_mapping, true_flags
from episodia.episodes.multi_agent.pending_step import MissingFinalObservation, PendingStep, RewardsAfterDone
from episodia.episodes.multi_agent.roster import Roster
from episodia.episodes.multi_agent.timeline import SKIPPED, Clock
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError, IndexTypeError
from episodia.trees import fresh
from episodia.types import AgentID, ModuleID

AgentToModule: TypeAlias = Callable[[AgentID, "MultiAgentEpisode"], ModuleID]


def _to_default_module(agent_id: AgentID, episode: MultiAgentEpisode) -> ModuleID:  # noqa: ARG001  # the signature
    """Let one module act for all agents."""
    return DEFAULT_MODULE_ID


class MultiAgentEpisode:
    """The trajectories of all agents of an environment: a `SingleAgentEpisode` for each, and one clock for all.

    Agents may join late, leave early, act in turns or rarely. An agent acts on an observation; its step is
    complete when it is shown the next one, and until then its action is pending and its rewards add up.

    Attributes that a subclass adds travel as those of `SingleAgentEpisode` do.

    Attributes:
        id_: The name of the episode; its chunks share it.
        is_terminated: Whether the episode has ended by the rules of the environment.
        is_truncated: Whether the episode was stopped from outside.
        roster: The record of each agent and the environment's clock; internal to the package, as `Roster` is.

    >>> episode = MultiAgentEpisode(id_="game")
    >>> episode.add_env_reset(observations={"white": 0})
    >>> episode.add_env_step(observations={"black": 1}, actions={"white": "e4"}, rewards={"white": 0.0})
    >>> episode.add_env_step(observations={"white": 2}, actions={"black": "e5"}, rewards={"white": 0.5, "black": 0.0})
    >>> episode
    MultiAgentEpisode(len=2, agents=2, return=0.5, id_='game')
    >>> episode.get_observations(-1), episode.get_actions(0), episode.get_actions(-1)
    ({'white': 2}, {'white': 'e4'}, {'black': 'e5'})
    >>> episode.agent_episodes["white"].get_rewards()
    [0.5]
    """

    SKIP_ENV_TS_TAG: ClassVar[str] = SKIPPED

    def __init__(
        self,
        id_: str | None = None,
        *,
        observations: list[Mapping[AgentID, Any]] | None = None,
        observation_space: Mapping[AgentID, Space[Any]] | None = None,
        infos: list[Mapping[AgentID, Any]] | None = None,
        actions: list[Mapping[AgentID, Any]] | None = None,
        action_space: Mapping[AgentID, Space[Any]] | None = None,
        rewards: list[Mapping[AgentID, Any]] | None = None,
        terminateds: Mapping[AgentID, bool] | bool = False,
        truncateds: Mapping[AgentID, bool] | bool = False,
        extra_model_outputs: list[Mapping[AgentID, Any]] | None = None,
        env_t_started: int | None = None,
        agent_t_started: Mapping[AgentID, int] | None = None,
        len_lookback_buffer: int | Literal["auto"] = "auto",
        agent_episode_ids: Mapping[AgentID, str] | None = None,
        agent_module_ids: Mapping[AgentID, ModuleID] | None = None,
        agent_to_module_mapping_fn: AgentToModule | None = None,
        missing_final_observation: MissingFinalObservation = "error",
        rewards_after_done: RewardsAfterDone = "error",
        **unknown: object,
    ) -> None:
        """Create an episode, empty or from lists with one dict of agents for each environment step.

        Args:
            id_: A name for the episode; a random one by default.
            observations: One dict for each environment step, the reset included.
            observation_space: The space of each agent's observations.
            infos: One dict of info dicts for each entry of `observations`.
            actions: One dict for each environment step: one fewer than observations; or as many, if the last step was taken and
                its observations are not known yet. The same for `rewards` and `extra_model_outputs`.
            action_space: The space of each agent's actions.
            rewards: One dict for each entry of `actions`.
            terminateds: Which agents have terminated by the end of the data; True or `"__all__"` for all. An agent with an
                observation that it does not act on, while others go on, counts as terminated unless it stands here with False.
            truncateds: Which agents were truncated at the end of the data.
            extra_model_outputs: One dict of `{agent: {name: output}}` for each entry of `actions`.
            env_t_started: The environment step of the first entry after the lookback; 0 by default.
            agent_t_started: Each agent's own time step there; 0 by default.
            len_lookback_buffer: How many of the given environment steps are the past; "auto" means all.
            agent_episode_ids: Names for the agents' own episodes; derived from `id_` by default.
            agent_module_ids: Which module acts for which agent, where this is known.
            agent_to_module_mapping_fn: Called with an agent's id and this episode when its module is first asked for.
            missing_final_observation: What happens when an agent that has acted is truncated and not shown a last observation:
                "error", or "repeat" to take its previous one.
            rewards_after_done: What happens with rewards and infos for an agent that is done: "error", or "add" to its last
                step and its last info.
            **unknown: Rejected, with the names of the flags.

        Raises:
            EpisodeError: If the lists do not fit together.
        """
        if unknown:
            reject_unknown(MultiAgentEpisode.__init__, unknown, "terminateds", "truncateds")
        self.id_ = uuid.uuid4().hex if id_ is None else id_
        where = f"episode {self.id_!r}"
        self.observation_space = construction.as_spaces("observation_space", observation_space, where)
        self.action_space = construction.as_spaces("action_space", action_space, where)
        self.agent_to_module_mapping_fn: AgentToModule = construction.as_mapping_function(
            agent_to_module_mapping_fn, _to_default_module, where
        )
        self.missing_final_observation: MissingFinalObservation = construction.as_policy(
            "missing_final_observation", missing_final_observation, ("error", "repeat"), where
        )
        self.rewards_after_done: RewardsAfterDone = construction.as_policy(
            "rewards_after_done", rewards_after_done, ("error", "add"), where
        )
        self.is_terminated = False
        self.is_truncated = False
        self._agent_to_module_mapping: dict[AgentID, ModuleID] = construction.as_dict(
            "agent_module_ids", agent_module_ids, where
        )
        self._agent_episode_ids: dict[AgentID, str] = construction.as_dict(
            "agent_episode_ids", agent_episode_ids, where
        )
        self.env_index: int | None = None
        self._finalized = False
        self._custom_data: dict[Any, Any] = {}
        started = as_count("env_t_started", 0 if env_t_started is None else env_t_started, where)
        self.roster = Roster((), Clock(started, started))
        data = {"observations": observations, "infos": infos, "actions": actions, "rewards": rewards}
        construction.replay(
            self,
            {**data, "extra_model_outputs": extra_model_outputs},
            construction.as_flags("terminateds", terminateds, where, ALL),
            construction.as_flags("truncateds", truncateds, where, ALL),
            construction.as_times("agent_t_started", agent_t_started, where),
            len_lookback_buffer,
        )

    # --- Building it step by step -----------------------------------------------------------------------------------

    def add_env_reset(
        self, *, observations: Mapping[AgentID, Any], infos: Mapping[AgentID, Mapping[str, Any]] | None = None
    ) -> None:
        """Store what `env.reset()` returned, for the agents that are there at the start.

        Raises:
            EpisodeError: If the episode was reset before.
        """
        if self.is_reset or self.is_done:
            raise EpisodeError(
                f"episode {self.id_!r}: found a second reset, expected `add_env_reset` once, on a new episode (this one is at "
                f"environment step {self.env_t}). "
                "Make a new `MultiAgentEpisode` for each reset; continue this one with `add_env_step`."
            )
        given = check_mapping(self, "observations", observations), check_mapping(self, "infos", infos)
        clock, known = self.roster.clock, len(self._agent_to_module_mapping)
        try:
            records = stepping.first_records(self, *given, clock.env_t)
        except BaseException:  # also from the user's mapping function
            self._forget_modules(known)
            raise
        clock.was_reset, clock.start_time = True, perf_counter()
        self.roster = Roster(records, clock)

    def add_env_step(
        self,
        observations: Mapping[AgentID, Any],
        actions: Mapping[AgentID, Any],
        rewards: Mapping[AgentID, Any],
        infos: Mapping[AgentID, Any] | None = None,
        *,
        terminateds: Mapping[AgentID, bool] | None = None,
        truncateds: Mapping[AgentID, bool] | None = None,
        extra_model_outputs: Mapping[AgentID, Any] | None = None,
        **unknown: object,
    ) -> None:
        """Store one environment step; each dict holds only the agents that it concerns.

        An agent with an action and an observation has completed a step. One with an action only waits for its next
        observation. One with an observation only has either waited for it, or is new. Rewards of agents that wait add up.

        Args:
            observations: The observations after the actions.
            actions: The actions of the agents that acted.
            rewards: Numbers; also for agents that wait.
            infos: Info dicts; those of an agent without an observation are kept for its next one.
            terminateds: Agents that have ended; `"__all__"` ends the episode, and agents without a flag of their own.
            truncateds: Agents that were stopped; `"__all__"` stops the episode, and agents without a flag of their own.
            extra_model_outputs: What else the modules computed, as `{agent: {name: output}}`.
            **unknown: Rejected, with the names of the flags.

        Raises:
            EpisodeError: If the episode is over or not reset, or a part of the step does not fit. Nothing is stored then.
        """
        if unknown:
            reject_unknown(MultiAgentEpisode.add_env_step, unknown, "terminateds", "truncateds")
        roster = self.roster
        if self.is_terminated or self.is_truncated or not roster.clock.was_reset or roster.has_split_steps:
            raise stepping.cannot_step(self)
        columns = (
            check_mapping(self, "observations", observations),
            check_mapping(self, "actions", actions),
            check_mapping(self, "rewards", rewards),
            stepping.of_agents(check_mapping(self, "infos", infos)),
            check_mapping(self, "extra_model_outputs", extra_model_outputs),
        )
        flags = true_flags(self, "terminateds", terminateds), true_flags(self, "truncateds", truncateds)
        step, known = EnvStep(self, columns, *flags), len(self._agent_to_module_mapping)
        try:
            roster.store(step)
            if roster.num_ended or step.has_ends:
                self._end(flags)
        except BaseException:
            if self.env_t == step.env_t:  # an interrupt came after the step was stored
                self._end(flags)
            else:
                self._forget_modules(known)
            raise

    def _end(self, flags: tuple[Mapping[AgentID, bool], Mapping[AgentID, bool]]) -> None:
        self.is_terminated, self.is_truncated = self.roster.ends(*(ALL in ended for ended in flags))

    # --- Chunks -----------------------------------------------------------------------------------------------------

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """Return the chunk that continues this episode, with what is pending and some environment steps of lookback.

        Raises:
            EpisodeError: If the episode is done.
        """
        if self.is_done:
            raise EpisodeError(
                f"episode {self.id_!r}: found `cut()` after the end (environment step {self.env_t}), expected a running "
                "episode. A finished episode has no continuation; use `slice` to take it apart."
            )
        return self._with(
            self.roster.cut(as_count("len_lookback_buffer", len_lookback_buffer, f"episode {self.id_!r}"))
        )

    def env_steps_back(self, agent_steps: int) -> int:
        """Return how many environment steps of lookback hold `agent_steps` steps of every agent that goes on.

        A pipeline's `lookback` counts agents' own steps, `cut` counts environment steps, and agents that take turns or wait
        have fewer of theirs: `episode.cut(episode.env_steps_back(pipeline.lookback))`. An agent that has not made so many
        steps has all of them then. From its first row on, which stands at its last observation, an agent also sees what
        others had `agent_steps` environment steps before that.

        >>> episode = MultiAgentEpisode()
        >>> episode.add_env_reset(observations={"a": 0, "b": 0})
        >>> for t in range(6):  # b acts on every third observation
        ...     shown = {"a": t, "b": t} if t % 3 == 2 else {"a": t}
        ...     actions = {"a": 1, "b": 1} if t % 3 == 0 else {"a": 1}
        ...     episode.add_env_step(shown, actions, dict.fromkeys(actions, 0.0))
        >>> back = episode.env_steps_back(2)
        >>> back, episode.cut(back).get_actions(slice(-2, None), env_steps=False)
        (6, {'a': [1, 1], 'b': [1, 1]})

        Raises:
            EpisodeError: If `agent_steps` is not an integer from 0 up.
        """
        return self.roster.env_steps_back(as_count("agent_steps", agent_steps, f"episode {self.id_!r}"))

    def slice(self, slice_: Any, *, len_lookback_buffer: int | None = None) -> MultiAgentEpisode:
        """Return the environment steps that `slice_` (with a step of 1) picks: what a cut at its start would have at its end.

        A step belongs to the slice in which it is completed, so `episode[:k]` and `episode[k:]` have each step once, and
        joining them gives the episode back. What is not complete at the end of a slice is pending there, with its whole
        reward, and such a slice cannot be stepped on from.

        Args:
            slice_: Which environment steps; bounds are clipped as for a list.
            len_lookback_buffer: How many environment steps of lookback to keep in front; by default as many as this episode
                has.
        """
        wanted = self.env_lookback
        if len_lookback_buffer is not None:
            wanted = as_count("len_lookback_buffer", len_lookback_buffer, f"episode {self.id_!r}")
        start, stop = _bounds(self, slice_)
        picked = self._with(self.roster.part(start, stop, wanted))
        if stop == self.env_t:
            picked.is_terminated, picked.is_truncated = self.is_terminated, self.is_truncated
        return picked

    def __getitem__(self, slice_: Any) -> MultiAgentEpisode:
        return self.slice(slice_)

    def concat_episode(self, other: MultiAgentEpisode) -> None:
        """Append `other`, the chunk that continues this one; `other` is not changed.

        Raises:
            EpisodeError: If `other` is not the continuation. Nothing is changed then.
        """
        _check_continues(self, other)
        custom_data = copy.deepcopy(other.custom_data)
        try:
            roster = self.roster.joined(other.roster, finalized=self.is_finalized)
        except EpisodiaError as error:
            raise type(error)(f"episode {self.id_!r}, {error}") from error
        # Everything fits: from here on nothing can fail.
        self.roster = roster
        self.is_terminated, self.is_truncated = other.is_terminated, other.is_truncated
        self._agent_to_module_mapping.update(other._agent_to_module_mapping)
        self._custom_data.update(custom_data)

    def __copy__(self) -> MultiAgentEpisode:
        forked = self._with(self.roster.fork())
        forked.is_terminated, forked.is_truncated = self.is_terminated, self.is_truncated
        return forked

    def _with(self, roster: Roster) -> MultiAgentEpisode:
        """Return an episode with the agents of `roster` that has everything else in common with this one."""
        other = type(self).__new__(type(self))
        other.__dict__.update(vars(self))
        other.is_terminated = other.is_truncated = False
        other._agent_to_module_mapping = dict(self._agent_to_module_mapping)
        other._agent_episode_ids = dict(self._agent_episode_ids)
        other._finalized = self.is_finalized
        other._custom_data = copy.deepcopy(self._custom_data) if self._custom_data else {}
        other.roster = roster
        return other

    # --- Form -------------------------------------------------------------------------------------------------------

    def finalize(self, *, check_bounds: bool = True) -> MultiAgentEpisode:
        """Turn all agents' columns into arrays, in place, and return this episode.

        Args:
            check_bounds: Whether items have to lie inside of their spaces; `validate` asks for that in any case.

        Raises:
            EpisodeError: If `check_bounds` is neither True nor False.
            SpaceError: If an item lies outside of its space; nothing is changed then.
            ShapeError: If the items of a column do not fit together; nothing is changed then.
        """
        checked_flag(EpisodeError, f"episode {self.id_!r}", "check_bounds", check_bounds)
        try:
            joint_stacking.finalize(self.agent_episodes.values(), check_bounds=check_bounds)
        except EpisodiaError as error:
            raise type(error)(f"episode {self.id_!r}, {error}") from error
        self._finalized = True
        return self

    to_numpy = finalize

    # --- How far it is ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.roster.clock.env_t - self.roster.clock.env_t_started

    @property
    def env_t(self) -> int:
        """The current environment step."""
        return self.roster.clock.env_t

    @property
    def env_t_started(self) -> int:
        """The environment step at which this chunk begins, after its lookback."""
        return self.roster.clock.env_t_started

    @property
    def env_lookback(self) -> int:
        """The number of environment steps before its start that this chunk can look back to."""
        return self.roster.clock.env_lookback

    def env_steps(self) -> int:
        """Return the number of environment steps in this chunk."""
        return len(self)

    def agent_steps(self) -> int:
        """Return the number of complete steps in this chunk, added up over all agents."""
        return sum(len(single) for single in self.agent_episodes.values())

    @property
    def is_reset(self) -> bool:
        """Whether the episode has been reset."""
        return self.roster.clock.was_reset

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
        return self.roster.clock.duration_s

    # --- Who is in it -----------------------------------------------------------------------------------------------

    @property
    def agent_episodes(self) -> dict[AgentID, SingleAgentEpisode]:
        """The own episode of each agent that has one in this chunk."""
        return self.roster.episodes

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
        first, stop, lookback = self.roster.clock.first_env_t, self.env_t + 1, self.env_lookback
        return {
            agent: LookbackBuffer(
                self.roster.records[agent].timeline.entries(
                    first, stop, single.t_started - single.observations.lookback
                ),
                lookback,
            )
            for agent, single in self.agent_episodes.items()
        }

    def get_agents_to_act(self) -> set[AgentID]:
        """Return the agents with an observation at the last environment step that are not done."""
        singles = self.roster.episodes
        return {agent for agent in self.roster.observed_last if not singles[agent].is_done}

    def get_agents_that_stepped(self) -> set[AgentID]:
        """Return the agents with an observation at the last environment step, done or not."""
        return set(self.roster.observed_last)

    @property
    def custom_data(self) -> dict[Any, Any]:
        """A dictionary for your own use. It travels with the episode: copied by `cut` and `slice`, merged by `concat`."""
        return self._custom_data

    # --- What hangs, under RLlib's names ----------------------------------------------------------------------------

    @property
    def _hanging_actions_end(self) -> dict[AgentID, Any]:
        return {agent: fresh(pending.action) for agent, pending in self._pending() if pending.has_action}

    @property
    def _hanging_extra_model_outputs_end(self) -> dict[AgentID, dict[str, Any]]:
        return {
            agent: fresh(dict(pending.extra_model_outputs or {}))
            for agent, pending in self._pending()
            if pending.has_action
        }

    @property
    def _hanging_rewards_end(self) -> dict[AgentID, Any]:
        return {
            agent: 0.0 if pending.reward is None else pending.reward
            for agent, pending in self._pending()
            if pending.has_action or pending.reward is not None
        }

    @property
    def _hanging_rewards_begin(self) -> dict[AgentID, Any]:
        return {
            agent: total_of(reward for _, reward in record.early_rewards)
            for agent, record in self.roster.records.items()
            if record.early_rewards
        }

    def _pending(self) -> Iterator[tuple[AgentID, PendingStep]]:
        """Yield what is pending for the agents that have come."""
        for record in self.roster.present():
            if record.pending is not None:
                yield record.agent, record.pending

    # --- Reading ----------------------------------------------------------------------------------------------------

    def get_observations(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Any:
        """Return observations as `{agent: ...}`, without the agents that had none there.

        Args:
            indices: An index as for `LookbackBuffer.get`, counted in environment steps: 0 is the first after the lookback.
            agent_ids: One agent or several; all by default.
            env_steps: Pass False to count in each agent's own steps instead.
            neg_index_as_lookback: Let negative indices count from step 0 to the left.
            fill: What to put where an agent has nothing; all agents are in the result then.
            one_hot_discrete: Return one-hot vectors for discrete spaces.
            return_list: Return a list with one dict for each environment step.

        Raises:
            EpisodeIndexError: If an environment step is not there and `fill` is not given.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, one_hot_discrete, return_list)
        return read(self, OBSERVATIONS, query)

    def get_infos(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return infos; the arguments are those of `get_observations`."""
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, False, return_list)
        return read(self, INFOS, query)

    def get_actions(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        one_hot_discrete: bool = False,
        return_list: bool = False,
    ) -> Any:
        """Return actions, each at the environment step of the observation that it answers, pending ones included.

        The arguments are those of `get_observations`.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, one_hot_discrete, return_list)
        return read(self, ACTIONS, query)

    def get_rewards(
        self,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return rewards, each at the place of its action; those of a pending action are what has added up so far.

        The arguments are those of `get_observations`.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, False, return_list)
        return read(self, REWARDS, query)

    def get_extra_model_outputs(
        self,
        key: str | None = None,
        indices: Index = None,
        agent_ids: Any = None,
        *,
        env_steps: bool = True,
        neg_index_as_lookback: bool = False,
        fill: Any = None,
        return_list: bool = False,
    ) -> Any:
        """Return one extra model output, or all of them as `{agent: {name: ...}}` if `key` is None.

        The other arguments are those of `get_observations`.

        Raises:
            EpisodeKeyError: If no agent has an output of that name.
        """
        query = Query(indices, agent_ids, env_steps, neg_index_as_lookback, fill, False, return_list)
        return read_extra_outputs(self, key, query)

    # --- Writing ----------------------------------------------------------------------------------------------------

    def set_observations(
        self, *, new_data: Mapping[AgentID, Any], at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite observations of some agents, at their own steps; see `SingleAgentEpisode.set_observations`."""
        set_column(self, "observations", new_data, at_indices, neg_index_as_lookback)

    def set_actions(
        self, *, new_data: Mapping[AgentID, Any], at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite actions of some agents, at their own steps."""
        set_column(self, "actions", new_data, at_indices, neg_index_as_lookback)

    def set_rewards(
        self, *, new_data: Mapping[AgentID, Any], at_indices: Index = None, neg_index_as_lookback: bool = False
    ) -> None:
        """Overwrite rewards of some agents, at their own steps."""
        set_column(self, "rewards", new_data, at_indices, neg_index_as_lookback)

    def set_extra_model_outputs(
        self,
        *,
        key: str,
        new_data: Mapping[AgentID, Any],
        at_indices: Index = None,
        neg_index_as_lookback: bool = False,
    ) -> None:
        """Overwrite an extra model output of some agents, at their own steps."""
        set_column(self, "extra_model_outputs", new_data, at_indices, neg_index_as_lookback, key=key)

    # --- What it is -------------------------------------------------------------------------------------------------

    # An episode is not a sequence of items: its getters return those. Without this, Python would find an empty one.
    __iter__ = __reversed__ = __contains__ = None

    def module_for(self, agent_id: AgentID) -> ModuleID:
        """Return the module that acts for an agent; it is the same throughout the episode."""
        if construction.as_agent_id(agent_id, f"episode {self.id_!r}") not in self._agent_to_module_mapping:
            self._agent_to_module_mapping[agent_id] = self.agent_to_module_mapping_fn(agent_id, self)
        return self._agent_to_module_mapping[agent_id]

    def _forget_modules(self, known: int) -> None:
        """Forget the modules of all agents but the first `known` ones; the user's function may have asked for several."""
        while len(self._agent_to_module_mapping) > known:
            self._agent_to_module_mapping.popitem()

    def _known_ids(self) -> dict[str, list[list[Any]]]:
        """Return which module acts for which agent and the names of agents' episodes, as pairs: ids need not be strings."""
        return {
            "agent_module_ids": [list(pair) for pair in self._agent_to_module_mapping.items()],
            "agent_episode_ids": [list(pair) for pair in self._agent_episode_ids.items()],
        }

    def _new_agent_episode(self, agent: AgentID) -> SingleAgentEpisode:
        """Return an empty episode for an agent that comes."""
        single = SingleAgentEpisode(
            self._agent_episode_ids.get(agent, f"{self.id_}[{agent!r}]"),
            observation_space=construction.space_of(self.observation_space, agent),
            action_space=construction.space_of(self.action_space, agent),
            agent_id=agent,
            module_id=self.module_for(agent),
            multi_agent_episode_id=self.id_,
        )
        single.env_index, single.agent_index = self.env_index, list(self._agent_to_module_mapping).index(agent)
        version = self.weights_version
        if version is not None:
            single.weights_version = version
        return single

    @property
    def weights_version(self) -> int | None:
        """The version of the weights that choose the actions; setting it holds from the current step on, for all agents."""
        return self.roster.clock.weights_version

    @weights_version.setter
    def weights_version(self, version: int) -> None:
        self.roster.clock.use_version(version)
        self.roster.use_version(version, self.roster.present())

    def validate(self) -> None:
        """Check the episodes of all agents, and that they fit the common clock.

        Raises:
            EpisodeError: Saying which agent is wrong, and how.
        """
        for agent, single in self.agent_episodes.items():
            try:
                single.validate()
                self.roster.records[agent].check_timeline(self.env_t)
            except EpisodiaError as error:
                raise type(error)(f"episode {self.id_!r}, agent {agent!r}: {error}") from error

    def get_state(self) -> dict[str, Any]:
        """Return the episode as plain data, apart from `agent_to_module_mapping_fn`.

        What a subclass has added is not in it: that is for the subclass to say, in a `get_state` and a `from_state` of its
        own. Pickling carries everything.
        """
        return multi_agent_state.get_state(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> MultiAgentEpisode:
        """Return the episode that `get_state` described; the arrays in `state` are copied."""
        return multi_agent_state.from_state(cls, state)

    def __reduce__(self) -> tuple[Any, ...]:
        state = multi_agent_state.compact_state(self)
        return multi_agent_state.restore, (type(self), state), self._added_by_subclass() or None

    @classmethod
    def _without_subclass(cls, id_: str, **kwargs: Any) -> MultiAgentEpisode:
        """Return an episode that the constructor of a subclass, which may take other arguments, has not seen."""
        episode = cls.__new__(cls)
        MultiAgentEpisode.__init__(episode, id_, **kwargs)
        return episode

    def _added_by_subclass(self) -> dict[str, Any]:
        """Return the attributes that only a subclass has."""
        if type(self) is MultiAgentEpisode:
            return {}
        own = vars(MultiAgentEpisode(self.id_))
        return {name: value for name, value in vars(self).items() if name not in own}

    def print(self) -> None:
        """Print which agent had an observation at which environment step."""
        print(multi_agent_display.timeline_text(self))  # noqa: T201  # what it is for

    def plot(self, *columns: str, ax: Any = None) -> Any:
        """Draw which agent saw and did something when, and how it ended; return matplotlib's figure.

        Args:
            *columns: Columns of single numbers, such as `"rewards"`, that are drawn below, with a line for each agent.
            ax: Draw into this axes, or into these, one for each panel; by default into a new figure.

        Raises:
            EpisodeKeyError: If no agent has such a column.
            EpisodeError: If the items of a column are not single numbers, or `ax` does not have as many axes.
            MissingExtraError: If matplotlib is not installed.
        """
        return multi_agent_display.plot(self, columns, ax)

    def __repr__(self) -> str:
        return multi_agent_display.episode_text(self)

    def _repr_html_(self) -> str:
        return multi_agent_display.episode_html(self)


def _bounds(episode: MultiAgentEpisode, slice_: Any) -> tuple[int, int]:
    """Return the environment steps at which a slice begins and ends."""
    if not isinstance(slice_, slice):
        raise IndexTypeError(
            f"episode {episode.id_!r}: found the index {slice_!r}, expected a slice of environment steps such as "
            "`episode[3:7]`. "
            "Single items come from the getters, `episode.get_observations(3)`."
        )
    steps = range(len(episode))[with_int_bounds(slice_, f"episode {episode.id_!r}")]
    if steps.step != 1:
        raise EpisodeError(
            f"episode {episode.id_!r}: found a slice with step {steps.step}, expected 1: agents would lose the observations in "
            "between. Slice the agents' own episodes instead."
        )
    start = episode.env_t_started + steps.start
    return start, max(start, episode.env_t_started + steps.stop)


def _check_continues(episode: MultiAgentEpisode, other: Any) -> None:
    problem = None
    if not isinstance(other, type(episode)):
        problem = f"found {other!r}"
    elif other.id_ != episode.id_:
        problem = f"found a chunk of the episode {other.id_!r}"
    elif episode.is_done and (len(other) or not other.is_done):  # the rest of a whole episode is empty, and done
        problem = f"found a chunk after the end (environment step {episode.env_t})"
    elif other.env_t_started != episode.env_t:
        problem = f"found a chunk that starts at environment step {other.env_t_started}"
    else:
        alive = [agent for agent, single in episode.agent_episodes.items() if not single.is_done]
        missing = [agent for agent in alive if agent not in other.agent_episodes]
        if missing:
            problem = f"found a chunk without the agents {missing}, which have not ended"
    if problem:
        raise EpisodeError(
            f"episode {episode.id_!r}: {problem}, expected the continuation of this episode from environment step "
            f"{episode.env_t} on. Concatenate only what `cut()` returned, and in order."
        )
