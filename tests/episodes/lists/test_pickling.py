"""A pickled list ships the rows of its episodes as flat columns, and nothing of the blocks that they are views on."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.env_runners import SingleAgentEnvRunner
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.modules import MLPActorCritic
from episodia.testing import assert_same_episode, assert_same_multi_agent_episode, episodes, multi_agent_episodes
from scripted_agents import Echo, makers


def sent(listed):
    return pickle.loads(pickle.dumps(listed, protocol=5))


def assert_same(found, expected):
    assert isinstance(found, EpisodeList)
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        compare = assert_same_multi_agent_episode if isinstance(other, MultiAgentEpisode) else assert_same_episode
        compare(mine, other)


def one_for_all(*_):
    return "default_policy"


def random_runner(num_envs):
    return SingleAgentEnvRunner("CartPole-v1", num_envs=num_envs, seed=0, lookback=3)


def cartpole_runner(num_envs=4, **settings):
    env = gym.make("CartPole-v1")
    module = MLPActorCritic(env.observation_space, env.action_space)
    return SingleAgentEnvRunner("CartPole-v1", module, num_envs=num_envs, seed=0, lookback=3, **settings)


def array_bytes(listed):
    total = 0
    for row in listed.agent_episodes:
        for column in (row.observations, row.actions, row.rewards, *row.extra_model_outputs.values()):
            total += np.asarray(column.lend()).nbytes
    return total


@settings(max_examples=25)
@given(st.lists(episodes(), max_size=4))
def test_lists_of_hand_built_episodes_come_back_as_they_were(listed):
    assert_same(sent(EpisodeList(listed)), listed)


@settings(max_examples=10)
@given(st.lists(multi_agent_episodes(), max_size=3))
def test_lists_of_multi_agent_episodes_come_back_as_they_were(listed):
    assert_same(sent(EpisodeList(listed)), listed)


def test_recorded_chunks_come_back_with_their_lookbacks():
    with cartpole_runner() as runner:
        samples = [runner.sample(num_timesteps=60) for _ in range(3)]

    for sample in samples:
        assert_same(sent(sample), list(sample))
    assert max(chunk.observations.lookback for chunk in sent(samples[-1])) == 3


def test_recorded_and_hand_built_episodes_mix():
    by_hand = SingleAgentEpisode("by hand", observations=[1, 2], actions=[0], rewards=[1.0], infos=[{}, {"x": 1}])
    with cartpole_runner() as runner:
        mixed = EpisodeList(
            [*runner.sample(num_timesteps=30), by_hand, *runner.sample(num_episodes=2, random_actions=True)]
        )

    assert_same(sent(mixed), list(mixed))


def test_a_pickle_is_as_large_as_the_arrays_of_the_episodes():
    with random_runner(16) as runner:
        sample = runner.sample(num_timesteps=2000)

    size = len(pickle.dumps(sample, protocol=5))
    assert size < array_bytes(sample) + 120 * len(sample) + 4000


def test_a_pickle_of_many_agents_is_as_large_as_their_arrays():
    make, _ = makers(kind="simultaneous", tells_infos=False)
    with MultiAgentEnvRunner(make, Echo(), num_envs=4, seed=0, agent_to_module_mapping_fn=one_for_all) as runner:
        sample = runner.sample(num_timesteps=400)

    assert len(pickle.dumps(sample, protocol=5)) < array_bytes(sample) + 1200 * len(sample) + 4000
    assert_same(sent(sample), list(sample))


@pytest.mark.parametrize(
    "take", [lambda sample: sample[:1], lambda sample: EpisodeList([sample[0]]), lambda sample: sample[0]]
)
def test_one_episode_of_a_large_block_ships_and_holds_itself_only(take):
    with random_runner(32) as runner:
        runner.sample(num_timesteps=32 * 100)
        one = take(runner.sample(num_timesteps=32 * 100))
    rows = EpisodeList([one]) if isinstance(one, SingleAgentEpisode) else one
    shipped = pickle.dumps(one, protocol=5)
    arrived = pickle.loads(shipped)
    arrived = EpisodeList([arrived]) if isinstance(arrived, SingleAgentEpisode) else arrived

    assert len(shipped) < array_bytes(rows) + 3000
    observations = arrived[0].observations.lend()
    while observations.base is not None and isinstance(observations.base, np.ndarray):
        observations = observations.base
    assert observations.nbytes == rows[0].observations.lend().nbytes


def test_arrays_travel_out_of_band_and_few():
    with random_runner(16) as runner:
        sample = runner.sample(num_timesteps=2000)
    buffers = []
    body = pickle.dumps(sample, protocol=5, buffer_callback=buffers.append)

    assert len(body) < 120 * len(sample) + 4000
    assert len(buffers) < 40
    assert_same(pickle.loads(body, buffers=buffers), list(sample))


def test_what_arrives_cannot_be_changed_by_accident_and_can_be_changed_on_purpose():
    with cartpole_runner() as runner:
        sample = runner.sample(num_timesteps=60)
    arrived = sent(sample)
    arrived[0].set_rewards(new_data=9.0, at_indices=0)

    with pytest.raises(ValueError, match="read-only"):
        arrived[1].get_observations()[0] = 1.0
    assert arrived[0].get_rewards(0) == 9.0
    assert_same_episode(arrived[1], sample[1])


def test_a_subclass_and_the_present_moment_survive():
    class Named(SingleAgentEpisode):
        pass

    globals()["Named"] = Named
    Named.__qualname__ = "Named"
    named = Named("walk", observations=[0, 1], actions=[0], rewards=[1.0])
    named.nickname = "Wally"
    (arrived,) = sent(EpisodeList([named]))

    assert (type(arrived), arrived.nickname) == (Named, "Wally")
    assert sent(EpisodeList([named]).current()).is_current


def test_a_copy_of_a_list_has_the_same_episodes():
    walk = SingleAgentEpisode("walk", observations=[0, 1], actions=[0], rewards=[1.0])

    assert copy.copy(EpisodeList([walk]))[0] is walk
    assert copy.deepcopy(EpisodeList([walk]))[0] is not walk
