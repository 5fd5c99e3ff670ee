"""Multi-agent episodes as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from episodia.episodes.multi_agent.departed_agents import Departed
from episodia.episodes.multi_agent.multi_agent_lives import check_timeline
from episodia.episodes.multi_agent.pending_step import PendingStep
from episodia.episodes.multi_agent.timeline import Timeline
from episodia.episodes.single_agent import single_agent_state as episode_state
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError
from episodia.space_codec import decode_space, encode_space, encoded_once
from episodia.trees import describe, own, own_info

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode

_TIME = (float, int, type(None))
_FIELDS: dict[str, tuple[type, ...]] = {
    "id_": (object,),
    "env_t_started": (int,),
    "env_t": (int,),
    "env_lookback": (int,),
    "is_terminated": (bool,),
    "is_truncated": (bool,),
    "missing_final_observation": (str,),
    "rewards_after_done": (str,),
    "_was_reset": (bool,),
    "_finalized": (bool,),
    "_start_time": _TIME,
    "_last_step_time": _TIME,
}
# Dictionaries keyed by agent are stored as pairs, because agents' ids need not be strings.
_PAIRS = ("_agent_to_module_mapping", "_agent_episode_ids", "_ended", "_gone")

_OTHERS = (
    "agent_episodes",
    "custom_data",
    "_timelines",
    "_departed",
    "_pending",
    "_early_rewards",
    "_split_steps",
    "_carried",
    "_observed_last",
    "weights_versions",
    "observation_space",
    "action_space",
    "agent_to_module_mapping_fn",
)


def get_state(episode: MultiAgentEpisode) -> dict[str, Any]:
    """Return `episode` as numbers, strings, lists, dicts and arrays, and its mapping function as it is."""
    return {
        **_state(episode, encode_space),
        "agent_episodes": [[agent, single.get_state()] for agent, single in episode.agent_episodes.items()],
        "_departed": _departed_state(episode, SingleAgentEpisode.get_state),
        "custom_data": own_info(episode._custom_data),
    }


def _state(episode: MultiAgentEpisode, encode: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        **{field: getattr(episode, field) for field in _FIELDS},
        **{name: [list(pair) for pair in getattr(episode, name).items()] for name in _PAIRS},
        "_timelines": [[agent, list(line.env_steps)] for agent, line in episode._timelines.items()],
        "_pending": [[agent, _pending_state(step)] for agent, step in episode._pending.items()],
        "_early_rewards": [[agent, list(map(list, entries))] for agent, entries in episode._early_rewards.items()],
        "_split_steps": list(episode._split_steps),
        # In the order of the agents, not of a set: equal episodes have equal states.
        "_carried": [agent for agent in episode.agent_episodes if agent in episode._carried],
        "_observed_last": [agent for agent in episode.agent_episodes if agent in episode._observed_last],
        "weights_versions": [list(entry) for entry in episode._weights_versions],
        "observation_space": _encode_spaces(episode.observation_space, encode),
        "action_space": _encode_spaces(episode.action_space, encode),
        "agent_to_module_mapping_fn": episode.agent_to_module_mapping_fn,
    }


def _departed_state(episode: MultiAgentEpisode, state_of: Callable[[SingleAgentEpisode], Any]) -> list[Any]:
    return [
        [agent, state_of(gone.single), list(gone.shown_at), gone.ended_at] for agent, gone in episode._departed.items()
    ]


def _departed(data: list[Any], restored: Callable[[Any], SingleAgentEpisode]) -> dict[Any, Departed]:
    return {agent: Departed(restored(single), list(shown_at), ended_at) for agent, single, shown_at, ended_at in data}


def _pending_state(step: PendingStep) -> dict[str, Any]:
    state = {"reward": step.reward, "infos": own_info(step.infos)}
    if step.has_action:
        state["action"] = own(step.action)
        state["extra_model_outputs"] = own(step.extra_model_outputs)
    return state


def _encode_spaces(by_agent: Any, encode: Callable[[Any], Any]) -> Any:
    if by_agent is None:
        return None
    if isinstance(by_agent, spaces.Dict):
        return encode(by_agent)
    return [[agent, encode(space)] for agent, space in by_agent.items()]


def _decode_spaces(data: Any) -> Any:
    if isinstance(data, list):
        return {agent: decode_space(space) for agent, space in data}
    return decode_space(data)


def from_state(cls: type[MultiAgentEpisode], state: dict[str, Any]) -> MultiAgentEpisode:
    """Return the episode that `get_state` described, with copies of its arrays."""
    episode_state.check_keys(state, (*_FIELDS, *_PAIRS, *_OTHERS), "a multi-agent episode's state")
    for name, types in _FIELDS.items():
        if not isinstance(state[name], types):
            raise _no_state(name, state[name])
    episode = _build(cls, state, SingleAgentEpisode.from_state)
    episode._custom_data = _part(state, "custom_data", own_info)
    _check_fits(episode, state)
    return episode


def _check_fits(episode: MultiAgentEpisode, state: dict[str, Any]) -> None:
    """Refuse a state whose parts do not belong together."""
    singles = episode.agent_episodes
    lines = _part(
        state, "_timelines", lambda _: {agent: line.env_steps[-1] for agent, line in episode._timelines.items()}
    )
    acting = [agent for agent, step in episode._pending.items() if step.has_action]
    fits = {
        "env_t_started": episode.env_t_started >= 0,
        "env_t": episode.env_t >= episode.env_t_started,
        "env_lookback": episode.env_lookback >= 0,
        "_timelines": lines.keys() == singles.keys(),
        "_observed_last": episode._observed_last == {agent for agent, last in lines.items() if last == episode.env_t},
        "_ended": all(agent in singles and singles[agent].is_done for agent in episode._ended),
        "_pending": all(agent in singles and not singles[agent].is_done for agent in acting),
        "_split_steps": all(agent in episode._pending for agent in episode._split_steps),
        "_carried": episode._carried <= singles.keys(),
    }
    for name, fit in fits.items():
        if not fit:
            raise _no_state(name, state[name])
    _part(state, "_timelines", lambda _: _check_timelines(episode))


def _check_timelines(episode: MultiAgentEpisode) -> None:
    for agent in episode.agent_episodes:
        check_timeline(episode, agent)


def compact_state(episode: MultiAgentEpisode) -> dict[str, Any]:
    """Return the state for a pickle."""
    singles = [[agent, episode_state.compact_state(single)] for agent, single in episode.agent_episodes.items()]
    departed = _departed_state(episode, episode_state.compact_state)
    return {
        **_state(episode, encoded_once),
        "agent_episodes": singles,
        "_departed": departed,
        "custom_data": episode._custom_data,
    }


def _restored(single: dict[str, Any]) -> SingleAgentEpisode:
    return episode_state.restore(SingleAgentEpisode, single)


def restore(
    cls: type[MultiAgentEpisode],
    state: dict[str, Any],
    restored: Callable[[Any], SingleAgentEpisode] = _restored,
) -> MultiAgentEpisode:
    """Return the episode that was pickled, on the arrays that the pickle made; it brings what a subclass has added.

    Args:
        cls: Of which class.
        state: What `compact_state` returned.
        restored: Makes an agent's episode of what `state` says about it.
    """
    episode = _build(cls._without_subclass, state, restored)
    episode._custom_data = state["custom_data"]
    return episode


def _build(
    make: Callable[..., MultiAgentEpisode], state: dict[str, Any], restored: Callable[[Any], SingleAgentEpisode]
) -> MultiAgentEpisode:
    episode = make(
        state["id_"],
        observation_space=_part(state, "observation_space", _decode_spaces),
        action_space=_part(state, "action_space", _decode_spaces),
        agent_to_module_mapping_fn=state["agent_to_module_mapping_fn"],
        missing_final_observation=state["missing_final_observation"],
        rewards_after_done=state["rewards_after_done"],
    )
    for field in _FIELDS:
        setattr(episode, field, state[field])
    for name in _PAIRS:
        setattr(episode, name, _part(state, name, _pairs))
    episode.agent_episodes = _part(
        state, "agent_episodes", lambda data: {agent: restored(single) for agent, single in data}
    )
    episode._departed = _part(state, "_departed", lambda data: _departed(data, restored))
    episode._timelines = _part(
        state, "_timelines", lambda data: {agent: Timeline(list(env_steps)) for agent, env_steps in data}
    )
    episode._pending = _part(
        state, "_pending", lambda data: {agent: PendingStep(**_owned(step)) for agent, step in data}
    )
    episode._early_rewards = _part(
        state, "_early_rewards", lambda data: {agent: [(t, reward) for t, reward in by] for agent, by in data}
    )
    episode._split_steps = _part(state, "_split_steps", lambda data: tuple(dict.fromkeys(data)))
    episode._carried = _part(state, "_carried", frozenset)
    episode._observed_last = _part(state, "_observed_last", set)
    episode._weights_versions = _part(
        state, "weights_versions", lambda data: tuple((start, version) for start, version in data)
    )
    return episode


def _part(state: dict[str, Any], name: str, decode: Callable[[Any], Any]) -> Any:
    """Return one part of a state, decoded."""
    try:
        return decode(state[name])
    except EpisodiaError as error:
        raise type(error)(f"a multi-agent episode's state, {name!r}: {error}") from error
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise _no_state(name, state[name]) from error


def _no_state(name: str, found: Any) -> EpisodeError:
    return EpisodeError(
        f"a multi-agent episode's state, {name!r}: found {describe(found)}, expected what `get_state()` has there. "
        "Pass a state as `get_state()` returned it."
    )


def _pairs(data: Any) -> dict[Any, Any]:
    return {agent: value for agent, value in data}  # noqa: C416  # a dict as `data` is no list of pairs


def _owned(step: dict[str, Any]) -> dict[str, Any]:
    return {key: own_info(value) if key == "infos" else own(value) for key, value in step.items()}
