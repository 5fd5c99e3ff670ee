"""One environment step of a multi-agent episode: first what it means for each agent, then storing it, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import countOf
from typing import TYPE_CHECKING, Any

from episodia.episodes.columns.indexing import as_flag
from episodia.episodes.columns.rewards import as_reward
from episodia.episodes.multi_agent.multi_agent_lives import ALL, check_name, end_in, has_ended
from episodia.episodes.multi_agent.multi_agent_storing import Changes, commit, store, store_plain
from episodia.episodes.multi_agent.pending_step import NOTHING, AgentData, Outcome, PendingStep, advance, merged
from episodia.episodes.single_agent.single_agent_columns import as_extras, as_infos
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError
from episodia.trees import describe

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
    from episodia.episodes.multi_agent.multi_agent_facts import AgentID, MultiAgentFacts


@dataclass(slots=True)
class EnvStep:
    """What an environment returned for one step, and the actions that it was given; flags only where they are true."""

    observations: Mapping[Any, Any]
    actions: Mapping[Any, Any]
    rewards: Mapping[Any, Any]
    infos: Mapping[Any, Any]
    terminateds: Mapping[Any, bool]
    truncateds: Mapping[Any, bool]
    extra_model_outputs: Mapping[Any, Any]

    def has_only(self, agents: Mapping[AgentID, Any]) -> bool:
        """Return whether nothing in the step is for others than `agents`, none of which ends."""
        known = agents.keys()
        return (
            self.observations.keys() <= known
            and self.actions.keys() <= known
            and self.rewards.keys() <= known
            and (not self.infos or self.infos.keys() <= known)
            and (not self.extra_model_outputs or self.extra_model_outputs.keys() <= known)
            and not (self.terminateds or self.truncateds)
        )

    def agents(self) -> Iterable[AgentID]:
        """Return every agent that the step has something for, once."""
        found = dict.fromkeys(self.observations)
        for group in (self.actions, self.rewards, self.infos, self.extra_model_outputs):
            if group:
                found.update(dict.fromkeys(group))
        for flags in (self.terminateds, self.truncateds):
            found.update({agent: None for agent in flags if agent != ALL})
        return found

    def parts(self, agent: AgentID) -> tuple[Any, Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """Return the reward, the infos and the extra model outputs of one agent, None for what it has not; refuse others."""
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

    def of(self, agent: AgentID) -> AgentData:
        """Return what the step holds for one agent, checked as far as its episode does not do that."""
        check_name(agent)
        return AgentData(
            self.observations.get(agent, NOTHING),
            self.actions.get(agent, NOTHING),
            *self.parts(agent),
            *end_in(agent, self.terminateds, self.truncateds),
        )


def add_env_step(episode: MultiAgentEpisode, step: EnvStep) -> None:
    """Store `step` in `episode`; if any part of it does not fit, nothing is stored."""
    ends = ALL in step.terminateds, ALL in step.truncateds
    plain = {} if any(ends) else _plain_agents(episode, step)
    others = [] if step.has_only(plain) else [agent for agent in step.agents() if agent not in plain]
    if any(ends):
        known = set(others)
        others += [agent for agent in episode.agent_episodes if agent not in known]
    outcomes = _outcomes(episode, step, others) if others else {}
    changes = Changes()
    try:
        for agent, single in plain.items():
            store_plain(episode, agent, single, step, changes)
        for agent, (data, outcome) in outcomes.items():
            store(episode, agent, data, outcome, changes)
    except BaseException as error:  # also from the mapping function of the user, for a new agent
        changes.take_back()
        if isinstance(error, EpisodiaError):
            raise type(error)(f"{_where(episode, agent)}: {error}") from error
        raise
    commit(episode, changes, *ends)


def _plain_agents(episode: MultiAgentEpisode, step: EnvStep) -> dict[AgentID, SingleAgentEpisode]:
    """Return the agents with nothing to decide, by far the most: a short cut for what `advance` would say of them.

    They go on, in a growing episode, and either act and are at once shown what follows, or act and nothing was pending,
    or are shown what follows a pending action.
    """
    observations, actions, rewards, pending = step.observations, step.actions, step.rewards, episode._pending
    terminateds, truncateds, episodes = step.terminateds, step.truncateds, episode.agent_episodes
    plain = {}
    for agent in observations if observations.keys() >= actions.keys() else {**observations, **actions}:
        single = episodes.get(agent)
        if (
            single is None
            or single.is_terminated
            or single.is_truncated
            or single.observations.finalized
            or agent in terminateds
            or agent in truncateds
        ):
            continue
        waiting = pending.get(agent)
        if agent in actions:
            is_plain = waiting is None and (agent in rewards or agent not in observations)
        else:
            is_plain = waiting is not None and waiting.action is not NOTHING and agent not in step.extra_model_outputs
        if is_plain:
            plain[agent] = single
    return plain


def _outcomes(
    episode: MultiAgentEpisode, step: EnvStep, agents: Iterable[AgentID]
) -> dict[AgentID, tuple[AgentData, Outcome]]:
    """Return what the step holds for `agents`, and what it makes of them."""
    outcomes = {}
    for agent in agents:
        try:
            data = step.of(agent)
            outcome = _outcome(episode, agent, data)
        except EpisodiaError as error:
            raise type(error)(f"{_where(episode, agent)}: {error}") from error
        if outcome is not None:
            outcomes[agent] = data, outcome
    return outcomes


def _outcome(episode: MultiAgentEpisode, agent: AgentID, data: AgentData) -> Outcome | None:
    """Return what the step means for one agent, None if nothing."""
    if has_ended(episode, agent):
        return _outcome_after_end(episode, agent, data)
    return advance(
        episode._pending.get(agent),
        data,
        known=agent in episode.agent_episodes,
        missing_final_observation=episode.missing_final_observation,
    )


def _outcome_after_end(episode: MultiAgentEpisode, agent: AgentID, data: AgentData) -> Outcome | None:
    given = [name for name in ("observation", "action") if getattr(data, name) is not NOTHING]
    given += ["extra model outputs"] if data.extra_model_outputs else []
    late = [name for name, value in (("reward", data.reward), ("infos", data.infos or None)) if value is not None]
    if given or (late and episode.rewards_after_done == "error"):
        hint = (
            "Use another agent id for an agent that comes back."
            if given
            else 'Make the episode with `rewards_after_done="add"` to add such rewards to the agent\'s last step, and such '
            "infos to its last info; or leave them out."
        )
        raise EpisodeError(f"found {' and '.join(given + late)} after its end, expected nothing. {hint}")
    if not late:
        return None
    # What is told of an agent whose episode is in an earlier chunk waits until the chunks are joined.
    waiting = episode._pending.get(agent, PendingStep())
    infos = merged(waiting.infos, data.infos) if agent in episode._gone else None
    return Outcome(reward_after_end=data.reward, infos=data.infos, pending=PendingStep(infos=infos) if infos else None)


def _where(episode: MultiAgentEpisode, agent: AgentID) -> str:
    return f"episode {episode.id_!r}, agent {agent!r}, environment step {episode.env_t + 1}"


def true_flags(episode: MultiAgentFacts, name: str, flags: Any) -> Mapping[AgentID, bool]:
    """Return those of `flags`, the argument `name`, that are true; refuse what is no dict of agents and flags."""
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


_NO_FLAGS: Mapping[AgentID, bool] = {}


def check_mapping(episode: MultiAgentFacts, name: str, value: Any) -> Mapping[Any, Any]:
    """Return `value`, an empty dict for None; refuse what is no dict of agents."""
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


def flag_of(episode: MultiAgentFacts, name: str, value: Any) -> bool:
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
    if episode._split_steps:
        return EpisodeError(
            f"episode {episode.id_!r}: found a step after a slice in which the agents {list(episode._split_steps)} wait, "
            "expected none: their pending rewards are those of the whole steps, with what came after the slice, and would "
            "count twice. Step on from what `cut()` returns, or from a slice to the end; to return to a moment of an episode, "
            "take a `copy.copy(episode)` there."
        )
    return EpisodeError(
        f"episode {episode.id_!r}: found a step before the reset, expected `add_env_reset` first. "
        "Store what `env.reset()` returned with `add_env_reset(observations=..., infos=...)`."
    )
