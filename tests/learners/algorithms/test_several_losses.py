"""Algorithms with several losses, target networks, and results for each row."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from episodia.errors import LearnerError
from episodia.learners import (
    ALL_MODULES,
    AlgorithmConfig,
    GradientFunction,
    Learner,
    LossOutputs,
    OptimizerConfig,
    Target,
)
from episodia.schedules import PiecewiseLinearSchedule


class Pair(nn.Module):
    """A critic and an actor of one weight each."""

    observation_space = action_space = spaces.Box(-1.0, 1.0, (1,))

    def __init__(self):
        super().__init__()
        self.critic = nn.Linear(1, 1, bias=False)
        self.actor = nn.Linear(1, 1, bias=False)
        for part in (self.critic, self.actor):
            nn.init.constant_(part.weight, 2.0)

    def forward_inference(self, batch):
        return {"actions": self.actor(batch["obs"])}

    forward_exploration = forward_train = forward_inference

    def get_initial_state(self):
        return {}

    def is_stateful(self):
        return False


@dataclass(frozen=True, kw_only=True)
class Both(AlgorithmConfig):
    """The actor's loss depends on the critic too, as in every actor-critic."""

    optimizers: tuple[OptimizerConfig, ...] = (
        OptimizerConfig(components=("critic",), optimizer=torch.optim.SGD, learning_rate=0.1, loss="critic"),
        OptimizerConfig(components=("actor",), optimizer=torch.optim.SGD, learning_rate=0.1, loss="actor", every=2),
    )

    def targets(self, device):
        return []

    def coefficients(self):
        return {}

    def target_networks(self):
        return {"old": Target(of=("critic",), every=2)}

    def loss(self, inputs):
        module, obs = inputs.module, inputs.batch["obs"]
        errors = (module.critic(obs) - inputs.target_networks["old"].critic(obs) - 1.0).squeeze(-1)
        losses = {"critic": errors.mean()}
        if "actor" in inputs.due:
            losses["actor"] = (module.critic(obs) * module.actor(obs)).mean()
        return LossOutputs(losses, {"error": errors.mean()}, {"td_error": errors})


BATCH = {"default_policy": {"obs": torch.tensor([[1.0], [3.0]])}}


def weights(learner):
    return {name: value.item() for name, value in learner.get_weights()["default_policy"].items()}


def test_gradients_of_one_loss_never_reach_the_parameters_of_another():
    gradients = Learner(Pair(), Both()).compute_gradients(BATCH)

    # d mean(w·x − …)/dw = mean(x); d mean(w·x · v·x)/dv = w · mean(x²); its derivative by w, v · mean(x²), is left out.
    assert gradients["critic.weight"].item() == pytest.approx(2.0)
    assert gradients["actor.weight"].item() == pytest.approx(2.0 * 5.0)


def test_an_optimizer_steps_as_often_as_it_says():
    learner = Learner(Pair(), Both())

    seen = []
    for _ in range(4):
        learner.update_batch(BATCH)
        seen.append(weights(learner)["actor.weight"])

    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_losses_use_target_networks_by_name():
    learner = Learner(Pair(), Both())

    errors = [learner.update_batch(BATCH)["default_policy"]["error"] for _ in range(3)]

    # The critic moves by 0.1 · 2 for each step; the target network stays for two steps.
    assert errors == pytest.approx([-1.0, -1.0 - 0.2 * 2.0, -1.0])


def test_results_come_back_in_the_order_of_rows_whatever_the_order_of_minibatches():
    class Echo(Both):
        def loss(self, inputs):
            found = super().loss(inputs)
            return LossOutputs(found.losses, rows={"obs": inputs.batch["obs"].squeeze(-1)})

    rows = torch.arange(7.0)[:, None]
    found = Learner(Pair(), Echo(), seed=0).update_batch({"default_policy": {"obs": rows}}, minibatch_size=2)

    assert found.rows["default_policy"]["obs"].tolist() == list(range(7))


