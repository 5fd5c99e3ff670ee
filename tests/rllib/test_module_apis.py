"""Interfaces and helpers of ported modules: target networks, initial weights, paddings."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from episodia import SingleAgentEnvRunner
from episodia.learners import Learner, PPOConfig
from episodia.rllib import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    Columns,
    InferenceOnlyAPI,
    TargetNetworkAPI,
    TorchRLModule,
    ValueFunctionAPI,
    make_target_network,
    normc_initializer,
    override,
    same_padding,
    valid_padding,
)

SIZES = [
    ((42, 42), 4, 2),
    ((84, 84), 8, 4),
    ((10, 7), (3, 2), (2, 1)),
    ((5, 5), 5, 3),
    ((11, 11), 1, 1),
    ((7, 9), 2, 3),
]


class WithTarget(TorchRLModule, ValueFunctionAPI, TargetNetworkAPI, InferenceOnlyAPI):
    """A module as RLlib's examples write it."""

    @override(TorchRLModule)
    def setup(self):
        self.policy = nn.Linear(4, 2)
        self.values = nn.Linear(4, 1)
        normc_initializer(0.01)(self.policy.weight)

    @override(TorchRLModule)
    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.policy(batch[Columns.OBS])}

    @override(ValueFunctionAPI)
    def compute_values(self, batch, embeddings=None):
        return self.values(batch[Columns.OBS]).squeeze(-1)

    @override(TargetNetworkAPI)
    def make_target_networks(self):
        self.target = make_target_network(self.policy)

    @override(TargetNetworkAPI)
    def get_target_network_pairs(self):
        return [(self.policy, self.target)]

    @override(TargetNetworkAPI)
    def forward_target(self, batch):
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.target(batch[Columns.OBS])}

    @override(InferenceOnlyAPI)
    def get_non_inference_attributes(self):
        return ["values"]


def test_a_module_with_a_target_network_acts_and_learns():
    env = gym.make("CartPole-v1")
    module = WithTarget(env.observation_space, env.action_space)
    module.make_target_networks()
    before = module.target.weight.clone()
    with SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=0) as runner:
        Learner(module, PPOConfig(), seed=0).update(runner.sample(num_timesteps=40))

    assert torch.equal(module.target.weight, before)
    assert not torch.equal(module.policy.weight, before)


def test_a_target_network_is_a_copy_without_gradients():
    network = nn.Linear(2, 1)
    target = make_target_network(network)

    assert torch.equal(target.weight, network.weight)
    assert target.weight is not network.weight
    assert [weights.requires_grad for weights in target.parameters()] == [False, False]
    assert network.weight.requires_grad


@pytest.mark.parametrize(("size", "width", "stride"), SIZES)
def test_paddings_give_the_sizes_that_a_convolution_has(size, width, stride):
    image, layer = torch.zeros(1, 1, *size), nn.Conv2d(1, 1, width, stride)
    padding, same = same_padding(size, width, stride)

    assert tuple(layer(nn.functional.pad(image, padding)).shape[2:]) == same
    assert same == tuple(-(-length // step) for length, step in zip(size, np.broadcast_to(stride, 2), strict=True))
    if all(length >= reach for length, reach in zip(size, np.broadcast_to(width, 2), strict=True)):
        assert tuple(layer(image).shape[2:]) == valid_padding(size, width, stride)
