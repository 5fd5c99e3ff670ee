"""Padding never matters, and a policy that has not moved is found to be itself."""

from __future__ import annotations

import pytest
import torch

from drives import ACTIONS, OBSERVATIONS, drive
from episodia import Columns
from episodia.learners import A2CConfig, EvaluatedSteps, Learner, PPOConfig, ReinforceConfig, minibatches
from episodia.modules import LSTMActorCritic, MLPActorCritic
from recall_games import ACTIONS as SAID
from recall_games import OBSERVATIONS as SHOWN
from recall_games import play

CONFIGS = [ReinforceConfig(max_seq_len=4), A2CConfig(max_seq_len=4), PPOConfig(max_seq_len=4, kl_coefficient=0.2)]


def lstm(observations=OBSERVATIONS, actions=ACTIONS, cell_size=4):
    generator = torch.Generator().manual_seed(0)
    return LSTMActorCritic(observations, actions, hidden=(8,), cell_size=cell_size, generator=generator)


def drives():
    return [drive(length, stateful=True, end="terminated") for length in (7, 2, 5)]


@pytest.mark.parametrize("config", CONFIGS, ids=type)
def test_what_stands_at_padded_steps_has_no_influence(config):
    learner = Learner(lstm(), config)
    columns = learner.batch_of(drives())["default_policy"]
    expected = learner.compute_gradients({"default_policy": columns})
    padding = ~columns[Columns.LOSS_MASK]
    changed = {name: column.clone() if torch.is_tensor(column) else column for name, column in columns.items()}
    for name in (Columns.OBS, Columns.REWARDS, Columns.ADVANTAGES, Columns.VALUE_TARGETS, Columns.RETURNS_TO_GO):
        if name in changed:
            changed[name][padding] = 1e6
    changed[Columns.ACTION_LOGP][padding] = torch.nan
    changed[Columns.ACTIONS][padding] = -7

    found = learner.compute_gradients({"default_policy": changed})

    assert padding.any()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("config", CONFIGS, ids=type)
def test_how_far_sequences_are_padded_has_no_influence(config):
    learner = Learner(lstm(), config)
    columns = learner.batch_of(drives())["default_policy"]

    def wider(leaf):
        return torch.cat([leaf, leaf[:, :1].expand(-1, 3, *leaf.shape[2:])], 1)

    longer = {
        name: column if name in (Columns.STATE_IN, Columns.SEQ_LENS) else wider(column)
        for name, column in columns.items()
    }
    longer[Columns.LOSS_MASK][:, -3:] = False

    found, expected = (learner.compute_gradients({"default_policy": part}) for part in (longer, columns))

    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient)


def test_steps_of_the_burn_in_count_for_the_state_and_not_for_the_loss():
    learner = Learner(lstm(), A2CConfig(max_seq_len=3, burn_in=2))

    counts = learner.num_steps_of(learner.batch_of(drives()))

    assert counts == {"default_policy": 14}


def modules():
    generator = torch.Generator().manual_seed(3)
    mlp = MLPActorCritic(SHOWN, SAID, hidden=(16, 16), generator=generator)
    return [mlp, lstm(SHOWN, SAID, cell_size=16)]


@pytest.mark.parametrize("module", modules(), ids=type)
def test_the_ratio_of_ppo_is_1_before_the_first_gradient_step(module):
    episodes = play(module, games=12, length=7)
    learner = Learner(module, PPOConfig(max_seq_len=3))

    batch = learner.batch_of(episodes)

    for parts in minibatches(batch, minibatch_size=16):
        steps = EvaluatedSteps(module, parts["default_policy"].columns)
        ratios = (steps.logp() - steps.column(Columns.ACTION_LOGP)).exp()
        torch.testing.assert_close(ratios, torch.ones_like(ratios), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("module", modules(), ids=type)
def test_before_the_first_gradient_step_nothing_is_clipped_and_no_policy_differs(module):
    episodes = play(module, games=12, length=7)
    learner = Learner(module, PPOConfig(max_seq_len=3, kl_coefficient=1.0, learning_rate=1e-2))

    metrics = learner.update(episodes)["default_policy"]

    assert metrics["clip_fraction"] == 0.0
    assert metrics["kl"] == pytest.approx(0.0, abs=1e-9)
    assert learner.update(episodes)["default_policy"]["kl"] > 1e-7


@pytest.mark.parametrize("module", modules(), ids=type)
def test_logp_is_the_same_bits_if_all_rows_are_evaluated_together(module):
    episodes = play(module, games=64, length=1)

    columns = Learner(module, PPOConfig(max_seq_len=1)).batch_of(episodes)["default_policy"]

    steps = EvaluatedSteps(module, columns)
    assert torch.equal((steps.logp() - steps.column(Columns.ACTION_LOGP)).exp(), torch.ones(64))
