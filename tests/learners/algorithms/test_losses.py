"""Losses and their gradients, against numbers that are computed by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import SingleAgentEpisode
from episodia.errors import LearnerError
from episodia.learners import (
    LOSS,
    A2CConfig,
    AlgorithmConfig,
    EvaluatedSteps,
    Learner,
    LossInputs,
    LossOutputs,
    PPOConfig,
    ReinforceConfig,
)
from episodia.learners.algorithms.ppo import clipped_surrogates
from episodia.learners.losses.evaluated_steps import explained_variance
from episodia.modules import dist_for
from episodia.training import train
from tables import Table, softmax

LOGITS = [[0.0, 1.0], [2.0, -1.0]]
VALUES = [0.5, -0.25]
OBS = [0, 1, 1]
TAKEN = [1, 0, 1]
ADVANTAGES = [2.0, -1.0, 0.5]
TARGETS = [1.0, 0.0, -1.0]


def batch(**columns):
    found = {
        "obs": torch.tensor(OBS),
        "actions": torch.tensor(TAKEN),
        "advantages": torch.tensor(ADVANTAGES),
        "returns_to_go": torch.tensor(ADVANTAGES),
        "value_targets": torch.tensor(TARGETS),
    }
    return found | {name: torch.as_tensor(column) for name, column in columns.items()}


def by_hand(weights_of_logp, entropy_coefficient=0.0):
    """Return the gradient of −mean(w · log π(a|s)) − c · mean(H) for the table of logits."""
    gradient = np.zeros((2, 2))
    for obs, action, weight in zip(OBS, TAKEN, weights_of_logp, strict=True):
        p = softmax(LOGITS)[obs]
        gradient[obs] -= weight * (np.eye(2)[action] - p) / len(OBS)
        entropy = -(p * np.log(p)).sum()
        gradient[obs] += entropy_coefficient * p * (np.log(p) + entropy) / len(OBS)
    return gradient


def log_probabilities():
    return np.array([math.log(softmax(LOGITS)[obs][action]) for obs, action in zip(OBS, TAKEN, strict=True)])


def entropy():
    p = softmax(LOGITS)
    return (-(p * np.log(p)).sum(-1))[OBS].mean()


def gradients(config, columns, **learner):
    module = Table(LOGITS, VALUES)
    return Learner(module, config, **learner).compute_gradients({"default_policy": columns})


def loss(config, columns):
    found = config.loss(LossInputs(Table(LOGITS, VALUES), columns, config.coefficients()))
    return found.losses[LOSS].item(), {name: value.item() for name, value in found.metrics.items()}


def test_reinforce_is_the_mean_of_returns_times_log_probabilities():
    config = ReinforceConfig(entropy_coefficient=0.1)

    found, metrics = loss(config, batch())

    policy_loss = -(log_probabilities() * ADVANTAGES).mean()
    assert found == pytest.approx(policy_loss - 0.1 * entropy(), rel=1e-6)
    assert metrics == pytest.approx({"policy_loss": policy_loss, "entropy": entropy()}, rel=1e-6)


def test_the_gradient_of_reinforce_is_that_of_the_textbook():
    found = gradients(ReinforceConfig(entropy_coefficient=0.1), batch())

    np.testing.assert_allclose(found["logits"], by_hand(ADVANTAGES, 0.1), rtol=1e-5, atol=1e-7)
    assert "values" not in found


def test_a2c_adds_the_squared_error_of_the_values():
    config = A2CConfig(value_coefficient=0.25, entropy_coefficient=0.0)

    found, metrics = loss(config, batch())

    error = np.mean((np.array(VALUES)[OBS] - TARGETS) ** 2)
    assert metrics["value_loss"] == pytest.approx(error, rel=1e-6)
    assert found == pytest.approx(-(log_probabilities() * ADVANTAGES).mean() + 0.25 * error, rel=1e-6)


def test_the_gradient_of_the_values_is_the_mean_of_their_errors():
    found = gradients(A2CConfig(value_coefficient=0.25, entropy_coefficient=0.0), batch())

    # 0.25 · 2 · (V − target) / 3 for each step, added up in each situation.
    np.testing.assert_allclose(found["values"], [0.5 * -0.5 / 3, 0.5 * (-0.25 + 0.75) / 3], rtol=1e-6)
    np.testing.assert_allclose(found["logits"], by_hand(ADVANTAGES), rtol=1e-5, atol=1e-7)


def test_surrogates_are_clipped_only_where_moving_on_would_pay():
    ratios = torch.tensor([0.5, 0.5, 1.0, 2.0, 2.0])
    advantages = torch.tensor([1.0, -1.0, 3.0, 1.0, -1.0])

    found = clipped_surrogates(ratios, advantages, 0.2)

    torch.testing.assert_close(found, torch.tensor([0.5, -0.8, 3.0, 1.2, -2.0]))


def test_ppo_is_the_policy_gradient_where_the_policy_has_not_moved():
    old = log_probabilities().astype(np.float32)

    found = gradients(PPOConfig(value_coefficient=0.0), batch(action_logp=old))

    np.testing.assert_allclose(found["logits"], by_hand(ADVANTAGES), rtol=1e-5, atol=1e-6)


def test_ppo_has_no_gradient_where_ratios_are_clipped():
    # The first action has become twice as probable, which is clipped; the others are as probable as they were.
    old = (log_probabilities() - [math.log(2.0), 0.0, 0.0]).astype(np.float32)
    columns = batch(action_logp=old)

    found = gradients(PPOConfig(value_coefficient=0.0), columns)

    np.testing.assert_allclose(found["logits"], by_hand([0.0, -1.0, 0.5]), rtol=1e-5, atol=1e-6)
    value, metrics = loss(PPOConfig(value_coefficient=0.0), columns)
    assert value == pytest.approx(-(1.2 * 2.0 - 1.0 + 0.5) / 3, rel=1e-5)
    assert metrics["clip_fraction"] == pytest.approx(1 / 3)


def test_ppo_without_clipping_weighs_by_the_ratio():
    old = (log_probabilities() - [math.log(2.0), 0.0, math.log(0.5)]).astype(np.float32)

    found = gradients(PPOConfig(clip=None, value_coefficient=0.0), batch(action_logp=old))

    np.testing.assert_allclose(found["logits"], by_hand([4.0, -1.0, 0.25]), rtol=1e-5, atol=1e-6)


def test_the_penalty_of_ppo_is_the_exact_divergence_where_the_old_distribution_is_stored():
    old_logits = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], np.float32)
    columns = batch(action_logp=log_probabilities().astype(np.float32), action_dist_inputs=old_logits)

    value, metrics = loss(PPOConfig(value_coefficient=0.0, kl_coefficient=0.5), columns)

    p, q = softmax(old_logits), softmax(LOGITS)[OBS]
    kl = (p * (np.log(p) - np.log(q))).sum(-1).mean()
    assert metrics["kl"] == pytest.approx(kl, rel=1e-5)
    assert value == pytest.approx(-np.mean(ADVANTAGES) + 0.5 * kl, rel=1e-5)


def test_the_penalty_of_ppo_is_estimated_where_only_log_probabilities_are_stored():
    log_ratios = np.array([0.3, -0.2, 0.0])
    columns = batch(action_logp=(log_probabilities() - log_ratios).astype(np.float32))

    _, metrics = loss(PPOConfig(kl_coefficient=0.5), columns)

    assert metrics["kl"] == pytest.approx(np.mean(np.exp(log_ratios) - 1 - log_ratios), rel=1e-4)


@pytest.mark.parametrize("config", [ReinforceConfig(), A2CConfig(), PPOConfig(kl_coefficient=0.1)], ids=type)
def test_steps_that_do_not_count_have_no_influence(config):
    old = log_probabilities().astype(np.float32)
    columns = batch(action_logp=old)
    odd = {
        "obs": torch.tensor([0]),
        "actions": torch.tensor([-99]),  # no action of the space
        **{name: torch.tensor([math.nan]) for name in ("advantages", "returns_to_go", "value_targets", "action_logp")},
    }
    longer = {name: torch.cat([column, odd[name]]) for name, column in columns.items()}
    longer["loss_mask"] = torch.tensor([True, True, True, False])

    found, expected = gradients(config, longer), gradients(config, columns)

    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("config", "missing"),
    [(ReinforceConfig(), "returns_to_go"), (A2CConfig(), "advantages"), (PPOConfig(), "action_logp")],
)
def test_a_missing_column_is_an_error_that_names_it(config, missing):
    columns = {name: column for name, column in batch().items() if name != missing}

    with pytest.raises(LearnerError, match=f"found no column '{missing}'"):
        gradients(config, columns)


def test_actions_that_were_not_allowed_get_no_probability():
    columns = batch(action_mask=[[0, 1], [1, 1], [1, 1]])

    found = gradients(ReinforceConfig(), columns)

    # In the first step there was no choice, so nothing can be learned from it.
    expected = by_hand([0.0, -1.0, 0.5])
    np.testing.assert_allclose(found["logits"], expected, rtol=1e-5, atol=1e-6)


def test_targets_reach_the_loss_through_the_pipeline():
    episode = SingleAgentEpisode(
        observations=[0, 1, 0], actions=[0, 1], rewards=[1.0, 3.0], terminated=True, len_lookback_buffer=0
    ).finalize()
    module = Table(LOGITS, VALUES)

    returns = Learner(module, ReinforceConfig(gamma=0.5, standardize_returns=False)).batch_of([episode])
    estimates = Learner(module, A2CConfig(gamma=0.5, lambda_=0.5, standardize_advantages=False)).batch_of([episode])

    assert returns["default_policy"]["returns_to_go"].tolist() == [2.5, 3.0]
    # Differences: 1 + 0.5 · (−0.25) − 0.5 = 0.375 and 3 − (−0.25) = 3.25; the first advantage adds 0.25 · 3.25.
    assert estimates["default_policy"]["advantages"].tolist() == [0.375 + 0.25 * 3.25, 3.25]
    assert estimates["default_policy"]["value_targets"].tolist() == [0.375 + 0.25 * 3.25 + 0.5, 3.0]


# --- One number for each step ---------------------------------------------------------------------------------------

ONE_EACH = {
    "advantages": (A2CConfig(), PPOConfig()),
    "value_targets": (A2CConfig(), PPOConfig()),
    "action_logp": (PPOConfig(),),
    "returns_to_go": (ReinforceConfig(),),
}


@pytest.mark.parametrize(
    ("name", "config"), [(name, config) for name, configs in ONE_EACH.items() for config in configs]
)
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (1,), (3, 2)])
def test_a_column_with_another_shape_than_one_number_for_each_step_is_rejected(name, config, shape):
    # torch would stretch [3] and [3, 1] to [3, 3], and take the mean of that.
    columns = batch(action_logp=torch.zeros(3)) | {name: torch.ones(shape)}

    with pytest.raises(LearnerError, match=rf"as the column '{name}', expected .* each of the 3 steps") as raised:
        gradients(config, columns)

    assert raised.value.__notes__ == ["in the loss of 'default_policy'"]


@pytest.mark.parametrize("config", [A2CConfig(), PPOConfig()], ids=type)
def test_values_with_an_axis_too_many_are_rejected(config):
    class Columned(Table):
        def forward_train(self, batch):
            outputs = super().forward_train(batch)
            return outputs | {"vf_preds": outputs["vf_preds"].unsqueeze(-1)}

    with pytest.raises(LearnerError, match=r"float32\[3, 1\] as 'vf_preds' of `Columned.forward_train`.*squeeze"):
        Learner(Columned(LOGITS, VALUES), config).compute_gradients(
            {"default_policy": batch(action_logp=torch.zeros(3))}
        )


@pytest.mark.parametrize("method", ["logp", "entropy"])
def test_a_distribution_that_answers_with_an_axis_too_many_is_rejected(method):
    class Wide:
        def __init__(self, inner):
            self._inner = inner

        def logp(self, actions):
            return self._inner.logp(actions).unsqueeze(-1 if method == "logp" else 0).squeeze(0)

        def entropy(self):
            return self._inner.entropy().unsqueeze(-1 if method == "entropy" else 0).squeeze(0)

        @classmethod
        def from_logits(cls, logits):
            return cls(dist_for(spaces.Discrete(2)).from_logits(logits))

    module = Table(LOGITS, VALUES)
    module.get_train_action_dist_cls = lambda: Wide

    with pytest.raises(
        LearnerError, match=r"found tensor float32\[3, 1\] as the (log-probabilities|entropies) of action"
    ):
        Learner(module, ReinforceConfig()).compute_gradients({"default_policy": batch()})


@pytest.mark.parametrize("part", ["loss", "metric"])
def test_a_loss_or_a_metric_with_axes_is_rejected(part):
    @dataclass(frozen=True, kw_only=True)
    class Wide(AlgorithmConfig):
        def targets(self, device):
            return []

        def coefficients(self):
            return {}

        def loss(self, inputs):
            logp = EvaluatedSteps(inputs.module, inputs.batch).logp()
            return LossOutputs({LOSS: logp}) if part == "loss" else LossOutputs({LOSS: logp.mean()}, {"metric": logp})

    with pytest.raises(LearnerError, match=rf"'{part}' has the shape \[3\], not that of one number"):
        gradients(Wide(), batch())


@pytest.mark.parametrize(
    ("values", "targets", "expected"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], 1.0),
        ([2.0, 2.0], [1.0, 3.0], 0.0),
        ([5.0, 1.0], [1.0, 3.0], -8.0),
        ([1.0, 2.0], [3.0, 3.0], 0.0),
    ],
)
def test_explained_variance_is_the_part_of_the_variance_that_values_explain(values, targets, expected):
    found = explained_variance(torch.tensor(values), torch.tensor(targets))

    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_trainings_tell_explained_variance_episode_lengths_and_learning_rates(algorithm):
    with train(
        algorithm, "CartPole-v1", steps=200, num_timesteps=100, hidden=(4,), num_envs=1, progress=False
    ) as training:
        last = training.history[-1]

    assert last["explained_variance"] <= 1.0
    assert 5.0 < last["episode_length_mean"] < 200.0
    assert last["learning_rate"] > 0.0