def test_rows_that_are_not_finite_are_counted():
    class Odd(Both):
        def loss(self, inputs):
            return LossOutputs(super().loss(inputs).losses, rows={"td_error": torch.tensor([np.nan, 1.0])})

    found = Learner(Pair(), Odd()).update_batch(BATCH)

    assert found["default_policy"]["num_bad_rows"] == 1
    assert np.isnan(found.rows["default_policy"]["td_error"]).tolist() == [True, False]


def test_a_row_with_two_results_that_are_not_finite_is_one_bad_row():
    class Odd(Both):
        def loss(self, inputs):
            rows = {"td_error": torch.tensor([np.nan, 1.0]), "age": torch.tensor([np.inf, 1.0])}
            return LossOutputs(super().loss(inputs).losses, rows=rows)

    found = Learner(Pair(), Odd()).update_batch(BATCH, num_epochs=2)

    assert found["default_policy"]["num_bad_rows"] == 1


def test_saved_at_any_step_it_continues_alike():
    straight, other = Learner(Pair(), Both(), seed=0), Learner(Pair(), Both(), seed=1)
    for _ in range(3):
        straight.update_batch(BATCH)

    other.set_state(straight.get_state())
    for learner in (straight, other):
        learner.update_batch(BATCH)
        learner.update_batch(BATCH)

    assert weights(other) == weights(straight)


def test_the_stateless_function_computes_the_same_gradients():
    learner = Learner(Pair(), Both())
    learner.update_batch(BATCH)
    learner.update_batch(BATCH)

    found = GradientFunction(Pair(), Both())(learner.get_state(GradientFunction.components), BATCH)

    assert found == learner.compute_gradients(BATCH)


def test_components_without_an_id_mean_those_of_every_module():
    learner = Learner({"left": Pair(), "right": Pair()}, Both())

    learner.update_batch({"left": BATCH["default_policy"], "right": BATCH["default_policy"]})

    found = learner.get_weights()
    assert found["left"]["critic.weight"] == found["right"]["critic.weight"] == pytest.approx(2.0 - 0.1 * 2.0)


def test_a_loss_that_no_optimizer_follows_is_rejected():
    class Lost(Both):
        def loss(self, inputs):
            return LossOutputs({**super().loss(inputs).losses, "temperature": torch.tensor(0.0)})

    with pytest.raises(LearnerError, match=r"returned the losses \['actor', 'critic', 'temperature'\]"):
        Learner(Pair(), Lost()).update_batch(BATCH)


def test_a_due_loss_that_is_missing_is_rejected():
    class Silent(Both):
        def loss(self, inputs):
            return LossOutputs({"critic": super().loss(inputs).losses["critic"]})

    with pytest.raises(LearnerError, match=r"\['actor', 'critic'\] are due"):
        Learner(Pair(), Silent()).update_batch(BATCH)


def test_rows_of_another_number_are_rejected():
    class Short(Both):
        def loss(self, inputs):
            return LossOutputs(super().loss(inputs).losses, rows={"td_error": torch.zeros(1)})

    with pytest.raises(LearnerError, match=r"'td_error' is \[1\], not a tensor with one number for each of 2 rows"):
        Learner(Pair(), Short()).update_batch(BATCH)


def test_optimizers_of_one_loss_that_step_at_different_times_are_rejected():
    odd = (OptimizerConfig(components=("critic",)), OptimizerConfig(components=("actor",), every=2))

    with pytest.raises(LearnerError, match=r"found `every=2` and `every=1` for the loss 'loss'"):
        Learner(Pair(), Both(optimizers=odd))


def test_schedules_follow_environment_steps_if_these_are_passed():
    rate = PiecewiseLinearSchedule([(0, 1.0), (10, 0.0)])
    learner = Learner(
        Pair(), Both(optimizers=(OptimizerConfig(components=("critic",), learning_rate=rate, loss="critic"),))
    )

    metrics = learner.update_batch(BATCH, env_steps=5)

    assert metrics[ALL_MODULES]["learning_rate"] == 0.5
    assert learner.num_schedule_steps == 5
