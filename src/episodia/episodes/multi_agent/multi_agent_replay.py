"""A multi-agent episode from lists: replayed step by step, so that it is the same as one that was built that way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from episodia.episodes.columns.indexing import as_count
from episodia.episodes.multi_agent.early_rewards import rewards_between
from episodia.episodes.multi_agent.multi_agent_lives import ALL, end_if_all_ended, end_in, start
from episodia.episodes.multi_agent.multi_agent_stepping import check_mapping
from episodia.episodes.single_agent.single_agent_columns import move_to_lookback
from episodia.errors import EpisodeError
from episodia.trees import describe

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
    from episodia.episodes.multi_agent.multi_agent_facts import AgentID


def replay(
    episode: MultiAgentEpisode,
    data: Mapping[str, list[Any] | None],
    terminateds: dict[AgentID, bool],
    truncateds: dict[AgentID, bool],
    agent_t_started: Mapping[AgentID, int],
    len_lookback_buffer: Any,
) -> None:
    """Fill a new `episode` with the given data."""
    lists = {name: _dicts(episode, name, column) for name, column in data.items()}
    observations, infos = lists.pop("observations"), lists.pop("infos")
    steps = max(0, len(observations or []) - 1)
    _check_lengths(episode, steps, lists, observations, infos)
    if not observations:
        return
    infos = infos or [{}] * (steps + 1)
    actions, rewards, extras = ([{}] * steps if column is None else column for column in lists.values())
    lookback = steps
    if not (isinstance(len_lookback_buffer, str) and len_lookback_buffer == "auto"):
        lookback = min(steps, as_count("len_lookback_buffer", len_lookback_buffer, f"episode {episode.id_!r}"))
    env_t_started = episode.env_t_started

    given = {"observations": observations, "infos": infos, "actions": actions, "rewards": rewards}
    ends = _ends_at(given, terminateds, truncateds)
    episode.env_t_started = episode.env_t = env_t_started - lookback
    start(episode, observations[0], infos[0])
    _end_at_reset(episode, ends)
    for step in range(steps):
        # It goes on, also if all agents so far have ended and others come.
        episode.is_terminated = episode.is_truncated = False
        terminateds, truncateds = ({agent: True for agent, t in at.items() if t == step + 1} for at in ends)
        episode.add_env_step(
            observations[step + 1],
            actions[step],
            rewards[step],
            infos[step + 1],
            terminateds=terminateds,
            truncateds=truncateds,
            extra_model_outputs=extras[step],
        )
    _move_to_lookback(episode, env_t_started, lookback, agent_t_started)


def _dicts(episode: MultiAgentEpisode, name: str, column: Any) -> list[Any] | None:
    if column is None or isinstance(column, (list, tuple)):
        return None if column is None else [check_mapping(episode, name, entry) for entry in column]
    raise EpisodeError(
        f"episode {episode.id_!r}, {name}: found {describe(column)}, expected a list with a dict of agents for each "
        "environment step."
    )


def _check_lengths(
    episode: MultiAgentEpisode, steps: int, lists: Mapping[str, Any], observations: Any, infos: Any
) -> None:
    expected = dict.fromkeys(lists, steps) | {"infos": len(observations or [])}
    found = {name: len(column) for name, column in {**lists, "infos": infos}.items() if column is not None}
    wrong = {name: count for name, count in found.items() if count != expected[name]}
    if wrong or (steps and lists["actions"] is None):
        raise EpisodeError(
            f"episode {episode.id_!r}: found {len(observations or [])} dicts of observations and {wrong or 'no actions'}; "
            "expected one dict of actions, rewards and extra model outputs fewer than of observations and infos."
        )


def _ends_at(
    lists: Mapping[str, list[Any]], terminateds: dict[AgentID, bool], truncateds: dict[AgentID, bool]
) -> tuple[dict[AgentID, int], dict[AgentID, int]]:
    """Return at which entry of the observations which agent terminated, and was truncated.

    An agent that does not act on its last observation ends where it is heard of for the last time, if it is flagged, or
    if nothing is said of it or of all agents, while others go on.
    """
    end = len(lists["observations"]) - 1
    last_seen = _last_entries(lists["observations"])
    last_acted = _last_entries(lists["actions"])
    # Rewards of a step stand with the observations that follow it.
    last_paid = {agent: t + 1 for agent, t in _last_entries(lists["rewards"]).items()}
    last_told = _last_entries(lists["infos"])
    ended: tuple[dict[AgentID, int], dict[AgentID, int]] = {}, {}
    for agent, seen in last_seen.items():
        never_answered = last_acted.get(agent, -1) < seen
        last_heard_of = max(seen, last_paid.get(agent, 0), last_told.get(agent, 0))
        at = last_heard_of if never_answered else end
        for flags, at_end in zip((terminateds, truncateds), ended, strict=True):
            if flags.get(agent):
                at_end[agent] = at
        is_flagged = any(agent in flags or flags.get(ALL) for flags in (terminateds, truncateds))
        if never_answered and last_heard_of < end and not is_flagged:
            ended[0][agent] = at
    for flags, at_end in zip((terminateds, truncateds), ended, strict=True):
        if flags.get(ALL):
            at_end[ALL] = end
    return ended


def _last_entries(dicts: list[Any]) -> dict[AgentID, int]:
    """Return the last entry that has something for each agent."""
    return {agent: t for t, entry in enumerate(dicts) for agent in entry}


def _end_at_reset(episode: MultiAgentEpisode, ends: tuple[dict[AgentID, int], dict[AgentID, int]]) -> None:
    """Mark the agents that ended with the reset, and never acted."""
    terminated, truncated = ({agent for agent, t in at.items() if t == 0} for at in ends)
    for agent, single in episode.agent_episodes.items():
        single.is_terminated, single.is_truncated = end_in(agent, terminated, truncated)
        if single.is_done:
            episode._ended[agent] = episode.env_t
    end_if_all_ended(episode, ALL in terminated, ALL in truncated)


def _move_to_lookback(
    episode: MultiAgentEpisode, env_t_started: int, lookback: int, agent_t_started: Mapping[AgentID, int]
) -> None:
    """Make the first `lookback` environment steps the past."""
    episode.env_t_started, episode.env_lookback = env_t_started, lookback
    for agent, single in episode.agent_episodes.items():
        steps = episode._timelines[agent].count_before(env_t_started)
        move_to_lookback(single, steps, agent_t_started.get(agent, 0))
    episode._early_rewards = rewards_between(episode._early_rewards, env_t_started, episode.env_t)
