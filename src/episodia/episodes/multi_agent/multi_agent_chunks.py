"""Multi-agent episodes in parts: cutting, slicing, joining, and forking without a copy."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from episodia.episodes.columns.indexing import as_count, with_int_bounds
from episodia.episodes.columns.rewards import total_of
from episodia.episodes.multi_agent.agent_columns import missing_steps
from episodia.episodes.multi_agent.departed_agents import departed_before
from episodia.episodes.multi_agent.early_rewards import rewards_between
from episodia.episodes.multi_agent.multi_agent_lives import end_of
from episodia.episodes.multi_agent.pending_step import PendingStep
from episodia.episodes.multi_agent.timeline import Timeline
from episodia.episodes.single_agent import single_agent_chunks as chunks
from episodia.episodes.single_agent import weights_versions as versions
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError, IndexTypeError

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
    from episodia.episodes.multi_agent.multi_agent_facts import AgentID


def cut(episode: MultiAgentEpisode, len_lookback_buffer: int) -> MultiAgentEpisode:
    """Return the chunk that continues `episode`."""
    if episode.is_done:
        raise EpisodeError(
            f"episode {episode.id_!r}: found `cut()` after the end (environment step {episode.env_t}), expected a running "
            "episode. A finished episode has no continuation; use `slice` to take it apart."
        )
    wanted = as_count("len_lookback_buffer", len_lookback_buffer, f"episode {episode.id_!r}")
    successor = _like(episode)
    successor.env_t_started = successor.env_t = episode.env_t
    successor.env_lookback = min(wanted, episode.env_t - _first_env_t(episode))
    successor._pending = dict(episode._pending)
    successor._split_steps = episode._split_steps
    successor._carried = frozenset(agent for agent, step in episode._pending.items() if step.has_action)
    successor._observed_last = {agent for agent in episode._observed_last if not episode.agent_episodes[agent].is_done}
    successor._gone = dict(episode._gone)
    successor._start_time = episode._last_step_time
    start = episode.env_t - successor.env_lookback
    for agent, single in episode.agent_episodes.items():
        if single.is_done:
            successor._gone[agent] = end_of(single)
            continue
        timeline = episode._timelines[agent]
        # The last observation is the first of the new chunk; before it, the steps that lie in the lookback.
        last = len(timeline) - 1
        steps_back = max(0, last - timeline.count_before(start))
        successor.agent_episodes[agent] = single.cut(steps_back)
        successor._timelines[agent] = timeline.part(last - steps_back)
    successor._departed = departed_before(episode, successor)
    successor._weights_versions = versions.between(episode._weights_versions, start, episode.env_t + 1)
    return successor


def env_steps_back(episode: MultiAgentEpisode, agent_steps: int) -> int:
    """Return how many environment steps to look back, so that every agent that goes on sees `agent_steps` of its own."""
    steps = as_count("agent_steps", agent_steps, f"episode {episode.id_!r}")
    if not steps:
        return 0
    alive = {agent for agent, single in episode.agent_episodes.items() if not single.is_done}
    first_row = min((episode._timelines[agent].env_steps[-1] for agent in alive), default=episode.env_t)
    firsts = []
    for agent, timeline in episode._timelines.items():
        if agent in alive:
            firsts.append(timeline.env_steps[-min(len(timeline), steps + 1)])
        if agent in alive or episode._ended[agent] > first_row:
            seen = timeline.count_before(first_row - steps + 1) - 1
            firsts.append(timeline.env_steps[max(0, seen)])
    return max(steps, episode.env_t - min(firsts, default=episode.env_t))


def part(episode: MultiAgentEpisode, slice_: Any, len_lookback_buffer: int | None) -> MultiAgentEpisode:
    """Return the environment steps that `slice_` picks."""
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
    wanted = episode.env_lookback
    if len_lookback_buffer is not None:
        wanted = as_count("len_lookback_buffer", len_lookback_buffer, f"episode {episode.id_!r}")
    start = episode.env_t_started + steps.start
    stop = max(start, episode.env_t_started + steps.stop)
    picked = _like(episode)
    picked.env_t_started, picked.env_t = start, stop
    picked.env_lookback = min(wanted, start - _first_env_t(episode))
    picked._start_time, picked._last_step_time = episode._start_time, episode._last_step_time
    picked._gone = dict(episode._gone)
    for agent in episode.agent_episodes:
        _pick_agent(episode, picked, agent)
    picked._departed = departed_before(episode, picked)
    _pick_ends(episode, picked)
    return picked


def _pick_agent(episode: MultiAgentEpisode, picked: MultiAgentEpisode, agent: AgentID) -> None:
    """Give a slice an agent as a cut at its start would have, and stepping on to its end."""
    start, stop = picked.env_t_started, picked.env_t
    single, timeline = episode.agent_episodes[agent], episode._timelines[agent]
    last = timeline.count_before(stop + 1) - 1
    if last < 0:
        return  # it comes later
    ended_at = episode._ended.get(agent)
    if ended_at is not None and timeline.env_steps[last] < start > episode.env_t_started and ended_at <= start:
        picked._gone[agent] = end_of(single)
        return
    ends_here = ended_at is not None and ended_at <= stop
    # It goes on from its last observation up to the start, but not from one in the lookback.
    first = max(single.observations.lookback, timeline.count_before(start + 1) - 1)
    earliest = timeline.count_before(start - picked.env_lookback)
    if first > last < earliest and not ends_here:
        return  # the observation that it had there has been replaced by a later one
    # An agent that was not shown its last observation has its previous one repeated.
    repeats = ends_here and last + 1 == len(timeline) < single.observations.len_incl_lookback()
    first = min(first, last + repeats)
    lookback = max(0, first - earliest)
    if last + repeats > first:
        index = first - single.observations.lookback
        chosen = chunks.part(single, slice(index, index + last + repeats - first), lookback)
    else:
        chosen = chunks.pause(single, first, lookback)
    chosen.is_terminated = ends_here and single.is_terminated
    chosen.is_truncated = ends_here and single.is_truncated
    picked.agent_episodes[agent] = chosen
    picked._timelines[agent] = timeline.part(first - lookback, last + 1)
    if ends_here:
        picked._ended[agent] = ended_at  # type: ignore[assignment]  # it has ended
    else:
        _pick_pending(episode, picked, agent, last)
    if timeline.env_steps[last] == stop:
        picked._observed_last.add(agent)


def _pick_pending(episode: MultiAgentEpisode, picked: MultiAgentEpisode, agent: AgentID, position: int) -> None:
    """Give a slice what is pending at its end for an agent, after its observation at `position`."""
    pending = _pending_at(episode, agent, position, picked.env_t)
    if pending is None:
        return
    picked._pending[agent] = pending
    if pending.has_action and (picked.env_t < episode.env_t or agent in episode._split_steps):
        picked._split_steps += (agent,)


def _pending_at(episode: MultiAgentEpisode, agent: AgentID, position: int, env_t: int) -> PendingStep | None:
    """Return what is pending for an agent at environment step `env_t`, after its observation at `position`."""
    single = episode.agent_episodes[agent]
    if env_t == episode.env_t:
        return episode._pending.get(agent)
    if episode._timelines[agent].env_steps[position] == env_t:
        return None  # it acts later
    if position == single.rewards.len_incl_lookback():
        pending = episode._pending.get(agent)
        return pending if pending is not None and pending.has_action else None
    index = position - single.rewards.lookback
    extras = {
        key: column.get(position - column.lookback - missing_steps(single, column), neg_index_as_lookback=True)
        for key, column in single.extra_model_outputs.items()
        if position >= missing_steps(single, column)
    }
    return PendingStep(
        single.get_actions(index, neg_index_as_lookback=True),
        extras or None,
        single.get_rewards(index, neg_index_as_lookback=True),
    )


def _pick_ends(episode: MultiAgentEpisode, picked: MultiAgentEpisode) -> None:
    """Give a slice what belongs to the beginning and the end of the episode, if it reaches there."""
    if picked.env_t_started == episode.env_t_started:
        picked._carried = episode._carried
    picked._early_rewards = rewards_between(episode._early_rewards, picked.env_t_started, picked.env_t)
    if picked.env_t == episode.env_t:
        picked.is_terminated, picked.is_truncated = episode.is_terminated, episode.is_truncated
        unseen = {agent: step for agent, step in episode._pending.items() if agent not in episode.agent_episodes}
        picked._pending.update(unseen)
    start = picked.env_t_started - picked.env_lookback
    at_end = picked.env_t == episode.env_t
    picked._weights_versions = versions.between(episode._weights_versions, start, picked.env_t + at_end)


def fork(episode: MultiAgentEpisode) -> MultiAgentEpisode:
    """Return an equal episode that shares the data until either of them is changed."""
    forked = _like(episode)
    forked.env_t_started, forked.env_t = episode.env_t_started, episode.env_t
    forked.env_lookback = episode.env_lookback
    forked.is_terminated, forked.is_truncated = episode.is_terminated, episode.is_truncated
    forked.agent_episodes = {agent: chunks.fork(single) for agent, single in episode.agent_episodes.items()}
    forked._timelines = {agent: line.part(0) for agent, line in episode._timelines.items()}
    forked._pending = dict(episode._pending)
    forked._split_steps, forked._carried = episode._split_steps, episode._carried
    forked._ended, forked._gone = dict(episode._ended), dict(episode._gone)
    forked._departed = dict(episode._departed)
    forked._early_rewards = {agent: list(entries) for agent, entries in episode._early_rewards.items()}
    forked._observed_last = set(episode._observed_last)
    forked._weights_versions = episode._weights_versions
    forked._start_time, forked._last_step_time = episode._start_time, episode._last_step_time
    return forked


def _like(episode: MultiAgentEpisode) -> MultiAgentEpisode:
    """Return an episode without agents that has everything else in common with `episode`."""
    other = episode._without_subclass(
        episode.id_,
        observation_space=episode.observation_space,
        action_space=episode.action_space,
        agent_episode_ids=episode._agent_episode_ids,
        agent_module_ids=episode._agent_to_module_mapping,
        agent_to_module_mapping_fn=episode.agent_to_module_mapping_fn,
        missing_final_observation=episode.missing_final_observation,
        rewards_after_done=episode.rewards_after_done,
    )
    other.__dict__.update(episode._added_by_subclass())
    other._was_reset = episode._was_reset
    other._finalized = episode.is_finalized
    other._custom_data = copy.deepcopy(episode._custom_data) if episode._custom_data else {}
    return other


def _first_env_t(episode: MultiAgentEpisode) -> int:
    return episode.env_t_started - episode.env_lookback


def concat(episode: MultiAgentEpisode, other: MultiAgentEpisode) -> None:
    """Append the chunk `other` to `episode`, in place."""
    _check_continues(episode, other)
    custom_data = copy.deepcopy(other._custom_data)
    known = episode.agent_ids
    joined = fork(episode)
    for agent, single in other.agent_episodes.items():
        try:
            _join_agent(joined, other, agent, single)
        except EpisodiaError as error:
            raise type(error)(f"episode {episode.id_!r}, agent {agent!r}: {error}") from error
    joined._pending = dict(other._pending)
    _settle_infos_after_end(joined)
    for agent, entries in other._early_rewards.items():
        _add_early_rewards(joined, agent, entries, agent in known)
    # Everything fits: from here on nothing can fail.
    episode.agent_episodes, episode._timelines = joined.agent_episodes, joined._timelines
    episode._pending, episode._split_steps = joined._pending, other._split_steps
    episode._early_rewards = joined._early_rewards
    episode._ended.update(other._ended)
    if len(other):
        episode._observed_last = set(other._observed_last)
    episode._agent_to_module_mapping.update(other._agent_to_module_mapping)
    episode._weights_versions = versions.joined(episode._weights_versions, other._weights_versions, episode.env_t)
    episode.env_t = other.env_t
    episode.is_terminated, episode.is_truncated = other.is_terminated, other.is_truncated
    if other._last_step_time is not None:
        episode._last_step_time = other._last_step_time
    episode._custom_data.update(custom_data)


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
        alive = {agent for agent, single in episode.agent_episodes.items() if not single.is_done}
        missing = [agent for agent in episode.agent_episodes if agent in alive and agent not in other.agent_episodes]
        if missing:
            problem = f"found a chunk without the agents {missing}, which have not ended"
    if problem:
        raise EpisodeError(
            f"episode {episode.id_!r}: {problem}, expected the continuation of this episode from environment step "
            f"{episode.env_t} on. Concatenate only what `cut()` returned, and in order."
        )


def _join_agent(
    joined: MultiAgentEpisode, other: MultiAgentEpisode, agent: AgentID, theirs: SingleAgentEpisode
) -> None:
    their_steps = other._timelines[agent].env_steps
    if agent not in joined.agent_episodes:
        joined.agent_episodes[agent] = _in_form_of(joined, theirs)
        joined._timelines[agent] = other._timelines[agent].part(0)
        return
    ours, our_steps = joined.agent_episodes[agent], joined._timelines[agent].env_steps
    if ours.is_done and theirs.is_done and not len(theirs):
        return  # a slice has whoever ends where it begins
    seam = theirs.observations.lookback
    if theirs.t_started == ours.t + 1 and not len(ours) and agent in joined._pending:
        _move_pending_to_lookback(ours, joined._pending[agent], theirs)
        our_steps = [*our_steps, their_steps[seam]]
    elif our_steps[-1] != their_steps[seam]:
        # The agent did not act on the observation at the seam and was shown another.
        ours.observations.replace_last(theirs.get_observations(0))
        ours.infos.replace_last(theirs.get_infos(0))
    ours.concat_episode(theirs)
    joined._timelines[agent] = Timeline(our_steps[:-1] + their_steps[seam:])


def _move_pending_to_lookback(ours: SingleAgentEpisode, step: PendingStep, theirs: SingleAgentEpisode) -> None:
    """Let an agent go on with its next observation, the first one of `theirs`; the step before is the past.

    A slice has it pending, because that observation has taken the place of one at the beginning of the chunk.
    """
    ours.observations.append(theirs.get_observations(0))
    ours.infos.append(theirs.get_infos(0))
    ours.actions.append(step.action)
    ours.rewards.append(step.reward)
    for key, output in (step.extra_model_outputs or {}).items():
        ours.extra_model_outputs[key].append(output)
    for column in (ours.actions, ours.rewards, *ours.extra_model_outputs.values()):
        column.lookback = column.len_incl_lookback()
    ours.observations.lookback = ours.infos.lookback = ours.rewards.lookback
    ours.t_started = ours.t = theirs.t_started


def _in_form_of(joined: MultiAgentEpisode, single: SingleAgentEpisode) -> SingleAgentEpisode:
    """Return the episode of an agent that came in the chunk that is joined, growing or finalized as all others are."""
    if single.is_finalized == joined.is_finalized:
        return chunks.fork(single)
    if joined.is_finalized:
        return chunks.fork(single).finalize()
    growing = SingleAgentEpisode(
        single.id_,
        observation_space=single.observation_space,
        action_space=single.action_space,
        agent_id=single.agent_id,
        module_id=single.module_id,
        multi_agent_episode_id=single.multi_agent_episode_id,
    )
    growing.add_env_reset(single.get_observations(0), single.get_infos(0))
    growing._start_time = single._start_time
    growing.concat_episode(single)
    return growing


def _settle_infos_after_end(episode: MultiAgentEpisode) -> None:
    """Give the agents whose end is here now what was told of them in the later chunk."""
    for agent, step in list(episode._pending.items()):
        single = episode.agent_episodes.get(agent)
        if single is not None and single.is_done:
            single.infos.replace_last({**single.infos.get(-1), **(step.infos or {})})
            del episode._pending[agent]


def _add_early_rewards(
    episode: MultiAgentEpisode, agent: AgentID, entries: list[tuple[int, Any]], was_known: bool
) -> None:
    single = episode.agent_episodes.get(agent)
    if was_known and single is not None and single.is_done and len(single):
        # Its last step was in the earlier chunk, and is here now.
        total = total_of([single.get_rewards(-1), *(reward for _, reward in entries)])
        single.set_rewards(new_data=total, at_indices=-1)
    else:
        episode._early_rewards.setdefault(agent, []).extend(entries)
