"""Comparing multi-agent episodes field by field and agent by agent, with a message that names every difference."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from episodia.episodes import MultiAgentEpisode
from episodia.testing.episodes.episode_comparing import differences_of_episodes, differences_of_items, raise_if_any

_PLAIN_FIELDS = (
    "id_",
    "env_t_started",
    "env_t",
    "env_lookback",
    "is_reset",
    "is_terminated",
    "is_truncated",
    "is_finalized",
    "observation_space",
    "action_space",
    "missing_final_observation",
    "rewards_after_done",
    "weights_version",
    "agent_to_module_mapping_fn",
)
_HANGING = (
    "_hanging_actions_end",
    "_hanging_rewards_end",
    "_hanging_extra_model_outputs_end",
    "_hanging_rewards_begin",
)


def assert_same_multi_agent_episode(
    found: MultiAgentEpisode, expected: MultiAgentEpisode, *, ignore: Collection[str] = ()
) -> None:
    """Check that two multi-agent episodes are the same: clock, timelines, what is pending, every agent's episode.

    Agents' episodes are compared as by `assert_same_episode`. Not compared is the order of the agents.

    Args:
        found: The episode to judge.
        expected: The episode as it should be.
        ignore: Fields that may differ, by name, also those of agents' episodes; `"times"` are those of the wall clock.

    Raises:
        AssertionError: Naming the fields that differ, and how.

    >>> episode = MultiAgentEpisode("game", observations=[{"a": 0}, {"b": 1}], actions=[{"a": 5}])
    >>> assert_same_multi_agent_episode(MultiAgentEpisode.from_state(episode.get_state()), episode)
    >>> other = MultiAgentEpisode("game", observations=[{"a": 0}, {"b": 1}], actions=[{"a": 6}])
    >>> assert_same_multi_agent_episode(episode, other, ignore=["times"])
    Traceback (most recent call last):
    ...
    AssertionError: the multi-agent episodes differ:
      _hanging_actions_end['a']: found 5, expected 6
    """
    raise_if_any("multi-agent episodes", _differences(found, expected, ignore))


def _differences(found: MultiAgentEpisode, expected: MultiAgentEpisode, ignore: Collection[str]) -> Iterator[str]:
    for name in _PLAIN_FIELDS:
        ours, theirs = getattr(found, name), getattr(expected, name)
        if name not in ignore and ours != theirs:
            yield f"{name}: found {ours!r}, expected {theirs!r}"
    if found.agent_ids != expected.agent_ids:
        yield f"agent_ids: found {list(found.agent_episodes)}, expected {list(expected.agent_episodes)}"
        return
    for name in _HANGING:
        if name not in ignore:
            yield from differences_of_items(getattr(found, name), getattr(expected, name), name)
    if "custom_data" not in ignore:
        yield from differences_of_items(found.custom_data, expected.custom_data, "custom_data")
    if "times" not in ignore:
        yield from differences_of_items(found.get_duration_s(), expected.get_duration_s(), "get_duration_s()")
    if found.get_agents_that_stepped() != expected.get_agents_that_stepped():
        yield (
            f"get_agents_that_stepped(): found {found.get_agents_that_stepped()}, "
            f"expected {expected.get_agents_that_stepped()}"
        )
    for agent in expected.agent_episodes:
        yield from _agent_differences(found, expected, agent, ignore)


def _agent_differences(
    found: MultiAgentEpisode, expected: MultiAgentEpisode, agent: Any, ignore: Collection[str]
) -> Iterator[str]:
    if "env_t_to_agent_t" not in ignore:
        ours, theirs = (episode.env_t_to_agent_t[agent].data for episode in (found, expected))
        yield from differences_of_items(ours, theirs, f"env_t_to_agent_t[{agent!r}]")
    if "module_for" not in ignore and found.module_for(agent) != expected.module_for(agent):
        yield f"module_for({agent!r}): found {found.module_for(agent)!r}, expected {expected.module_for(agent)!r}"
    for line in differences_of_episodes(found.agent_episodes[agent], expected.agent_episodes[agent], ignore):
        yield f"agent {agent!r}: {line}"
