"""What the constructor of a multi-agent episode takes, checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from gymnasium import Space

from episodia.episodes.columns.indexing import as_count, as_flag
from episodia.errors import EpisodeError, EpisodiaError
from episodia.trees import describe


def as_policy(name: str, value: Any, choices: tuple[str, ...], where: str) -> Any:
    """Return `value`, one of the choices that an argument has."""
    if isinstance(value, str) and value in choices:
        return value
    raise EpisodeError(f"{where}: found `{name}={describe(value)}`, expected one of {choices}. Pass one of these.")


def as_spaces(name: str, spaces: Any, where: str) -> Any:
    """Return the spaces of the agents as they were given: a dict of spaces, a `gymnasium.spaces.Dict`, or None."""
    by_agent = getattr(spaces, "spaces", spaces)
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
    """Return who has ended: from a dict of flags, or one flag `for_all`."""
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
