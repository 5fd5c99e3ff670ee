"""The trajectories of many agents, on one clock."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, ClassVar, Literal, TypeAlias

from gymnasium import Space

from episodia.arguments import checked_flag
from episodia.episodes.columns.indexing import as_count
from episodia.episodes.display import multi_agent_plots
from episodia.episodes.display import multi_agent_tables as multi_agent_display
from episodia.episodes.multi_agent import (
    joint_stacking,
    multi_agent_chunks,
    multi_agent_lives,
    multi_agent_replay,
    multi_agent_state,
)
from episodia.episodes.multi_agent import multi_agent_arguments as arguments
from episodia.episodes.multi_agent.multi_agent_columns import MultiAgentColumns
from episodia.episodes.multi_agent.multi_agent_facts import AgentID, ModuleID
from episodia.episodes.multi_agent.multi_agent_lives import ALL
from episodia.episodes.multi_agent.multi_agent_stepping import (
    EnvStep,
    add_env_step,
    cannot_step,
    check_mapping,
    true_flags,
)
from episodia.episodes.multi_agent.pending_step import MissingFinalObservation, RewardsAfterDone
from episodia.episodes.multi_agent.timeline import SKIPPED
from episodia.episodes.single_agent import weights_versions as versions
from episodia.errors import EpisodeError, EpisodiaError

AgentToModule: TypeAlias = Callable[[AgentID, "MultiAgentEpisode"], ModuleID]

DEFAULT_MODULE_ID = "default_policy"


def to_default_module(agent_id: AgentID, episode: MultiAgentEpisode) -> ModuleID:  # noqa: ARG001  # the signature
    """Let one module act for all agents."""
    return DEFAULT_MODULE_ID


class MultiAgentEpisode(MultiAgentColumns):
    """What happened to all agents of an environment: a `SingleAgentEpisode` for each, and one clock for all.

    Agents may come late, leave early, act in turns or every now and then. An agent acts on an observation; its step is
    complete when it is shown the next one, and until then its action is pending and its rewards add up.

    Attributes that a subclass adds travel as those of `SingleAgentEpisode` do.

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
    ) -> None:
        """Create an episode, empty or from lists with one dict of agents for each environment step.

        Args:
            id_: A name for the episode; a random one by default.
            observations: One dict for each environment step, the reset included.
            observation_space: The space of each agent's observations.
            infos: One dict of info dicts for each entry of `observations`.
            actions: One dict for each environment step: one fewer than observations.
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

        Raises:
            EpisodeError: If the lists do not fit together.
        """
        self.id_ = uuid.uuid4().hex if id_ is None else id_
        where = f"episode {self.id_!r}"
        self.observation_space = arguments.as_spaces("observation_space", observation_space, where)
        self.action_space = arguments.as_spaces("action_space", action_space, where)
        self.agent_to_module_mapping_fn: AgentToModule = arguments.as_mapping_function(
            agent_to_module_mapping_fn, to_default_module, where
        )
        self.missing_final_observation = arguments.as_policy(
            "missing_final_observation", missing_final_observation, ("error", "repeat"), where
        )
        self.rewards_after_done = arguments.as_policy("rewards_after_done", rewards_after_done, ("error", "add"), where)
        self.env_t_started = self.env_t = as_count(
            "env_t_started", 0 if env_t_started is None else env_t_started, where
        )
        self.env_lookback = 0
        self.is_terminated = False
        self.is_truncated = False
        self.agent_episodes = {}
        self._agent_to_module_mapping = arguments.as_dict("agent_module_ids", agent_module_ids, where)
        self._agent_episode_ids = arguments.as_dict("agent_episode_ids", agent_episode_ids, where)
        self._timelines = {}
        self._pending = {}
        self._ended = {}
        self._gone = {}
        self._departed = {}
        self._early_rewards = {}
        self._split_steps = ()
        self._carried = frozenset()
        self._observed_last = set()
        self._was_reset = False
        self._finalized = False
        self._custom_data = {}
        self._weights_versions = ()
        self._start_time = None
        self._last_step_time = None
        data = {"observations": observations, "infos": infos, "actions": actions, "rewards": rewards}
        multi_agent_replay.replay(
            self,
            {**data, "extra_model_outputs": extra_model_outputs},
            arguments.as_flags("terminateds", terminateds, where, ALL),
            arguments.as_flags("truncateds", truncateds, where, ALL),
            arguments.as_times("agent_t_started", agent_t_started, where),
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
        if self._was_reset or self.is_done:
            raise EpisodeError(
                f"episode {self.id_!r}: found a second reset, expected `add_env_reset` once, on a new episode (this one is at "
                f"environment step {self.env_t}). "
                "Make a new `MultiAgentEpisode` for each reset; continue this one with `add_env_step`."
            )
        multi_agent_lives.start(
            self, check_mapping(self, "observations", observations), check_mapping(self, "infos", infos)
        )
        self._start_time = perf_counter()

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

        Raises:
            EpisodeError: If the episode is over or not reset, or a part of the step does not fit. Nothing is stored then.
        """
        if self.is_done or not self._was_reset or self._split_steps:
            raise cannot_step(self)
        add_env_step(
            self,
            EnvStep(
                check_mapping(self, "observations", observations),
                check_mapping(self, "actions", actions),
                check_mapping(self, "rewards", rewards),
                multi_agent_lives.of_agents(check_mapping(self, "infos", infos)),
                true_flags(self, "terminateds", terminateds),
                true_flags(self, "truncateds", truncateds),
                check_mapping(self, "extra_model_outputs", extra_model_outputs),
            ),
        )

    # --- Chunks -----------------------------------------------------------------------------------------------------

    def cut(self, len_lookback_buffer: int = 0) -> MultiAgentEpisode:
        """Return the chunk that continues this episode, with what is pending and some environment steps of lookback.

        Raises:
            EpisodeError: If the episode is done.
        """
        return multi_agent_chunks.cut(self, len_lookback_buffer)

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
            EpisodeError: If `agent_steps` is no number from 0 up.
        """
        return multi_agent_chunks.env_steps_back(self, agent_steps)

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
        return multi_agent_chunks.part(self, slice_, len_lookback_buffer)

    def __getitem__(self, slice_: Any) -> MultiAgentEpisode:
        return multi_agent_chunks.part(self, slice_, None)

    def concat_episode(self, other: MultiAgentEpisode) -> None:
        """Append `other`, the chunk that continues this one; `other` is not changed.

        Raises:
            EpisodeError: If `other` is not the continuation. Nothing is changed then.
        """
        multi_agent_chunks.concat(self, other)

    def __copy__(self) -> MultiAgentEpisode:
        return multi_agent_chunks.fork(self)

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

    # --- What it is -------------------------------------------------------------------------------------------------

    # An episode is no sequence of items: its getters are. Without this, Python would find an empty one.
    __iter__ = __reversed__ = __contains__ = None

    def module_for(self, agent_id: AgentID) -> ModuleID:
        """Return the module that acts for an agent; it is the same throughout the episode."""
        if arguments.as_agent_id(agent_id, f"episode {self.id_!r}") not in self._agent_to_module_mapping:
            self._agent_to_module_mapping[agent_id] = self.agent_to_module_mapping_fn(agent_id, self)
        return self._agent_to_module_mapping[agent_id]

    @property
    def weights_version(self) -> int | None:
        """The version of the weights that choose the actions; setting it holds from the current step on, for all agents."""
        return versions.version_at(self._weights_versions, self.env_t)

    @weights_version.setter
    def weights_version(self, version: int) -> None:
        self._weights_versions = versions.with_version(self._weights_versions, self.env_t, version)
        for agent, single in self.agent_episodes.items():
            # An action that is pending was chosen before: the version holds from the agent's next step on.
            is_pending = agent in self._pending and self._pending[agent].has_action
            if not (is_pending or single.is_done):
                single.weights_version = version

    def validate(self) -> None:
        """Check the episodes of all agents, and that they fit the common clock.

        Raises:
            EpisodeError: Saying which agent is wrong, and how.
        """
        for agent, single in self.agent_episodes.items():
            try:
                single.validate()
                multi_agent_lives.check_timeline(self, agent)
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
            EpisodeError: If items of a column are no single numbers, or `ax` is not as many axes.
            MissingExtraError: If matplotlib is not installed.
        """
        return multi_agent_plots.plot(self, columns, ax)

    def __repr__(self) -> str:
        return multi_agent_display.episode_text(self)

    def _repr_html_(self) -> str:
        return multi_agent_display.episode_html(self)
