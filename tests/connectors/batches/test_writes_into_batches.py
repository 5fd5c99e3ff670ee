"""A4: batches and episodes share no memory: who writes into one of them does not change the other."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia import SingleAgentEnvRunner
from episodia.connectors import NumpyToTensor, defaults
from episodia.testing import assert_same_episode
from episodia.trees import leaves

ENV = gym.make("CartPole-v1")
SPACES = ENV.observation_space, ENV.action_space


def to_arrays(pipeline):
    pipeline.remove(NumpyToTensor)
    return pipeline


PIPELINES = {
    "tensors for a learner": defaults.learner(*SPACES),
    "arrays for a learner": to_arrays(defaults.learner(*SPACES)),
    "tensors for a module": defaults.env_to_module(*SPACES),
    "arrays for a module": to_arrays(defaults.env_to_module(*SPACES)),
}


def recorded():
    with SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0) as runner:
        return runner.sample(num_timesteps=40)


def overwrite(column):
    """Write zeros into an array or a tensor; an array may say that it is read-only."""
    if isinstance(column, torch.Tensor) or column.flags.writeable:
        column[...] = 0


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("one_only", [False, True])
def test_a4_writing_into_a_batch_changes_no_episode(name, one_only):
    episodes, same = recorded(), recorded()
    played = episodes[:1] if one_only else episodes
    batch = PIPELINES[name](rl_module=None, episodes=played)
    for column in batch.get("default_policy", batch).values():
        for _, leaf in leaves(column):
            overwrite(leaf)

    for found, expected in zip(episodes, same, strict=True):
        assert_same_episode(found, expected, ignore=["times"])


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("one_only", [False, True])
def test_a4_writing_into_an_episode_changes_no_batch(name, one_only):
    episodes = recorded()[:1] if one_only else recorded()
    batch = PIPELINES[name](rl_module=None, episodes=episodes)
    columns = batch.get("default_policy", batch)
    before = {column: np.asarray(values).copy() for column, values in columns.items()}
    for episode in episodes:
        episode.set_observations(new_data=np.zeros_like(episode.get_observations()))
        episode.set_actions(new_data=np.zeros_like(episode.get_actions()))
        episode.set_rewards(new_data=np.zeros_like(episode.get_rewards()))

    assert all(np.array_equal(np.asarray(columns[column]), values) for column, values in before.items())
