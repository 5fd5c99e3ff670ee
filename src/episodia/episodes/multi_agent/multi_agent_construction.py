"""The constructor of a multi-agent episode: its arguments, checked, and its lists, replayed step by step.

An episode from lists is therefore the same as one that was built step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from gymnasium import Space
from gymnasium.spaces import Dict as DictSpace

from episodia.episodes.columns.indexing import as_count, as_flag
from episodia.episodes.multi_agent.multi_agent_stepping import ALL, check_mapping, end_in, first_records
from episodia.episodes.multi_agent.roster import Roster
from episodia.episodes.multi_agent.timeline import Clock
from episodia.episodes.single_agent.single_agent_columns import move_to_lookback
from episodia.errors import EpisodeError, EpisodiaError
from episodia.trees import describe
from episodia.types import AgentID

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode


def as_policy(name: str, value: Any, choices: tuple[str, ...], where: str) -> Any:
    """Return `value`, one of the choices that an argument has."""
    if isinstance(value, str) and value in choices:
        return value
    raise EpisodeError(f"{where}: found `{name}={describe(value)}`, expected one of {choices}. Pass one of these.")


def as_spaces(name: str, spaces: Any, where: str) -> Any:
    """Return the spaces of the agents as they were given: a dict of spaces, a `gymnasium.spaces.Dict`, or None."""
    by_agent = spaces.spaces if isinstance(spaces, DictSpace) else spaces
    is_dict = by_agent is None or isinstance(by_agent, Mapping)
    if is_dict and all(isinstance(space, Space) for space in (by_agent or {}).values()):
        return spaces
    raise EpisodeError(
        f"{where}, {name}: found {describe(spaces)}, expected a dict with a gymnasium space for each agent. "
        "Leave out agents that are not to be checked."
    )


def as_dict(name: str, by_agent: Any, where: str) -> dict[Any, Any]:
    """Return a copy of a dict by agents; an empty one for None."""
    if by_agent is None or isinstance(by_agent, Mapping):
        return dict(by_agent or {})
    raise EpisodeError(
        f"{where}, {name}: found {describe(by_agent)}, expected a dict with an entry for each agent. "
        "Leave out agents that have none."
    )


def as_times(name: str, by_agent: Any, where: str) -> dict[Any, int]:
    """Return the time steps of some agents."""
    times = as_dict(name, by_agent, where)
    return {agent: as_count(name, t, f"{where}, agent {agent!r}") for agent, t in times.items()}


def as_flags(name: str, flags: Any, where: str, for_all: str) -> dict[Any, bool]:
    """Return the agents that have ended, from a dict of flags or one flag `for_all`."""
    try:
        given = flags if isinstance(flags, Mapping) else {for_all: flags}
        return {agent: flag is not None and as_flag(flag) for agent, flag in given.items()}
    except EpisodiaError as error:
        raise EpisodeError(f"{where}, {name}: {error}") from error


def as_mapping_function(function: Any, default: Callable[..., Any], where: str) -> Callable[..., Any]:
    """Return the function that says which module acts for an agent."""
    if function is None or callable(function):
        return default if function is None else function
    raise EpisodeError(
        f"{where}: found `agent_to_module_mapping_fn={describe(function)}`, expected a function of an agent's id and the "
        "episode that returns the id of a module. For a fixed mapping pass `agent_module_ids`."
    )


def as_agent_id(agent: Any, where: str) -> Hashable:
    """Return the id of an agent, which may be anything that a dict can have as a key."""
    try:
        hash(agent)
    except TypeError as error:
        raise EpisodeError(
            f"{where}: found {describe(agent)} as the id of an agent, expected something hashable. "
            "Use a string, a number or a tuple of these."
        ) from error
    return agent  # type: ignore[no-any-return]  # it is hashable


def space_of(spaces: Any, agent: AgentID) -> Space[Any] | None:
    """Return the space of one agent, from a dict of spaces or a `gymnasium.spaces.Dict`; None without such a space."""
    by_agent: Mapping[Any, Space[Any]] | None = spaces.spaces if isinstance(spaces, DictSpace) else spaces
    return None if by_agent is None else by_agent.get(agent)


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
    infos, last = infos or [{}] * len(observations), steps
    if any(column is not None and len(column) > steps for column in lists.values()):
        # A step that was taken, and whose observations are not known yet.
        observations, infos, steps = [*observations, {}], [*infos, {}], steps + 1
    actions, rewards, extras = ((column or []) + [{}] * (steps - len(column or [])) for column in lists.values())
    lookback = steps
    if not (isinstance(len_lookback_buffer, str) and len_lookback_buffer == "auto"):
        lookback = min(steps, as_count("len_lookback_buffer", len_lookback_buffer, f"episode {episode.id_!r}"))
    env_t_started = episode.env_t_started
    given = {"observations": observations, "infos": infos, "actions": actions, "rewards": rewards}
    ends = _ends_at(given, terminateds, truncateds, last)
    first = env_t_started - lookback
    records = first_records(episode, observations[0], infos[0], first)
    episode.roster = Roster(records, Clock(first, first, was_reset=True))
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
    shown = len(observations or [])
    expected = dict.fromkeys(lists, (steps, shown)) | {"infos": (shown,)}
    found = {name: len(column) for name, column in {**lists, "infos": infos}.items() if column is not None}
    wrong = {name: count for name, count in found.items() if count not in expected[name]}
    if wrong or (steps and lists["actions"] is None):
        raise EpisodeError(
            f"episode {episode.id_!r}: found {shown} dicts of observations and {wrong or 'no actions'}; expected "
            "one dict of actions, rewards and extra model outputs fewer than of observations and infos (or as many, if the "
            "last step is still pending)."
        )


def _ends_at(
    lists: Mapping[str, list[Any]], terminateds: dict[AgentID, bool], truncateds: dict[AgentID, bool], last: int
) -> tuple[dict[AgentID, int], dict[AgentID, int]]:
    """Return at which entry of the observations which agent terminated, and was truncated.

    An agent that does not act on its last observation ends where it is heard of for the last time, if it is flagged, or
    if nothing is said of it or of all agents, while others are shown observations, the latest of which are entry `last`.
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
        if never_answered and last_heard_of < last and not is_flagged:
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
    roster = episode.roster
    for agent in roster.episodes:
        is_terminated, is_truncated = end_in(agent, terminated, truncated)
        if is_terminated or is_truncated:
            roster.records[agent].end_at(episode.env_t, terminated=is_terminated, truncated=is_truncated)
            roster.num_ended += 1
    episode.is_terminated, episode.is_truncated = roster.ends(ALL in terminated, ALL in truncated)


def _move_to_lookback(
    episode: MultiAgentEpisode, env_t_started: int, lookback: int, agent_t_started: Mapping[AgentID, int]
) -> None:
    """Make the first `lookback` environment steps the past."""
    roster = episode.roster
    roster.clock.env_t_started, roster.clock.env_lookback = env_t_started, lookback
    for agent, record in roster.records.items():
        if record.episode is not None:
            steps = record.timeline.count_before(env_t_started)
            move_to_lookback(record.episode, steps, agent_t_started.get(agent, 0))
        record.early_rewards = [entry for entry in record.early_rewards if entry[0] > env_t_started]
