"""Hooks of learners, and gradient steps with losses computed by hand."""

import warnings
from dataclasses import replace

import pytest
import torch
from gymnasium import spaces

from episodia.errors import LearnerError
from episodia.learners import DQNConfig, Learner, LearnerHook, OptimizerConfig, WarnAboutBadRewardScales
from episodia.modules import QNetwork

SGD = DQNConfig(
    optimizers=(OptimizerConfig(optimizer=torch.optim.SGD, learning_rate=0.1),), gradient_processors=(), target_every=1
)


def learner(*hooks, config=SGD):
    module = QNetwork(
        spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2), hidden=(), generator=torch.Generator().manual_seed(0)
    )
    return Learner(module, config, hooks=hooks, seed=0)


def batch(scale=1.0):
    return {
        "default_policy": {
            "obs": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
            "new_obs": torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
            "actions": torch.tensor([0, 1]),
            "rewards": torch.tensor([1.0, -1.0]) * scale,
            "terminateds": torch.tensor([True, True]),
        }
    }


def weights(found):
    return torch.cat([value.flatten() for value in found.get_weights()["default_policy"].values()])


class Diary(LearnerHook):
    """Notes the names of all calls."""

    def __init__(self):
        self.calls = []

    def before_update(self, batch):
        self.calls.append("before_update")
        return batch

    def before_loss(self, module_id, inputs):
        self.calls.append("before_loss")
        return inputs

    def after_loss(self, module_id, outputs):
        self.calls.append("after_loss")
        return outputs

    def after_gradients(self, gradients):
        self.calls.append("after_gradients")
        return gradients

    def before_step(self):
        self.calls.append("before_step")

    def after_step(self):
        self.calls.append("after_step")

    def after_update(self, metrics):
        self.calls.append("after_update")
        return {"default_policy": {"luck": 7.0}}


def test_hooks_are_called_in_the_order_of_an_update():
    diary = Diary()

    metrics = learner(diary).update_batch(batch(), num_epochs=2)

    step = ["before_loss", "after_loss", "after_gradients", "before_step", "after_step"]
    assert diary.calls == ["before_update", *step, *step, "after_update"]
    assert metrics["default_policy"]["luck"] == 7.0


def test_a_hook_that_changes_nothing_changes_nothing():
    plain, hooked = learner(), learner(LearnerHook(), Diary())
    for found in (plain, hooked):
        found.update_batch(batch())

    assert torch.equal(weights(plain), weights(hooked))


def test_a_hook_may_change_losses_and_gradients():
    class Twice(LearnerHook):
        def after_loss(self, module_id, outputs):
            return replace(outputs, losses={name: 2.0 * loss for name, loss in outputs.losses.items()})

    class Half(LearnerHook):
        def after_gradients(self, gradients):
            return {key: {name: 0.5 * each for name, each in named.items()} for key, named in gradients.items()}

    start, plain, twice, both = (learner(*hooks) for hooks in ((), (), (Twice(),), (Twice(), Half())))
    for found in (plain, twice, both):
        found.update_batch(batch())

    torch.testing.assert_close(weights(twice) - weights(start), 2.0 * (weights(plain) - weights(start)))
    torch.testing.assert_close(weights(both), weights(plain))


def test_a_step_by_hand_equals_an_update_with_the_same_loss():
    by_hand, updated = learner(), learner()
    updated.update_batch(batch())
    columns = batch()["default_policy"]

    values = by_hand.modules["default_policy"].get_q_values(columns)
    errors = values[[0, 1], [0, 1]] - columns["rewards"]
    norms = by_hand.step({"default_policy": torch.nn.functional.huber_loss(errors, torch.zeros(2))})

    torch.testing.assert_close(weights(by_hand), weights(updated))
    assert norms["default_policy"] > 0.0
    target = by_hand.target_networks["default_policy"]["target"].get_q_values(columns)
    torch.testing.assert_close(target, by_hand.modules["default_policy"].get_q_values(columns))


def test_a_step_by_hand_with_an_unknown_module_is_rejected():
    with pytest.raises(LearnerError, match=r"found losses of \['other'\]"):
        learner().step({"other": torch.zeros(())})


def test_a_step_by_hand_with_a_loss_of_several_numbers_is_rejected():
    found = learner()

    with pytest.raises(LearnerError, match="tensors without axes"):
        found.step({"default_policy": found.modules["default_policy"].get_q_values(batch()["default_policy"])[:, 0]})


def test_large_rewards_are_warned_of_once():
    found = learner(WarnAboutBadRewardScales(limit=50.0))
    found.update_batch(batch())

    with pytest.warns(UserWarning, match="mean size of 200, expected at most 50"):
        found.update_batch(batch(scale=200.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics = found.update_batch(batch(scale=200.0))

    assert metrics["default_policy"]["num_skipped"] == 0


def test_what_is_not_a_hook_is_rejected():
    with pytest.raises(LearnerError, match="hooks"):
        learner(print)
