"""A list that arrives as a table answers as the list that was sent, and makes no episode for it."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import Columns, EpisodeList, SingleAgentEpisode
from episodia.connectors import defaults
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.episodes.lists.unmade_list import UnmadeList
from episodia.modules import MLPActorCritic
from episodia.testing import (
    EPISODES,
    MULTI_AGENT_EPISODES,
    FakeEnv,
    assert_same_episode,
    assert_same_items,
    chunked_episodes,
    multi_agent_episodes,
)
from list_questions import assert_answers_alike, even_or_odd, sent
from scripted_agents import Echo, makers


@settings(max_examples=25)
@given(chunked_episodes(lengths=st.integers(1, 6)))
def test_a_table_of_hand_built_chunks_answers_as_the_list(drawn):
    listed = [chunk for chunk in drawn[1] if len(chunk)]

    assert_answers_alike(lambda: sent(EpisodeList(listed)), EpisodeList(listed))


@settings(max_examples=8)
@given(st.lists(multi_agent_episodes(), max_size=3))
def test_a_table_of_multi_agent_episodes_answers_as_the_list(listed):
    assert_answers_alike(lambda: sent(EpisodeList(listed)), EpisodeList(listed))


@pytest.mark.parametrize("name", EPISODES)
def test_a_table_of_each_named_episode_answers_as_the_list(name):
    listed = EpisodeList([EPISODES[name](), EPISODES[name]()])

    assert_answers_alike(lambda: sent(listed), EpisodeList(list(listed)))


@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_a_table_of_each_named_multi_agent_episode_answers_as_the_list(name):
    listed = EpisodeList([MULTI_AGENT_EPISODES[name]()])

    assert_answers_alike(lambda: sent(listed), EpisodeList(list(listed)))


@pytest.mark.parametrize("steps", [30, 400])
@pytest.mark.parametrize("lookback", [0, 3])
def test_a_table_of_recorded_chunks_answers_as_the_list(steps, lookback):
    with SingleAgentEnvRunner("CartPole-v1", num_envs=3, seed=0, lookback=lookback) as runner:
        samples = [runner.sample(num_timesteps=steps) for _ in range(3)]
    for sample in samples:
        packed = pickle.dumps(sample)

        assert sample.is_untouched
        assert_answers_alike(lambda packed=packed: pickle.loads(packed), EpisodeList(list(sample)))


def test_a_table_of_many_agents_keeps_modules_apart_without_episodes():
    make, _ = makers(kind="simultaneous", tells_infos=False)
    with MultiAgentEnvRunner(
        make, {"even": Echo(), "odd": Echo()}, num_envs=2, seed=0, agent_to_module_mapping_fn=even_or_odd
    ) as runner:
        sample = runner.sample(num_timesteps=40)
    arrived = sent(sample)

    assert set(arrived.groups()) == {"even", "odd"}
    for name, group in arrived.groups().items():
        expected = sample.groups()[name]
        assert_same_items(group.flat(Columns.OBS, tail=True).values, expected.flat(Columns.OBS, tail=True).values)
    assert arrived.is_untouched
    assert len(arrived) == len(sample)


def test_a_learner_pipeline_makes_the_same_batch_of_a_table_without_episodes():
    with SingleAgentEnvRunner("CartPole-v1", num_envs=4, seed=0) as runner:
        sample = runner.sample(num_timesteps=200)
        module = MLPActorCritic(runner.env.single_observation_space, runner.env.single_action_space)
    arrived, pipeline = sent(sample), defaults.learner()
    mine = pipeline(rl_module=module, batch={}, episodes=arrived.forked())
    other = pipeline(rl_module=module, batch={}, episodes=sample.forked())

    assert arrived.is_untouched
    for name, column in other["default_policy"].items():
        assert np.array_equal(np.asarray(mine["default_policy"][name]), np.asarray(column)), name


def test_infos_of_recorded_chunks_travel_and_empty_ones_take_no_room():
    with SingleAgentEnvRunner(FakeEnv, num_envs=2, seed=0) as runner:
        sample = runner.sample(num_timesteps=20)
    arrived = sent(sample)

    assert arrived.flat(Columns.INFOS, tail=True).items() == sample.flat(Columns.INFOS, tail=True).items()


def test_a_fork_of_a_table_can_be_changed_alone():
    with SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0) as runner:
        arrived = sent(runner.sample(num_timesteps=20))
    forked = arrived.forked()
    forked[0].set_rewards(new_data=9.0, at_indices=0)

    assert forked.flat(Columns.REWARDS).values[0] == 9.0
    assert arrived.flat(Columns.REWARDS).values[0] == 1.0


def test_a_table_travels_on_as_it_came():
    with SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0) as runner:
        sample = runner.sample(num_timesteps=20)
    arrived = sent(sent(sample).forked())

    assert isinstance(arrived, UnmadeList)
    assert arrived.is_untouched
    for mine, other in zip(arrived, sample, strict=True):
        assert_same_episode(mine, other)


def test_episodes_of_a_subclass_arrive_made():
    class Named(SingleAgentEpisode):
        """An episode of a class that pickle finds."""

    globals()["Named"] = Named
    Named.__qualname__ = "Named"

    assert type(sent(EpisodeList([Named("walk", observations=[0, 1], actions=[0], rewards=[1.0])]))[0]) is Named
