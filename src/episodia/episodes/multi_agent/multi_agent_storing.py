"""Storing one environment step in a multi-agent episode, agent by agent, so that all of it can be taken back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from episodia.episodes.columns.rewards import added
from episodia.episodes.multi_agent.carried_outputs import fitted
from episodia.episodes.multi_agent.multi_agent_lives import end_if_all_ended, new_agent_episode
from episodia.episodes.multi_agent.pending_step import NOTHING, AgentData, Outcome, PendingStep, merged
from episodia.episodes.multi_agent.timeline import Timeline
from episodia.episodes.single_agent.single_agent_columns import extra_columns, take_back
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodiaError
from episodia.trees import freeze, own_info

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
    from episodia.episodes.multi_agent.multi_agent_facts import AgentID
    from episodia.episodes.multi_agent.multi_agent_stepping import EnvStep


class Changes:
    """What has been stored of a step so far, and how to take it back."""

    # Made for every environment step, so without the cost of a dataclass.
    __slots__ = ("early_rewards", "ended", "observed", "pending", "replaced", "stepped", "undo")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.undo: list[Callable[[], object]] = []
        self.stepped: list[tuple[SingleAgentEpisode, Any, Any]] = []
        self.observed: list[Any] = []
        self.replaced: list[Any] = []
        self.pending: dict[Any, PendingStep | None] = {}
        self.ended: list[Any] = []
        self.early_rewards: dict[Any, Any] = {}

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


def store_plain(
    episode: MultiAgentEpisode, agent: AgentID, single: SingleAgentEpisode, step: EnvStep, changes: Changes
) -> None:
    """Store the step of an agent with nothing to decide: `plain_agents` says which they are."""
    reward, infos = step.rewards.get(agent), step.infos.get(agent)
    if agent not in step.observations:
        reward, infos, extras = step.parts(agent)
        taken = PendingStep(step.actions[agent], extras, reward, infos)
        changes.pending[agent] = _owned(taken, single, carried=agent in episode._carried)
        return
    before = single, single._last_step_time, single.extra_model_outputs
    if agent in step.actions:
        action, extras = step.actions[agent], step.extra_model_outputs.get(agent)
    else:
        waiting = episode._pending[agent]
        action, extras = waiting.action, waiting.extra_model_outputs
        reward, infos, _ = step.parts(agent)
        reward = added(waiting.reward, reward)
        if reward is None:
            reward = 0.0
        infos = merged(waiting.infos, infos)
        changes.pending[agent] = None
    if extras is not None or single.extra_model_outputs:
        extras = _fit_outputs(episode, agent, single, {} if extras is None else extras, changes)
    single.add_env_step(step.observations[agent], action, reward, infos, extra_model_outputs=extras)
    changes.stepped.append(before)
    changes.observed.append(agent)


def _fit_outputs(
    episode: MultiAgentEpisode, agent: AgentID, single: SingleAgentEpisode, extras: Any, changes: Changes
) -> Any:
    """Return the extra model outputs for the columns of an agent, which may be masked for them."""
    before = single.extra_model_outputs
    if (type(extras) is dict and extras.keys() == before.keys()) or not isinstance(extras, Mapping):
        return extras
    columns, extras = fitted(single, extras, carried=agent in episode._carried)
    if columns is not before:
        changes.undo.append(lambda: _set_attributes(single, extra_model_outputs=before))
        single.extra_model_outputs = columns
    return extras


def _checked(check: Callable[[Any], Any], value: Any, column: str) -> Any:
    """Return `check(value)`; what it raises also names the column."""
    try:
        return check(value)
    except EpisodiaError as error:
        raise type(error)(f"{column}: {error}") from error


def store(episode: MultiAgentEpisode, agent: AgentID, data: AgentData, outcome: Outcome, changes: Changes) -> None:
    """Store what the step makes of one agent."""
    single = episode.agent_episodes.get(agent)
    if outcome.starts:
        _start(episode, agent, data, outcome, changes)
    elif outcome.completed is not None and single is not None:
        _complete(episode, agent, outcome.completed, data, outcome, changes)
    elif outcome.replaces_observation and single is not None:
        _replace_observation(single, data, outcome, changes)
    elif outcome.infos and single is not None:
        _add_to_last_infos(single, outcome.infos, changes)
    if data.observation is not NOTHING:
        (changes.replaced if outcome.replaces_observation else changes.observed).append(agent)
    if data.terminated or data.truncated:
        _end(episode, agent, data, changes)
    changes.pending[agent] = _owned(outcome.pending, single, carried=agent in episode._carried)
    if outcome.early_reward is not None:
        changes.early_rewards[agent] = outcome.early_reward
    if outcome.reward_after_end is not None:
        _add_reward_after_end(episode, agent, outcome.reward_after_end, changes)


def _owned(pending: PendingStep | None, single: SingleAgentEpisode | None, *, carried: bool) -> PendingStep | None:
    """Return private copies of what the caller gave; an action is checked when it is taken, not when it is answered."""
    if pending is None:
        return None
    action, extras = pending.action, pending.extra_model_outputs
    if pending.has_action and single is not None:
        if type(action) not in single.actions.free_types:
            action = freeze(_checked(single.actions.admit, action, "action"))
        if extras or single.extra_model_outputs:
            extras = _admitted_extras(single, extras or {}, carried)
    return PendingStep(action, extras or None, pending.reward, own_info(pending.infos) if pending.infos else None)


def _admitted_extras(single: SingleAgentEpisode, extras: Mapping[str, Any], carried: bool) -> dict[str, Any]:
    columns, outputs = fitted(single, extras, carried=carried)
    if columns is single.extra_model_outputs:
        columns = _checked(lambda given: extra_columns(single, given), outputs, "extra_model_outputs")
    return {name: freeze(_checked(columns[name].admit, output, name)) for name, output in extras.items()}


def _start(episode: MultiAgentEpisode, agent: AgentID, data: AgentData, outcome: Outcome, changes: Changes) -> None:
    known = len(episode._agent_to_module_mapping)
    changes.undo.append(lambda: _forget_modules(episode, known))
    single = new_agent_episode(episode, agent)
    single.add_env_reset(data.observation, outcome.infos)
    if episode.is_finalized:
        single.finalize()
    changes.undo.append(lambda: episode.agent_episodes.pop(agent))
    episode.agent_episodes[agent] = single


def _forget_modules(episode: MultiAgentEpisode, known: int) -> None:
    """Forget the modules of all agents but the first `known` ones; the user's function may have asked for several."""
    while len(episode._agent_to_module_mapping) > known:
        episode._agent_to_module_mapping.popitem()


