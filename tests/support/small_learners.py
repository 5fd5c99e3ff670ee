"""Small networks, runners and learners for CartPole, all with the same weights."""

import gymnasium as gym
import torch

from episodia import SingleAgentEnvRunner
from episodia.learners import A2CConfig, Learner
from episodia.modules import MLPActorCritic

SPACES = gym.make("CartPole-v1")


def new_module(kind=MLPActorCritic):
    torch.manual_seed(0)
    return kind(SPACES.observation_space, SPACES.action_space, hidden=(8,))


def make_runner(seed, kind=MLPActorCritic, **settings):
    return SingleAgentEnvRunner("CartPole-v1", new_module(kind), num_envs=2, seed=seed, **settings)


def new_learner(config=None, kind=MLPActorCritic, **settings):
    return Learner(new_module(kind), config or A2CConfig(), seed=0, **settings)


def weights_of(learner):
    return learner.get_weights()["default_policy"]


def is_same(first, second, tolerance=0.0):
    return all(torch.allclose(first[name], second[name], rtol=0, atol=tolerance) for name in first)
