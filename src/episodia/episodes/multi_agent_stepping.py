"""One environment step of a multi-agent episode: first what it means for each agent, then storing it, all or nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from episodia.episodes.pending_step import NOTHING, AgentData, Outcome, PendingStep, advance
from episodia.episodes.single_agent_episode import SingleAgentEpisode
from episodia.episodes.single_agent_stepping import as_extras, as_flag, as_infos, as_reward, extra_columns, take_back
from episodia.episodes.timeline import Timeline
from episodia.errors import EpisodeError, EpisodiaError
from episodia.trees import describe, freeze, own_info

if TYPE_CHECKING:
    from episodia.episodes.multi_agent_episode import AgentID, MultiAgentEpisode

ALL = "__all__"


@dataclass(slots=True)
class EnvStep:
    """What an environment returned for one step, and the actions that it was given."""

    observations: Mapping[Any, Any]
    actions: Mapping[Any, Any]
    rewards: Mapping[Any, Any]
    infos: Mapping[Any, Any]
    terminateds: Mapping[Any, Any]
    truncateds: Mapping[Any, Any]
    extra_model_outputs: Mapping[Any, Any]

    def has_only(self, agents: Mapping[AgentID, Any]) -> bool:
        """Return whether nothing in the step is for others than `agents`, who all act, observe and have not ended."""
        return (
            len(self.observations) == len(self.actions) == len(self.rewards) == len(agents)
            and (not self.infos or self.infos.keys() <= agents.keys())
            and (not self.extra_model_outputs or self.extra_model_outputs.keys() <= agents.keys())
            and not any(self.terminateds.values())
            and not any(self.truncateds.values())
        )

    def agents(self) -> Iterable[AgentID]:
        """Return every agent that the step has something for, once."""
        found = dict.fromkeys(self.observations)
        for group in (self.actions, self.rewards, self.infos, self.extra_model_outputs):
            if group:
                found.update(dict.fromkeys(group))
        for flags in (self.terminateds, self.truncateds):
            found.update({agent: None for agent, flag in flags.items() if flag and agent != ALL})
        return found

    def of(self, agent: AgentID, ends_terminated: bool, ends_truncated: bool) -> AgentData:
        """Return what the step holds for one agent, checked as far as its episode does not do that."""
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
            column = "terminated and truncated"
            terminated = bool(self.terminateds) and _flag(self.terminateds, agent)
            truncated = bool(self.truncateds) and _flag(self.truncateds, agent)
        except EpisodiaError as error:
            raise type(error)(f"{column}: {error}") from error
        return AgentData(
            self.observations.get(agent, NOTHING),
            self.actions.get(agent, NOTHING),
            reward,
            infos,
            extra_model_outputs or None,
            terminated or ends_terminated,
            truncated or ends_truncated,
        )


@dataclass(slots=True)
class _Changes:
    """What has been stored of a step so far, and how to take it back."""

    undo: list[Callable[[], object]] = field(default_factory=list)
    stepped: list[tuple[SingleAgentEpisode, Any, Any]] = field(default_factory=list)
    observed: list[Any] = field(default_factory=list)
    replaced: list[Any] = field(default_factory=list)
    pending: dict[Any, PendingStep | None] = field(default_factory=dict)
    ended: list[Any] = field(default_factory=list)
    early_rewards: dict[Any, Any] = field(default_factory=dict)

    def take_back(self) -> None:
        """Leave the episodes of all agents as they were before."""
        for undo in reversed(self.undo):
            undo()
        for single, last_step_time, columns in self.stepped:
            _take_back_step(single, last_step_time, columns)


def _take_back_step(single: SingleAgentEpisode, last_step_time: float | None, columns: dict[str, Any]) -> None:
    single.t -= 1
    single.is_terminated = single.is_truncated = False
    take_back(single)
    single.extra_model_outputs = columns
    single._last_step_time = last_step_time


def add_env_step(episode: MultiAgentEpisode, step: EnvStep) -> None:
    """Store `step` in `episode`; if any part of it does not fit, nothing is stored."""
    try:
        ends = _flag(step.terminateds, ALL), _flag(step.truncateds, ALL)
        plain = {} if any(ends) or episode.is_finalized else _plain_agents(episode, step)
        others = [] if step.has_only(plain) else [agent for agent in step.agents() if agent not in plain]
    except ValueError as error:  # of an array that is neither true nor false
        place = f"episode {episode.id_!r}, environment step {episode.env_t + 1}"
        flags = {**step.terminateds, **step.truncateds}
        raise EpisodeError(
            f"{place}, terminateds and truncateds: found {describe(flags)}, expected True or False for each agent. "
            "Pass `bool(flag)`."
        ) from error
    if any(ends):
        known = set(others)
        others += [agent for agent in episode.agent_episodes if agent not in known]
    data, outcomes = {}, {}
    for agent in others:
        try:
            data[agent] = step.of(agent, *ends)
            outcomes[agent] = _outcome(episode, agent, data[agent])
        except EpisodiaError as error:
            raise type(error)(f"{_where(episode, agent)}: {error}") from error

    changes = _Changes(observed=list(plain))
    try:
        for agent, single in plain.items():
            _store_plain(single, agent, step, changes)
        for agent, outcome in outcomes.items():
            if outcome is not None:
                _store(episode, agent, data[agent], outcome, changes)
    except BaseException as error:  # also from the mapping function of the user, for a new agent
        changes.take_back()
        if isinstance(error, EpisodiaError):
            raise type(error)(f"{_where(episode, agent)}: {error}") from error
        raise
    _commit(episode, changes, *ends)


def _plain_agents(episode: MultiAgentEpisode, step: EnvStep) -> dict[AgentID, SingleAgentEpisode]:
    """Return the agents that have acted and are at once shown what follows: by far the most, and with nothing to decide."""
    actions, rewards, pending, episodes = step.actions, step.rewards, episode._pending, episode.agent_episodes
    terminateds, truncateds = step.terminateds, step.truncateds
    return {
        agent: episodes[agent]
        for agent in step.observations
        if agent in actions
        and agent in rewards
        and agent in episodes
        and agent not in pending
        and not terminateds.get(agent)
        and not truncateds.get(agent)
        and not episodes[agent].is_done
    }


def _store_plain(single: SingleAgentEpisode, agent: AgentID, step: EnvStep, changes: _Changes) -> None:
    before = single, single._last_step_time, single.extra_model_outputs
    single.add_env_step(
        step.observations[agent],
        step.actions[agent],
        step.rewards[agent],
        step.infos.get(agent),
        extra_model_outputs=step.extra_model_outputs.get(agent),
    )
    changes.stepped.append(before)


def _outcome(episode: MultiAgentEpisode, agent: AgentID, data: AgentData) -> Outcome | None:
    """Return what the step means for one agent, None if nothing."""
    if episode._has_ended(agent):
        return _outcome_after_end(episode, data)
    return advance(
        episode._pending.get(agent),
        data,
        known=agent in episode.agent_episodes,
        missing_final_observation=episode.missing_final_observation,
    )


def _outcome_after_end(episode: MultiAgentEpisode, data: AgentData) -> Outcome | None:
    given = [name for name in ("observation", "action") if getattr(data, name) is not NOTHING]
    if data.reward is not None and episode.rewards_after_done == "error":
        given.append("reward")
    if given:
        hint = (
            'Make the episode with `rewards_after_done="add"` to add such rewards to the agent\'s last step.'
            if given == ["reward"]
            else "Use another agent id for an agent that comes back."
        )
        raise EpisodeError(f"found {' and '.join(given)} after its end, expected nothing. {hint}")
    return None if data.reward is None else Outcome(late_reward=data.reward)


def _where(episode: MultiAgentEpisode, agent: AgentID) -> str:
    return f"episode {episode.id_!r}, agent {agent!r}, environment step {episode.env_t + 1}"


def _store(episode: MultiAgentEpisode, agent: AgentID, data: AgentData, outcome: Outcome, changes: _Changes) -> None:
    single = episode.agent_episodes.get(agent)
    if outcome.starts:
        _start(episode, agent, data, outcome, changes)
    elif outcome.completed is not None and single is not None:
        _complete(single, outcome.completed, data, outcome, changes)
    elif outcome.replaces_observation and single is not None:
        _replace_observation(single, data, outcome, changes)
    elif outcome.infos and single is not None:
        _add_to_last_infos(single, outcome.infos, changes)
    if data.observation is not NOTHING:
        (changes.replaced if outcome.replaces_observation else changes.observed).append(agent)
    if data.terminated or data.truncated:
        _end(episode, agent, data, changes)
    changes.pending[agent] = _owned(outcome.pending, single)
    if outcome.early_reward is not None:
        changes.early_rewards[agent] = outcome.early_reward
    if outcome.late_reward is not None:
        _add_late_reward(episode, agent, outcome.late_reward, changes)


def _owned(pending: PendingStep | None, single: SingleAgentEpisode | None) -> PendingStep | None:
    """Return private copies of what the caller gave; an action is checked when it is taken, not when it is answered."""
    if pending is None:
        return None
    action, extras = pending.action, pending.extra_model_outputs
    if pending.has_action and single is not None:
        action = freeze(single.actions.admit(action))
        if extras or single.extra_model_outputs:
            extras = _admitted_extras(single, extras or {})
    return PendingStep(action, extras, pending.reward, own_info(pending.infos))


def _admitted_extras(single: SingleAgentEpisode, extras: Mapping[str, Any]) -> dict[str, Any]:
    columns = extra_columns(single, extras)
    return {name: freeze(columns[name].admit(output)) for name, output in extras.items()}


def _start(episode: MultiAgentEpisode, agent: AgentID, data: AgentData, outcome: Outcome, changes: _Changes) -> None:
    modules = dict(episode._agent_to_module_mapping)
    changes.undo.append(lambda: setattr(episode, "_agent_to_module_mapping", modules))
    single = episode._new_agent_episode(agent)
    single.add_env_reset(data.observation, outcome.infos)
    changes.undo.append(lambda: episode.agent_episodes.pop(agent))
    episode.agent_episodes[agent] = single
    if episode.is_finalized:
        single.finalize()


def _complete(
    single: SingleAgentEpisode, step: PendingStep, data: AgentData, outcome: Outcome, changes: _Changes
) -> None:
    is_finalized = single.is_finalized
    if is_finalized:
        # Arrays may change their dtype by what is appended, so a copy is the way back.
        changes.undo.append(_restore(single, copy.copy(single)))
    before = single, single._last_step_time, single.extra_model_outputs
    observation = single.get_observations(-1) if outcome.repeats_observation else data.observation
    single.add_env_step(
        observation, step.action, step.reward, outcome.infos, extra_model_outputs=step.extra_model_outputs
    )
    if not is_finalized:
        changes.stepped.append(before)


def _replace_observation(single: SingleAgentEpisode, data: AgentData, outcome: Outcome, changes: _Changes) -> None:
    observations, infos = single.observations, single.infos
    changes.undo.append(lambda: _set_attributes(single, observations=observations, infos=infos))
    single.observations, single.infos = observations.fork(), infos.fork()
    single.observations.replace_last(data.observation)
    single.infos.replace_last(outcome.infos or {})


def _add_to_last_infos(single: SingleAgentEpisode, infos: Mapping[str, Any], changes: _Changes) -> None:
    """Keep what is told of an agent that ends and is not shown another observation."""
    before = single.infos
    changes.undo.append(lambda: _set_attributes(single, infos=before))
    single.infos = before.fork()
    single.infos.replace_last({**before.get(-1), **infos})


def _end(episode: MultiAgentEpisode, agent: AgentID, data: AgentData, changes: _Changes) -> None:
    single = episode.agent_episodes.get(agent)
    if single is not None and not single.is_done:
        changes.ended.append(agent)
        changes.undo.append(lambda: _set_attributes(single, is_terminated=False, is_truncated=False))
        single.is_terminated, single.is_truncated = data.terminated, data.truncated


def _add_late_reward(episode: MultiAgentEpisode, agent: AgentID, reward: Any, changes: _Changes) -> None:
    single = episode.agent_episodes.get(agent)
    if single is None or not len(single):
        # The step that it belongs to, if there was one, is in an earlier chunk.
        changes.early_rewards[agent] = reward
        return
    rewards = single.rewards
    changes.undo.append(lambda: setattr(single, "rewards", rewards))
    single.rewards = rewards.fork()
    single.set_rewards(new_data=rewards.get(-1) + reward, at_indices=-1)


def _restore(single: SingleAgentEpisode, saved: SingleAgentEpisode) -> Callable[[], None]:
    fields = {name: getattr(saved, name) for name in SingleAgentEpisode.__slots__ if name != "__weakref__"}
    return lambda: _set_attributes(single, **fields)


def _set_attributes(single: SingleAgentEpisode, **values: Any) -> None:
    for name, value in values.items():
        setattr(single, name, value)


def _commit(episode: MultiAgentEpisode, changes: _Changes, ends_terminated: bool, ends_truncated: bool) -> None:
    """Make the step part of the episode; nothing here can fail."""
    episode.env_t += 1
    env_t, timelines = episode.env_t, episode._timelines
    for agent in changes.observed:
        if agent not in timelines:
            timelines[agent] = Timeline([])
        timelines[agent].env_steps.append(env_t)
    for agent in changes.replaced:
        timelines[agent].env_steps[-1] = env_t
    for agent, pending in changes.pending.items():
        if pending is None:
            episode._pending.pop(agent, None)
        else:
            episode._pending[agent] = pending
    for agent in changes.ended:
        episode._ended.setdefault(agent, env_t)
    for agent, reward in changes.early_rewards.items():
        episode._early_rewards[agent] = episode._early_rewards.get(agent, 0) + reward
    if episode._weights_versions:
        _update_weights_versions(episode, changes)
    episode._observed_last = {*changes.observed, *changes.replaced}
    episode._end_if_all_ended(ends_terminated, ends_truncated)
    episode._touch()


def _update_weights_versions(episode: MultiAgentEpisode, changes: _Changes) -> None:
    """Let the version that was set while an action was pending hold from the agent's next step on."""
    for agent, pending in changes.pending.items():
        single = episode.agent_episodes.get(agent)
        waits = pending is not None and pending.has_action
        if single is not None and not waits and single.weights_version != episode.weights_version:
            single.weights_version = episode.weights_version  # type: ignore[assignment]  # it has one


def waiting_infos(
    episode: MultiAgentEpisode, observations: Mapping[AgentID, Any], infos: Mapping[AgentID, Any]
) -> dict[AgentID, PendingStep]:
    """Return the infos of a reset that wait for the first observation of their agent."""
    waiting = {}
    for agent, given in infos.items():
        if given and agent not in observations:
            try:
                waiting[agent] = PendingStep(reward=None, infos=as_infos(given))
            except EpisodiaError as error:
                raise type(error)(f"episode {episode.id_!r}, agent {agent!r}, infos of the reset: {error}") from error
    return waiting


def _flag(flags: Mapping[Any, Any], agent: AgentID) -> bool:
    flag = flags.get(agent)
    return False if flag is None else flag if type(flag) is bool else as_flag(flag)


def check_mapping(episode: MultiAgentEpisode, name: str, value: Any) -> Mapping[Any, Any]:
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
