"""Short ways through frequent steps and short columns end where the long way does."""

import copy
from unittest import mock

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given

from episodia import MultiAgentEpisode
from episodia.episodes.multi_agent.multi_agent_stepping import EnvStep
from episodia.errors import SpaceError
from episodia.testing import assert_same_episode, assert_same_multi_agent_episode, multi_agent_trajectories

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
AGENTS = ("a", "b", "c")


def point(value):
    return np.full(2, value, np.float32)


def three_agents(steps=2, **kwargs):
    """All act at each step; "c" comes with the last one and has no step of its own."""
    episode = MultiAgentEpisode("three", observation_space=dict.fromkeys(AGENTS, BOX), **kwargs)
    episode.add_env_reset(observations={"a": point(0.0), "b": point(0.5)})
    for step in range(steps):
        observations = {"a": point(0.1), "b": point(0.6)} | ({"c": point(1.0)} if step == steps - 1 else {})
        episode.add_env_step(observations, {"a": step, "b": step}, {"a": 1.0, "b": 2.0})
    return episode


@given(schedule=multi_agent_trajectories())
def test_a_rule_that_is_looked_up_once_for_all_agents_is_the_rule_of_each_agent(schedule):
    with mock.patch.object(EnvStep, "_common_parts", return_value=0):
        one_by_one = schedule.stepped()

    assert_same_multi_agent_episode(schedule.stepped(), one_by_one, ignore=["times"])


@given(schedule=multi_agent_trajectories())
def test_finalizing_all_agents_together_is_finalizing_them_one_by_one(schedule):
    episode = schedule.stepped()
    one_by_one = {agent: copy.copy(single).finalize() for agent, single in episode.agent_episodes.items()}

    episode.finalize()

    for agent, single in one_by_one.items():
        assert_same_episode(episode.agent_episodes[agent], single)


def test_agents_keep_their_own_dtypes_when_they_are_finalized_together():
    episode = MultiAgentEpisode("mixed")
    episode.add_env_reset(observations={"a": np.zeros(2, np.float32), "b": np.zeros(2, np.float64)})
    observations = {"a": np.ones(2, np.float32), "b": np.ones(2, np.float64)}
    episode.add_env_step(observations, {"a": 0, "b": True}, {"a": 1, "b": 0.5})

    episode.finalize()

    dtypes = {agent: [items.dtype.name for items in columns] for agent, columns in arrays_of(episode).items()}
    assert dtypes == {"a": ["float32", "int64", "int64"], "b": ["float64", "bool", "float64"]}


def arrays_of(episode):
    return {
        agent: (single.get_observations(), single.get_actions(), single.get_rewards())
        for agent, single in episode.agent_episodes.items()
    }


def test_an_agent_without_steps_has_empty_columns_of_its_own_dtypes():
    episode = three_agents(action_space={"c": spaces.Discrete(3)}).finalize()

    empty = episode.agent_episodes["c"]
    assert (empty.get_rewards().shape, empty.get_rewards().dtype) == ((0,), np.float64)
    assert (empty.get_actions().shape, empty.get_actions().dtype) == ((0,), np.int64)


def test_columns_that_were_finalized_together_are_changed_one_by_one():
    episode = three_agents().finalize()

    episode.set_observations(new_data={"a": point(-1.0)}, at_indices=-1)
    episode.add_env_step({"a": point(0.3)}, {"a": 2}, {"a": 3.0})

    assert [row[0] for row in episode.agent_episodes["a"].get_observations()] == pytest.approx([0.0, 0.1, -1.0, 0.3])
    assert [row[0] for row in episode.agent_episodes["b"].get_observations()] == pytest.approx([0.5, 0.6, 0.6])


def test_an_item_outside_of_its_space_names_its_agent_also_among_others():
    episode = three_agents()
    episode.add_env_step({"b": point(7.0)}, {"b": 0}, {"b": 0.0})

    with pytest.raises(SpaceError, match=r"episode 'three', agent 'b', observations: found \[7"):
        episode.finalize()
    assert not any(single.is_finalized for single in episode.agent_episodes.values())


def test_bounds_that_differ_between_elements_are_checked_element_by_element():
    space = spaces.Box(np.array([0.0, -5.0], np.float32), np.array([1.0, 5.0], np.float32))
    episode = MultiAgentEpisode("two", observation_space={"a": space, "b": space})
    episode.add_env_reset(observations={"a": np.array([1.0, 4.0], np.float32), "b": np.array([0.0, -4.0], np.float32)})
    outside = copy.copy(episode)
    outside.add_env_step({"a": np.array([4.0, 1.0], np.float32)}, {"a": 0}, {"a": 0.0})

    assert episode.finalize().is_finalized
    with pytest.raises(SpaceError, match="1 are outside"):
        outside.finalize()


@pytest.mark.parametrize(("stored", "pending"), [(1, 2), (1, 2.5), (1.5, 2), (True, 3), (np.float32(1.5), 2.5)])
def test_a_pending_number_is_read_as_it_will_be_stored(stored, pending):
    episode = MultiAgentEpisode("two")
    episode.add_env_reset(observations={"a": 0})
    episode.add_env_step({"a": 1}, {"a": stored}, {"a": 1.0})
    episode.finalize().add_env_step({}, {"a": pending}, {})
    found = episode.get_actions(-1)["a"], episode.get_actions(slice(0, 2))["a"]

    episode.add_env_step({"a": 2}, {}, {})

    later = episode.get_actions(1)["a"], episode.get_actions(slice(0, 2))["a"]
    assert [(items.dtype, items.tolist()) for items in found] == [(items.dtype, items.tolist()) for items in later]
