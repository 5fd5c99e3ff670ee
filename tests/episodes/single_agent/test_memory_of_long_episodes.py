"""A9: how much memory a long episode takes beside its arrays."""

import copy
import gc
import pickle
import tracemalloc

import gymnasium as gym
import numpy as np
import pytest

from episodia import SingleAgentEpisode
from episodia.env_runners import SingleAgentEnvRunner
from episodia.episodes.columns.storage import NO_INFO

NUM_STEPS = 5_000


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        return np.zeros(4, np.float32), 1.0, False, False, {}


def long_episode(num_steps=NUM_STEPS):
    episode = SingleAgentEpisode()
    observation = np.zeros(4, np.float32)
    episode.add_env_reset(observation)
    for _ in range(num_steps):
        episode.add_env_step(observation, 0, 1.0)
    return episode


def recorded_episode(num_steps):
    with SingleAgentEnvRunner(Endless, num_envs=1, seed=0) as runner:
        return runner.sample(num_timesteps=num_steps)[0]


def bytes_of_arrays(episode):
    arrays = [episode.get_observations(), episode.get_actions(), episode.get_rewards()]
    return sum(array.nbytes for array in [*arrays, *map(episode.get_extra_model_outputs, episode.extra_model_outputs)])


@pytest.fixture
def traced():
    tracemalloc.start()
    yield tracemalloc.get_traced_memory
    tracemalloc.stop()


@pytest.mark.parametrize("num_steps", [NUM_STEPS, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a9_infos_that_are_empty_cost_a_finalized_episode_nothing(num_steps, traced):
    before = traced()[0]
    episode = long_episode(num_steps)
    growing = traced()[0] - before
    episode.finalize()
    finalized = traced()[0] - before

    # While it grows, each observation is an array of its own.
    assert finalized < 1.1 * bytes_of_arrays(episode)
    assert growing < 5.5 * bytes_of_arrays(episode)


@pytest.mark.parametrize(
    "derive",
    [
        copy.copy,
        copy.deepcopy,
        lambda episode: episode[:],
        lambda episode: pickle.loads(pickle.dumps(episode)),
        lambda episode: SingleAgentEpisode.from_state(episode.get_state()),
        lambda episode: SingleAgentEpisode(
            observations=episode.get_observations(),
            actions=episode.get_actions(),
            rewards=episode.get_rewards(),
            len_lookback_buffer=0,
        ),
    ],
)
def test_a9_what_is_derived_from_an_episode_stores_empty_infos_for_nothing(derive, traced):
    episode = long_episode().finalize()
    before = traced()[0]
    derived = derive(episode)
    taken = traced()[0] - before
    assert taken < 1.1 * bytes_of_arrays(episode)

    assert derived.get_infos() == [{}] * (NUM_STEPS + 1)
    assert traced()[0] - before < 1.1 * bytes_of_arrays(episode)


@pytest.mark.parametrize("num_steps", [NUM_STEPS, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a9_a_recorded_episode_takes_little_beside_its_arrays(num_steps, traced):
    episode = recorded_episode(num_steps)
    assert not any(episode.get_infos())
    expected = 1.2 * bytes_of_arrays(episode)
    gc.collect()
    before = traced()[0]
    del episode
    gc.collect()

    assert before - traced()[0] < expected


@pytest.mark.parametrize("num_steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a9_recording_a_long_episode_takes_at_most_three_times_its_arrays(num_steps, traced):
    with SingleAgentEnvRunner(Endless, num_envs=1, seed=0) as runner:
        runner.sample(num_timesteps=100)
        before = traced()[0]
        tracemalloc.reset_peak()
        episode = runner.sample(num_timesteps=num_steps)[0]

        assert traced()[1] - before < 3 * bytes_of_arrays(episode)


def test_empty_infos_that_a_caller_changes_stay_empty_in_the_episode():
    episode = long_episode(5)
    for read in (
        episode.get_infos,
        lambda: [episode.get_infos(2)],
        episode[1:3].get_infos,
        lambda: episode.get_state()["infos"]["data"],
        lambda: SingleAgentEpisode.from_state(episode.get_state()).get_infos(),
        lambda: episode.cut(2).get_infos(),
    ):
        for info in read():
            info["mine"] = 1

    assert NO_INFO == {}
    assert episode.get_infos() == [{}] * 6
