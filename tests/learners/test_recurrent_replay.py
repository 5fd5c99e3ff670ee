"""Recurrent Q-learning from stored sequences: states, burn-in, masks, priorities."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.env_runners import SingleAgentEnvRunner
from episodia.learners import DQNConfig, Learner, R2D2Config, ReplayUpdates
from episodia.learners.algorithms.off_policy import ReplayedSteps
from episodia.learners.losses.loss import LossInputs
from episodia.learners.losses.q_targets import squashed, unsquashed
from episodia.modules import QNetwork
from episodia.replay import Proportional, ReplayBuffer

ENV = gym.make("CartPole-v1")
KINDS = ["lstm", "gru"]


def network(kind, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return QNetwork(
        ENV.observation_space, ENV.action_space, hidden=(8,), recurrent=kind, cell_size=4, generator=generator
    )


def stored(module, **options):
    buffer = ReplayBuffer(1000, seed=0, **options)
    with SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=0) as runner:
        for _ in range(4):
            buffer.add(runner.sample(num_timesteps=20))
    return buffer


def unrolled(module, episode):
    """Return the values of all observations of an episode, from the state before its first step."""
    observations = torch.tensor(np.asarray(episode.get_observations()))[None]
    state = {name: torch.as_tensor(value)[None] for name, value in module.get_initial_state().items()}
    with torch.no_grad():
        return module.forward_train({"obs": observations, "state_in": state})["q_values"][0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("burn_in", [0, 3])
def test_sequences_begin_with_the_state_in_which_the_network_acted(kind, burn_in):
    """With unchanged weights, values within a sequence are those of the whole episode, and so are those that follow."""
    module, config = network(kind), R2D2Config(max_seq_len=5, burn_in=burn_in)
    buffer, learner = stored(module), Learner(module, config, seed=0)
    sampled = buffer.sample(20, config.draw(), lookback=learner.pipeline.lookback)
    batch = learner.batch_of(sampled)["default_policy"]
    with torch.no_grad():
        now = module.forward_train(batch)["q_values"]
        later = ReplayedSteps(LossInputs(module, batch, {}), 0.99).next_outputs(module)["q_values"]

    whole = {
        tuple(row.tolist()): value
        for episode in buffer.episodes()
        for row, value in zip(np.asarray(episode.get_observations()), unrolled(module, episode), strict=True)
    }
    counted = batch["loss_mask"].nonzero().tolist()
    assert len(counted) > 40
    for row, t in counted:
        torch.testing.assert_close(now[row, t], whole[tuple(batch["obs"][row, t].tolist())])
        torch.testing.assert_close(later[row, t], whole[tuple(batch["new_obs"][row, t].tolist())])


def test_burn_in_steps_do_not_count():
    module, config = network("gru"), R2D2Config(max_seq_len=4, burn_in=3)
    buffer, learner = stored(module), Learner(module, config, seed=0)
    sampled = buffer.sample(30, config.draw(), lookback=learner.pipeline.lookback)
    batch = learner.batch_of(sampled)["default_policy"]

    assert batch["obs"].shape[1] <= 7
    assert int(batch["loss_mask"].sum(1).max()) == 4
    assert (batch["seq_lens"] > batch["loss_mask"].sum(1)).any()


def test_targets_on_the_rescaled_scale_are_those_of_plain_arithmetic():
    module, config = network("gru"), R2D2Config(max_seq_len=4, burn_in=0, double=False)
    buffer, learner = stored(module), Learner(module, config, seed=0)
    batch = learner.batch_of(buffer.sample(5, config.draw(), lookback=1))["default_policy"]
    target = learner.target_networks["default_policy"]["target"]
    found = config.loss(LossInputs(module, batch, {}, {"target": target}))

    with torch.no_grad():
        values = module.forward_train(batch)["q_values"].gather(-1, batch["actions"][..., None])[..., 0]
        after = ReplayedSteps(LossInputs(module, batch, {}), 0.99).next_outputs(target)["q_values"].amax(-1)
        discounts = 0.99 * (1.0 - batch["terminateds"].float())
        errors = (values - squashed(batch["rewards"].float() + discounts * unsquashed(after))).abs()
    mask = batch["loss_mask"].float()
    expected = 0.9 * (errors * mask).amax(1) + 0.1 * (errors * mask).sum(1) / mask.sum(1)
    torch.testing.assert_close(found.rows["td_error"], expected)


def test_priorities_of_sequences_are_written_under_the_keys_of_their_chosen_steps():
    module, config = network("lstm"), R2D2Config(max_seq_len=4, burn_in=2)
    buffer = stored(module, selector=Proportional(alpha=1.0))
    updates = ReplayUpdates(Learner(module, config, seed=0), buffer, num=16)
    before = buffer.sample(200, config.draw(), lookback=1).weights
    metrics = updates.update()

    assert metrics.rows["default_policy"]["td_error"].shape == (16,)
    assert np.ptp(before) == 0.0
    assert np.ptp(buffer.sample(200, config.draw(), lookback=1).weights) > 0.0


def test_several_steps_in_sequences_are_rejected():
    with pytest.raises(ValueError, match="n_step"):
        R2D2Config(n_step=3)
    assert DQNConfig().draw() != R2D2Config().draw()
