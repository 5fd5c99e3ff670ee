"""Multi-agent episodes as plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymnasium import spaces

from episodia.episodes import episode_state
from episodia.episodes.departed_agents import Departed
from episodia.episodes.pending_step import PendingStep
from episodia.episodes.single_agent_episode import SingleAgentEpisode
from episodia.episodes.timeline import Timeline
from episodia.space_codec import decode_space, encode_space
from episodia.trees import own, own_info

if TYPE_CHECKING:
    from episodia.episodes.multi_agent_episode import MultiAgentEpisode

_FIELDS = (
    "id_",
    "env_t_started",
    "env_t",
    "env_lookback",
    "is_terminated",
    "is_truncated",
    "missing_final_observation",
    "rewards_after_done",
    "_was_reset",
    "_finalized",
    "_start_time",
    "_last_step_time",
)
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
        **_state(episode),
        "agent_episodes": [[agent, single.get_state()] for agent, single in episode.agent_episodes.items()],
        "_departed": _departed_state(episode, SingleAgentEpisode.get_state),
        "custom_data": own_info(episode._custom_data),
    }


def _state(episode: MultiAgentEpisode) -> dict[str, Any]:
    return {
        **{field: getattr(episode, field) for field in _FIELDS},
        **{name: [list(pair) for pair in getattr(episode, name).items()] for name in _PAIRS},
        "_timelines": [[agent, list(line.env_steps)] for agent, line in episode._timelines.items()],
        "_pending": [[agent, _pending_state(step)] for agent, step in episode._pending.items()],
        "_early_rewards": [[agent, list(map(list, entries))] for agent, entries in episode._early_rewards.items()],
        "_split_steps": list(episode._split_steps),
        "_carried": list(episode._carried),
        "_observed_last": list(episode._observed_last),
        "weights_versions": [list(entry) for entry in episode._weights_versions],
        "observation_space": _encode_spaces(episode.observation_space),
        "action_space": _encode_spaces(episode.action_space),
        "agent_to_module_mapping_fn": episode.agent_to_module_mapping_fn,
    }


def _departed_state(episode: MultiAgentEpisode, state_of: Callable[[SingleAgentEpisode], Any]) -> list[Any]:
    return [
        [agent, state_of(gone.single), list(gone.shown_at), gone.ended_at] for agent, gone in episode._departed.items()
    ]


def _departed(state: dict[str, Any], restored: Callable[[Any], SingleAgentEpisode]) -> dict[Any, Departed]:
    return {
        agent: Departed(restored(single), list(shown_at), ended_at)
        for agent, single, shown_at, ended_at in state["_departed"]
    }


def _pending_state(step: PendingStep) -> dict[str, Any]:
    state = {"reward": step.reward, "infos": own_info(step.infos)}
    if step.has_action:
        state["action"] = own(step.action)
        state["extra_model_outputs"] = own(step.extra_model_outputs)
    return state


def _encode_spaces(by_agent: Any) -> Any:
    if by_agent is None:
        return None
    if isinstance(by_agent, spaces.Dict):
        return encode_space(by_agent)
    return [[agent, encode_space(space)] for agent, space in by_agent.items()]


def _decode_spaces(data: Any) -> Any:
    if isinstance(data, list):
        return {agent: decode_space(space) for agent, space in data}
    return decode_space(data)


def from_state(cls: type[MultiAgentEpisode], state: dict[str, Any]) -> MultiAgentEpisode:
    """Return the episode that `get_state` described, with copies of its arrays."""
    episode_state.check_keys(state, (*_FIELDS, *_PAIRS, *_OTHERS), "a multi-agent episode's state")
    singles = {agent: SingleAgentEpisode.from_state(single) for agent, single in state["agent_episodes"]}
    episode = _build(cls, state, singles)
    episode._departed = _departed(state, SingleAgentEpisode.from_state)
    episode._custom_data = own_info(state["custom_data"])
    return episode


def compact_state(episode: MultiAgentEpisode) -> dict[str, Any]:
    """Return the state for a pickle."""
    singles = [[agent, episode_state.compact_state(single)] for agent, single in episode.agent_episodes.items()]
    departed = _departed_state(episode, episode_state.compact_state)
    return {**_state(episode), "agent_episodes": singles, "_departed": departed, "custom_data": episode._custom_data}


def restore(cls: type[MultiAgentEpisode], state: dict[str, Any]) -> MultiAgentEpisode:
    """Return the episode that was pickled, on the arrays that the pickle made; it brings what a subclass has added."""
    singles = {agent: episode_state.restore(SingleAgentEpisode, single) for agent, single in state["agent_episodes"]}
    episode = _build(cls._without_subclass, state, singles)
    episode._departed = _departed(state, lambda single: episode_state.restore(SingleAgentEpisode, single))
    episode._custom_data = state["custom_data"]
    return episode


def _build(
    make: Callable[..., MultiAgentEpisode], state: dict[str, Any], singles: dict[Any, SingleAgentEpisode]
) -> MultiAgentEpisode:
    episode = make(
        state["id_"],
        observation_space=_decode_spaces(state["observation_space"]),
        action_space=_decode_spaces(state["action_space"]),
        agent_to_module_mapping_fn=state["agent_to_module_mapping_fn"],
    )
    for field in _FIELDS:
        setattr(episode, field, state[field])
    for name in _PAIRS:
        setattr(episode, name, dict(map(tuple, state[name])))
    episode.agent_episodes = singles
    episode._timelines = {agent: Timeline(list(env_steps)) for agent, env_steps in state["_timelines"]}
    episode._pending = {agent: PendingStep(**_owned(step)) for agent, step in state["_pending"]}
    episode._early_rewards = {agent: tuple((t, reward) for t, reward in by) for agent, by in state["_early_rewards"]}
    episode._split_steps = tuple(state["_split_steps"])
    episode._carried = frozenset(state["_carried"])
    episode._observed_last = set(state["_observed_last"])
    episode._weights_versions = tuple((start, version) for start, version in state["weights_versions"])
    return episode


def _owned(step: dict[str, Any]) -> dict[str, Any]:
    return {key: own_info(value) if key == "infos" else own(value) for key, value in step.items()}