def _complete(
    episode: MultiAgentEpisode,
    agent: AgentID,
    step: PendingStep,
    data: AgentData,
    outcome: Outcome,
    changes: Changes,
) -> None:
    single = episode.agent_episodes[agent]
    is_finalized = single.is_finalized
    if is_finalized:
        # Arrays may change their dtype by what is appended, so a copy is the way back.
        changes.undo.append(_restore(single, copy.copy(single)))
    before = single, single._last_step_time, single.extra_model_outputs
    observation = single.get_observations(-1) if outcome.repeats_observation else data.observation
    extras = _fit_outputs(episode, agent, single, step.extra_model_outputs or {}, changes)
    single.add_env_step(observation, step.action, step.reward, outcome.infos, extra_model_outputs=extras)
    if not is_finalized:
        changes.stepped.append(before)


def _replace_observation(single: SingleAgentEpisode, data: AgentData, outcome: Outcome, changes: Changes) -> None:
    observations, infos = single.observations, single.infos
    changes.undo.append(lambda: _set_attributes(single, observations=observations, infos=infos))
    single.observations, single.infos = observations.fork(), infos.fork()
    single.observations.replace_last(data.observation)
    single.infos.replace_last(outcome.infos or {})


def _add_to_last_infos(single: SingleAgentEpisode, infos: Mapping[str, Any], changes: Changes) -> None:
    """Keep what is told of an agent that ends, or has ended, and is not shown another observation."""
    before = single.infos
    changes.undo.append(lambda: _set_attributes(single, infos=before))
    single.infos = before.fork()
    single.infos.replace_last({**before.get(-1), **infos})


def _end(episode: MultiAgentEpisode, agent: AgentID, data: AgentData, changes: Changes) -> None:
    single = episode.agent_episodes.get(agent)
    if single is not None and not single.is_done:
        changes.ended.append(agent)
        changes.undo.append(lambda: _set_attributes(single, is_terminated=False, is_truncated=False))
        single.is_terminated, single.is_truncated = data.terminated, data.truncated


def _add_reward_after_end(episode: MultiAgentEpisode, agent: AgentID, reward: Any, changes: Changes) -> None:
    single = episode.agent_episodes.get(agent)
    if single is None or not len(single):
        # The step that it belongs to, if there was one, is in an earlier chunk.
        changes.early_rewards[agent] = reward
        return
    rewards = single.rewards
    changes.undo.append(lambda: setattr(single, "rewards", rewards))
    single.rewards = rewards.fork()
    single.set_rewards(new_data=added(rewards.get(-1), reward), at_indices=-1)


def _restore(single: SingleAgentEpisode, saved: SingleAgentEpisode) -> Callable[[], None]:
    fields = {name: getattr(saved, name) for name in SingleAgentEpisode.__slots__ if name != "__weakref__"}
    return lambda: _set_attributes(single, **fields)


def _set_attributes(single: SingleAgentEpisode, **values: Any) -> None:
    for name, value in values.items():
        setattr(single, name, value)


def commit(episode: MultiAgentEpisode, changes: Changes, ends_terminated: bool, ends_truncated: bool) -> None:
    """Make the step part of the episode; nothing here can fail."""
    episode.env_t += 1
    env_t, pending = episode.env_t, episode._pending
    _tick(episode, changes, env_t)
    for agent, step in changes.pending.items():
        if step is None:
            pending.pop(agent, None)
        else:
            pending[agent] = step
    for agent in changes.ended:
        episode._ended.setdefault(agent, env_t)
    for agent, reward in changes.early_rewards.items():
        episode._early_rewards.setdefault(agent, []).append((env_t, reward))
    if episode._weights_versions:
        _update_weights_versions(episode, changes)
    if episode._ended or ends_terminated or ends_truncated:
        end_if_all_ended(episode, ends_terminated, ends_truncated)
    episode._last_step_time = perf_counter()


def _tick(episode: MultiAgentEpisode, changes: Changes, env_t: int) -> None:
    """Note who was shown something at environment step `env_t`."""
    timelines = episode._timelines
    for agent in changes.observed:
        if agent in timelines:
            timelines[agent].env_steps.append(env_t)
        else:
            timelines[agent] = Timeline([env_t])
    episode._observed_last = set(changes.observed)
    for agent in changes.replaced:
        timelines[agent].env_steps[-1] = env_t
        episode._observed_last.add(agent)


def _update_weights_versions(episode: MultiAgentEpisode, changes: Changes) -> None:
    """Let the version that was set while an action was pending hold from the agent's next step on."""
    for agent, pending in changes.pending.items():
        single = episode.agent_episodes.get(agent)
        waits = pending is not None and pending.has_action
        if single is not None and not (waits or single.is_done) and single.weights_version != episode.weights_version:
            single.weights_version = episode.weights_version  # type: ignore[assignment]  # it has one
