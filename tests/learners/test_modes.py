"""Networks act in one mode and learn in the other, and return to the mode that they had before."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from drives import drive
from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.learners import A2CConfig, GradientFunction, Learner
from episodia.modules.modes import mode
from episodia.policies import Policy
from remembering import Remembering


class Noisy(Remembering):
    """Notes in which mode it was asked."""

    def __init__(self, *spaces_of_env):
        super().__init__(*spaces_of_env, dropout=0.5)
        self.asked = []

    def forward(self, batch, *, actor=True, critic=True):
        self.asked.append(("train" if critic else "act", self.training, self.drop.training))
        return super().forward(batch, actor=actor, critic=critic)

    def compute_values(self, batch, embeddings=None):
        self.asked.append(("values", self.training, self.drop.training))
        return super().compute_values(batch, embeddings)


class Pair(MultiAgentEnv):
    """Two agents that see nothing, and go on for ever."""

    possible_agents = agents = ("left", "right")
    observation_spaces = dict.fromkeys(agents, spaces.Box(0.0, 1.0, (1,), np.float32))
    action_spaces = dict.fromkeys(agents, spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        return dict.fromkeys(self.agents, np.zeros(1, np.float32)), {}

    def step(self, actions):
        return dict.fromkeys(self.agents, np.zeros(1, np.float32)), dict.fromkeys(self.agents, 0.0), {}, {}, {}


def cartpole_net():
    env = gym.make("CartPole-v1")
    return Noisy(env.observation_space, env.action_space)


def modes_of(module):
    return {name: part.training for name, part in module.named_modules()}


@pytest.mark.parametrize("training", [True, False])
def test_runners_act_in_the_mode_for_acting_and_leave_the_module_as_it_was(training):
    module = cartpole_net().train(training)
    module.norm.train(not training)
    before = (modes_of(module), module.norm.running_mean.clone())

    with SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=0) as runner:
        runner.sample(num_timesteps=20)
        runner.evaluate(1)

    assert set(module.asked) == {("act", False, False)}
    assert modes_of(module) == before[0]
    assert torch.equal(module.norm.running_mean, before[1])


def test_runners_of_several_agents_act_in_the_mode_for_acting():
    module = Noisy(Pair.observation_spaces["left"], Pair.action_spaces["left"])

    with MultiAgentEnvRunner(Pair, module, seed=0) as runner:
        runner.sample(num_timesteps=10)

    assert set(module.asked) == {("act", False, False)}
    assert all(modes_of(module).values())


def test_a_policy_does_what_the_runner_does():
    module = cartpole_net()
    module.norm.running_mean += 0.5
    with SingleAgentEnvRunner("CartPole-v1", module, seed=0) as runner:
        (episode,) = runner.sample(num_episodes=1, explore=False)
        policy = Policy(module, runner.env_to_module, runner.module_to_env, explore=False)

    assert [policy(obs) for obs in episode.get_observations()[:-1]] == episode.get_actions().tolist()


def test_values_are_those_of_the_acting_network_and_losses_those_of_the_learning_one():
    module = Noisy().eval()
    before = module.norm.running_mean.clone()

    Learner(module, A2CConfig(), seed=0).update([drive(8)], num_epochs=2)

    assert module.asked == [("values", False, False), ("train", True, True), ("train", True, True)]
    assert not any(modes_of(module).values())
    assert not torch.equal(module.norm.running_mean, before)


def test_gradients_for_other_places_are_those_of_the_learning_network():
    module = Noisy().eval()
    learner = Learner(module, A2CConfig(), seed=0)
    function = GradientFunction(module, A2CConfig())
    batch = learner.batch_of([drive(8)])

    # With the same noise, which only a learning network has.
    torch.manual_seed(0)
    elsewhere = function(learner.get_state(function.components), batch)
    torch.manual_seed(0)
    here = learner.compute_gradients(batch)

    assert module.asked[1:] == [("train", True, True)]
    assert torch.equal(here["critic_head.weight"], elsewhere["critic_head.weight"])
    assert not any(modes_of(module).values())


def test_an_error_leaves_the_modes_as_they_were():
    module = Noisy().eval()
    learner = Learner(module, A2CConfig(), seed=0)
    batch = learner.batch_of([drive(8)])
    del batch["default_policy"]["advantages"]

    with pytest.raises(ValueError, match="advantages"):
        learner.update_batch(batch)

    assert not any(modes_of(module).values())


class Redirecting(nn.Module):
    """Notes which attributes are set, as a wrapper that passes them on."""

    def __init__(self):
        vars(self)["noted"] = []
        super().__init__()

    def __setattr__(self, name, value):
        self.noted.append((name, value))
        super().__setattr__(name, value)


def test_modules_that_redirect_attributes_are_told_their_mode():
    network = nn.Sequential(nn.Dropout(), Redirecting())
    network[1].noted.clear()

    with mode([network], training=False):
        inside = modes_of(network)

    assert not any(inside.values())
    assert all(modes_of(network).values())
    assert network[1].noted == [("training", False), ("training", True)]
