"""One environment step of a multi-agent episode: each agent's record stores its part, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from operator import countOf
from typing import TYPE_CHECKING, Any, Final, final

from episodia.episodes.columns.indexing import as_flag
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.rewards import as_reward
from episodia.episodes.multi_agent import pending_step as rules
from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.episodes.multi_agent.pending_step import PendingStep, completes_at_once
from episodia.episodes.single_agent.single_agent_columns import as_extras, as_infos
from episodia.errors import EpisodeError, EpisodiaError
from episodia.trees import describe
from episodia.types import AgentID

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode

# Stands for all agents, among flags.
ALL: Final = "__all__"
# What RLlib's environments may have among their infos, beside those of agents.
COMMON: Final = "__common__"

_NO_FLAGS: Mapping[AgentID, bool] = {}


@final
class EnvStep:
    """The results of an environment step, its actions, and how to undo what is stored.

    Attributes:
        observations: The observations, by agent.
        actions: The actions, by agent.
        rewards: The rewards, by agent.
        infos: The infos, by agent.
        extra_model_outputs: The extra model outputs, by agent.
        terminateds: The flags that are true, by agent; `ALL` among them.
        truncateds: As `terminateds`.
        has_ends: Whether there are any flags.
        env_t: The environment step that the observations stand at.
        allowed: What the episode allows, as a part of every situation; see `pending_step`.
        completes: Whether every agent that is free and goes on completes a step by it.
        parts_for_all: What `parts_for` returns for every agent of the step; 0 if it is not the same for all.
        episode: The episode that the step is stored in.
        undo: Functions that take back what is stored, the first one last.
        completed: The records that completed a step at once, and what `AgentRecord.take_back_step` needs.
        answered: Records whose next step may be chosen by another version of the weights.
        num_ended: How many agents have ended with the step.
    """

    # Made for every environment step, so without the cost of a dataclass.
    __slots__ = (
        "actions",
        "allowed",
        "answered",
        "completed",
        "completes",
        "env_t",
        "episode",
        "extra_model_outputs",
        "has_ends",
        "infos",
        "num_ended",
        "observations",
        "parts_for_all",
        "rewards",
        "terminateds",
        "truncateds",
        "undo",
    )

    def __init__(
        self,
        episode: MultiAgentEpisode,
        columns: tuple[Mapping[Any, Any], Mapping[Any, Any], Mapping[Any, Any], Mapping[Any, Any], Mapping[Any, Any]],
        terminateds: Mapping[Any, bool],
        truncateds: Mapping[Any, bool],
    ) -> None:
        """Take observations, actions, rewards, infos and extra model outputs, and the flags that are true."""
        self.observations, self.actions, self.rewards, self.infos, self.extra_model_outputs = columns
        self.terminateds, self.truncateds = terminateds, truncateds
        self.has_ends = bool(terminateds or truncateds)
        self.episode, self.env_t = episode, episode.roster.clock.env_t + 1
        may_repeat, may_add = episode.missing_final_observation == "repeat", episode.rewards_after_done == "add"
        self.allowed = rules.MAY_REPEAT * may_repeat | rules.MAY_ADD * may_add
        self.undo: list[Callable[[], object]] = []
        self.completed: list[tuple[AgentRecord, PendingStep | None, int, float | None, dict[str, LookbackBuffer]]] = []
        self.answered: list[AgentRecord] = []
        self.num_ended = 0

        self.parts_for_all = self._common_parts()
        self.completes = self.parts_for_all > 0 and completes_at_once(self.parts_for_all)

    def _common_parts(self) -> int:
        """Return what the step has for its agents, if all of them act, are shown what follows and are paid."""
        shown = self.observations.keys()
        if (
            not shown
            or shown != self.actions.keys()
            or shown != self.rewards.keys()
            or not self.infos.keys() <= shown
            or not self.extra_model_outputs.keys() <= shown
            or (self.has_ends and not (self.terminateds.keys() | self.truncateds.keys()) <= shown)
        ):
            return 0
        # Infos and outputs make no difference to an agent that acts; a reward that is None is found when it is stored.
        return self.allowed | rules.SHOWN | rules.ACTS | rules.PAID

    def agents(self, known: Iterable[AgentID]) -> Iterable[AgentID]:
        """Return every agent that the step has something for, once; if it ends for all, all that are `known`."""
        found: Mapping[AgentID, Any] = self.observations
        if self.parts_for_all:
            return found
        for group in (self.actions, self.rewards, self.infos, self.extra_model_outputs):
            if group and not group.keys() <= found.keys():
                found = {**found, **group}
        if self.has_ends:
            flagged = (agent for flags in (self.terminateds, self.truncateds) for agent in flags if agent != ALL)
            everybody = known if ALL in self.terminateds or ALL in self.truncateds else ()
            return {**dict.fromkeys(found), **dict.fromkeys(flagged), **dict.fromkeys(everybody)}
        return found

    def parts_for(self, agent: AgentID) -> int:
        """Return what the step has for an agent, apart from flags, as a part of its situation."""
        parts = self.allowed
        if agent in self.observations:
            parts |= rules.SHOWN
        if agent in self.actions:
            parts |= rules.ACTS
        if self.rewards.get(agent) is not None:
            parts |= rules.PAID
        if self.infos and _is_something(self.infos.get(agent)):
            parts |= rules.INFORMED
        if self.extra_model_outputs and _is_something(self.extra_model_outputs.get(agent)):
            parts |= rules.HAS_OUTPUTS
        return parts

    def ending_of(self, agent: AgentID) -> int:
        """Return whether an agent ends with the step, as a part of its situation."""
        terminated, truncated = end_in(agent, self.terminateds, self.truncateds)
        return rules.TERMINATES * terminated | rules.TRUNCATES * truncated

    def parts(self, agent: AgentID) -> tuple[Any, Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """Return the reward, the infos and the extra model outputs of one agent, None for what it has not.

        Raises:
            EpisodeError: If one of them is of the wrong kind.
        """
        reward, column = self.rewards.get(agent), "reward"
        try:
            if reward is not None and type(reward) is not float:
                reward = as_reward(reward)
            infos, column = self.infos.get(agent), "infos"
            if infos is not None and type(infos) is not dict:
                infos = as_infos(infos)
            extra_model_outputs, column = self.extra_model_outputs.get(agent), "extra_model_outputs"
            if extra_model_outputs is not None and type(extra_model_outputs) is not dict:
                extra_model_outputs = as_extras(extra_model_outputs)
        except EpisodiaError as error:
            raise type(error)(f"{column}: {error}") from error
        return reward, infos or None, extra_model_outputs or None

    def take_back(self) -> None:
        """Leave the records of all agents as they were before."""
        for undo in reversed(self.undo):
            undo()
        for record, pending, t, last_step_time, columns in self.completed:
            record.take_back_step(pending, t, last_step_time, columns)


def _is_something(given: Any) -> bool:
    return given is not None and (type(given) is not dict or bool(given))


def first_records(
    episode: MultiAgentEpisode, observations: Mapping[AgentID, Any], infos: Mapping[AgentID, Any], env_t: int
) -> list[AgentRecord]:
    """Return the records that an episode begins with: of agents with an observation, or with infos that wait for it."""
    infos, records = of_agents(infos), {}
    for agent, observation in observations.items():
        check_name(agent)
        records[agent] = record = AgentRecord(agent)
        single = episode._new_agent_episode(agent)
        try:
            record.start(single, observation, infos.get(agent), env_t, finalized=episode.is_finalized)
        except EpisodiaError as error:
            raise type(error)(f"episode {episode.id_!r}, agent {agent!r}: {error}") from error
    for agent, given in infos.items():
        if agent not in observations:
            try:
                check_name(agent)
                waiting = as_infos(given)
            except EpisodiaError as error:
                raise type(error)(f"episode {episode.id_!r}, agent {agent!r}, infos of the reset: {error}") from error
            if waiting:
                records[agent] = AgentRecord(agent)
                records[agent].pending = PendingStep(infos=waiting)
    return list(records.values())


def of_agents(infos: Mapping[AgentID, Any]) -> Mapping[AgentID, Any]:
    """Return the infos of agents, without those that are common to all."""
    return {agent: info for agent, info in infos.items() if agent != COMMON} if COMMON in infos else infos


def check_name(agent: AgentID) -> None:
    """Check that an agent does not have the name that stands for all.

    Raises:
        EpisodeError: If it does.
    """
    if agent == ALL:
        raise EpisodeError(
            f"found an agent named {ALL!r}, expected another name: it stands for all agents, among flags only."
        )


def end_in(agent: AgentID, terminated: Container[AgentID], truncated: Container[AgentID]) -> tuple[bool, bool]:
    """Return whether an agent terminates and whether it is truncated, where these do: its own flags go before those of all.

    >>> end_in("a", {"b", "__all__"}, {"a"}), end_in("c", {"b", "__all__"}, {"a"})
    ((False, True), (True, False))
    """
    own = agent in terminated, agent in truncated
    return own if any(own) else (ALL in terminated, ALL in truncated)


def true_flags(episode: MultiAgentEpisode, name: str, flags: Any) -> Mapping[AgentID, bool]:
    """Return those of `flags`, the argument `name`, that are true.

    Raises:
        EpisodeError: If it is not a dict of agents and flags.
    """
    if flags is None:
        return _NO_FLAGS
    given = check_mapping(episode, name, flags)
    if countOf(map(type, given.values()), bool) < len(given):
        # As in the other arguments, None is nothing.
        given = {
            agent: flag_of(episode, f"agent {agent!r}, environment step {episode.env_t + 1}, {name}", flag)
            for agent, flag in given.items()
            if flag is not None
        }
    return {agent: True for agent, flag in given.items() if flag} if True in given.values() else _NO_FLAGS


def check_mapping(episode: MultiAgentEpisode, name: str, value: Any) -> Mapping[Any, Any]:
    """Return `value`, an empty dict for None.

    Raises:
        EpisodeError: If it is not a dict of agents.
    """
    if type(value) is dict:
        return value
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise EpisodeError(
            f"episode {episode.id_!r}, {name}: found {describe(value)}, expected a dict with an entry for each agent. "
            "Leave out agents that have none."
        )
    return value


def flag_of(episode: MultiAgentEpisode, name: str, value: Any) -> bool:
    """Return `value`, the argument `name`, which is True or False."""
    try:
        return as_flag(value)
    except EpisodiaError as error:
        raise type(error)(f"episode {episode.id_!r}, {name}: {error}") from error


def cannot_step(episode: MultiAgentEpisode) -> EpisodeError:
    """Return the error for a step that the state of the episode does not allow."""
    if episode.is_done:
        how = "terminated" if episode.is_terminated else "truncated"
        return EpisodeError(
            f"episode {episode.id_!r}: found a step after the end, expected none: it was {how} at environment step "
            f"{episode.env_t}. "
            "Make a new `MultiAgentEpisode` after each end."
        )
    split = [agent for agent, record in episode.roster.records.items() if record.is_split]
    if split:
        return EpisodeError(
            f"episode {episode.id_!r}: found a step after a slice in which the agents {split} wait, "
            "expected none: their pending rewards are those of the whole steps, with what came after the slice, and would "
            "count twice. Step on from what `cut()` returns, or from a slice to the end; to return to a moment of an episode, "
            "take a `copy.copy(episode)` there."
        )
    return EpisodeError(
        f"episode {episode.id_!r}: found a step before the reset, expected `add_env_reset` first. "
        "Store what `env.reset()` returned with `add_env_reset(observations=..., infos=...)`."
    )
