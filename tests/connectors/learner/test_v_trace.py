"""V-trace targets: values and log-probabilities are those of the module as it is now."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.connectors import GeneralAdvantageEstimation, VTrace, defaults
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import PipelineError
from episodia.modules import QNetwork, default_module
from ragged_batches import Batch, plain_v_trace

NUMBERS = {"gamma": 0.9, "lambda_": 0.8, "clip_ratio": 1.5, "clip_trace": 0.7}


class Walk(gym.Env):
    """Ends after some steps, truncated or terminated in turns."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(3)
    played = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.played, self.left = self.played + 1, 3 + self.played
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.left -= 1
        observation = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return (
            observation,
            float(action),
            not self.left and self.played % 2 == 0,
            not self.left and self.played % 2 == 1,
            {},
        )


def network(recurrent, seed):
    generator = torch.Generator().manual_seed(seed)
    made = default_module(
        Walk.observation_space, Walk.action_space, hidden=(8,), recurrent=recurrent, generator=generator
    )
    with torch.no_grad():
        made.actor_head.weight.normal_(generator=generator)
    return made


def played(module):
    with SingleAgentEnvRunner(Walk, module, num_envs=2, seed=0) as runner:
        return runner.sample(num_timesteps=40)


def batch_of(episodes, module, *, stateful, **numbers):
    pipeline = defaults.learner(targets=[VTrace(**numbers)], stateful=stateful, max_seq_len=50)
    return pipeline(rl_module=module, episodes=episodes)["default_policy"]


def test_targets_agree_with_a_loop_over_each_episode():
    episodes, module = played(network(None, 0)), network(None, 1)
    found = batch_of(episodes, module, stateful=False, **NUMBERS)

    expected = []
    for episode in episodes:
        observations = {"obs": torch.tensor(np.asarray(episode.get_observations()))}
        with torch.no_grad():
            values = module.compute_values(observations).numpy()
            logits = module.forward_train(observations)["action_dist_inputs"][:-1].log_softmax(-1).numpy()
        logs = logits[np.arange(len(episode)), episode.get_actions()] - episode.get_extra_model_outputs("action_logp")
        one = Batch(np.asarray(episode.get_rewards()), values[:-1], values[-1:], [episode.is_terminated], None)
        expected.append(
            plain_v_trace(
                one, logs, discount=0.9, **{name: value for name, value in NUMBERS.items() if name != "gamma"}
            )
        )

    assert {episode.is_terminated for episode in episodes} == {True, False}
    for place, name in enumerate(("advantages", "value_targets")):
        wanted = np.concatenate([part[place] for part in expected])
        np.testing.assert_allclose(found[name].numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_for_the_policy_that_acted_targets_are_those_of_gae_with_lambda_1(recurrent):
    module = network(recurrent, 0)
    found = batch_of(played(module), module, stateful=recurrent is not None, gamma=0.9)
    gae = defaults.learner(
        targets=[GeneralAdvantageEstimation(gamma=0.9, lambda_=1.0)], stateful=recurrent is not None, max_seq_len=50
    )(rl_module=module, episodes=played(network(recurrent, 0)))["default_policy"]

    counted = found.get("loss_mask", torch.ones_like(found["rewards"], dtype=torch.bool))
    torch.testing.assert_close(found["advantages"][counted], gae["advantages"][counted], rtol=1e-3, atol=1e-4)


def test_a_module_without_values_is_rejected():
    with pytest.raises(PipelineError, match="compute_values"):
        batch_of(played(network(None, 0)), QNetwork(Walk.observation_space, Walk.action_space), stateful=False)


@pytest.mark.parametrize("wrong", [{"gamma": 1.5}, {"lambda_": -0.1}, {"clip_ratio": 0.0}, {"clip_trace": 2.0}])
def test_numbers_out_of_range_are_named(wrong):
    with pytest.raises(PipelineError, match=next(iter(wrong))):
        VTrace(**wrong)
