"""Multi-agent episodes as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.episodes.multi_agent.roster import Roster
from episodia.episodes.multi_agent.timeline import Clock
from episodia.episodes.single_agent import single_agent_state as episode_state
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import EpisodeError, EpisodiaError
from episodia.space_codec import decode_space, encode_space, encoded_once
from episodia.trees import describe, own_info

if TYPE_CHECKING:
    from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode

_FIELDS: dict[str, tuple[type, ...]] = {
    "id_": (object,),
    "env_index": (int, type(None)),
    "is_terminated": (bool,),
    "is_truncated": (bool,),
    "is_finalized": (bool,),
    "missing_final_observation": (str,),
    "rewards_after_done": (str,),
    "custom_data": (dict,),
    "clock": (dict,),
    "records": (list,),
    "observed_last": (list,),
    "agent_module_ids": (list,),
    "agent_episode_ids": (list,),
    "observation_space": (object,),
    "action_space": (object,),
    "agent_to_module_mapping_fn": (object,),
}
_TIME = (float, int, type(None))
_CLOCK: dict[str, tuple[type, ...]] = {
    "env_t_started": (int,),
    "env_t": (int,),
    "env_lookback": (int,),
    "was_reset": (bool,),
    "start_time": _TIME,
    "last_step_time": _TIME,
    "weights_versions": (list, tuple),
}


def get_state(episode: MultiAgentEpisode) -> dict[str, Any]:
    """Return `episode` as numbers, strings, lists, dicts and arrays, and its mapping function as it is."""
    return {
        **_state(episode, encode_space, SingleAgentEpisode.get_state),
        "custom_data": own_info(episode.custom_data),
    }


def compact_state(
    episode: MultiAgentEpisode, state_of: Callable[[SingleAgentEpisode], Any] = episode_state.compact_state
) -> dict[str, Any]:
    """Return the state for a pickle; `state_of` says what an agent's own episode is in it."""
    return _state(episode, encoded_once, state_of)


def _state(
    episode: MultiAgentEpisode, encode: Callable[[Any], Any], state_of: Callable[[SingleAgentEpisode], Any]
) -> dict[str, Any]:
    return {
        "id_": episode.id_,
        "env_index": episode.env_index,
        "is_terminated": episode.is_terminated,
        "is_truncated": episode.is_truncated,
        "is_finalized": episode.is_finalized,
        "missing_final_observation": episode.missing_final_observation,
        "rewards_after_done": episode.rewards_after_done,
        "custom_data": episode.custom_data,
        **episode.roster.get_state(state_of),
        **episode._known_ids(),
        "observation_space": _encode_spaces(episode.observation_space, encode),
        "action_space": _encode_spaces(episode.action_space, encode),
        "agent_to_module_mapping_fn": episode.agent_to_module_mapping_fn,
    }


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


def from_state(
    cls: type[MultiAgentEpisode],
    state: dict[str, Any],
    restored: Callable[[Any], SingleAgentEpisode] = SingleAgentEpisode.from_state,
) -> MultiAgentEpisode:
    """Return the episode that `get_state` described, with copies of its arrays.

    Args:
        cls: Of which class.
        state: What `get_state` or `compact_state` returned.
        restored: Makes an agent's episode of what `state` says about it.
    """
    episode_state.check_keys(state, tuple(_FIELDS), "a multi-agent episode's state")
    _check_types(state, _FIELDS)
    episode_state.check_keys(state["clock"], tuple(_CLOCK), "a multi-agent episode's state, 'clock'")
    _check_types(state["clock"], _CLOCK)
    episode = _build(cls, state, restored, own_info)
    clock = episode.roster.clock
    if not clock.env_lookback >= 0 or not 0 <= clock.env_t_started <= clock.env_t:
        raise _no_state("clock", state["clock"])
    if _decoded(state, "observed_last", set) != episode.roster.observed_last:
        raise _no_state("observed_last", state["observed_last"])
    if len(state["records"]) != len(episode.roster.records):
        raise _no_state("records", state["records"])
    _decoded(state, "records", lambda _: _check_records(episode))
    return episode


def _check_records(episode: MultiAgentEpisode) -> None:
    for record in episode.roster.records.values():
        record.check_fits(episode.env_t)


def _check_types(state: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> None:
    for name, types in fields.items():
        if not isinstance(state[name], types):
            raise _no_state(name, state[name])


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
    return _build(cls._without_subclass, state, restored, dict)


def _build(
    make: Callable[..., MultiAgentEpisode],
    state: dict[str, Any],
    restored: Callable[[Any], SingleAgentEpisode],
    copied: Callable[[Any], Any],
) -> MultiAgentEpisode:
    episode = make(
        state["id_"],
        observation_space=_decoded(state, "observation_space", _decode_spaces),
        action_space=_decoded(state, "action_space", _decode_spaces),
        agent_module_ids=_decoded(state, "agent_module_ids", _pairs),
        agent_episode_ids=_decoded(state, "agent_episode_ids", _pairs),
        agent_to_module_mapping_fn=state["agent_to_module_mapping_fn"],
        missing_final_observation=state["missing_final_observation"],
        rewards_after_done=state["rewards_after_done"],
    )
    records = _decoded(state, "records", lambda data: [AgentRecord.from_state(record, restored) for record in data])
    episode.roster = Roster(records, _decoded(state, "clock", Clock.from_state))
    if state["is_finalized"] and not episode.agent_episodes:
        episode.finalize()  # agents that come will be, too
    episode.env_index = state["env_index"]
    episode.is_terminated, episode.is_truncated = state["is_terminated"], state["is_truncated"]
    episode.custom_data.update(_decoded(state, "custom_data", copied))
    return episode


def _decoded(state: dict[str, Any], name: str, decode: Callable[[Any], Any]) -> Any:
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
    return {agent: value for agent, value in data}  # noqa: C416  # `dict` would accept a dict
