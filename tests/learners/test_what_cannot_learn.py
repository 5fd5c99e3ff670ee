"""Whatever keeps a learner from learning is told, and nothing is left half done."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from drives import ACTIONS, OBSERVATIONS, drive
from episodia.connectors import ConnectorV2
from episodia.errors import LearnerError
from episodia.learners import (
    LOSS,
    A2CConfig,
    AdaptiveKL,
    AlgorithmConfig,
    ClipByNorm,
    EvaluatedSteps,
    GradientFunction,
    Learner,
    LossOutputs,
    OptimizerConfig,
    PPOConfig,
    ReinforceConfig,
    default_pipeline,
)
from episodia.learners.minibatches import on_device
from episodia.modules import MLPActorCritic
from episodia.testing import check_learner
from tables import Table

ROWS = {"obs": torch.zeros(3, dtype=torch.int64), "actions": torch.tensor([0, 1, 1]), "returns_to_go": torch.ones(3)}
BATCH = {"default_policy": ROWS}


def mlp():
    return MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=(4,), generator=torch.Generator().manual_seed(0))


def weights(learner):
    return learner.get_weights()["default_policy"]


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_gradients_left_by_other_code_are_not_applied():
    probed, plain = Learner(mlp(), ReinforceConfig(), seed=0), Learner(mlp(), ReinforceConfig(), seed=0)
    probed.modules["default_policy"].compute_values({"obs": torch.ones(1, 2)}).sum().backward()

    for learner in (probed, plain):
        learner.update([drive(5, end="terminated")])

    assert same(weights(probed), weights(plain))


def test_learning_works_where_gradients_are_switched_off():
    quiet, plain = Learner(mlp(), PPOConfig(), seed=0), Learner(mlp(), PPOConfig(), seed=0)

    with torch.no_grad():
        quiet.update([drive(5)])
    plain.update([drive(5)])

    assert same(weights(quiet), weights(plain))


def test_inference_mode_is_rejected():
    learner = Learner(mlp(), PPOConfig(), seed=0)

    batch = learner.batch_of([drive(5)])
    gradients = learner.compute_gradients(batch)
    calls = (
        lambda: learner.update([drive(5)]),
        lambda: learner.compute_gradients(batch),
        lambda: learner.apply_gradients([gradients], weights=[5]),
    )

    for call in calls:
        with torch.inference_mode(), pytest.raises(LearnerError, match="inference mode"):
            call()

    assert learner.num_steps == 0
    assert learner.update([drive(5)])["default_policy"]["num_skipped"] == 0


@dataclass(frozen=True, kw_only=True)
class Own(AlgorithmConfig):
    """An algorithm whose loss is a function that is passed in."""

    of: object = None

    def targets(self, device):
        return []

    def coefficients(self):
        return {}

    def loss(self, inputs):
        return self.of(EvaluatedSteps(inputs.module, inputs.batch).logp())


LOSSES = {
    "is detached": (lambda logp: LossOutputs({LOSS: logp.mean().detach()}), "do not depend on any trained weight"),
    "is a constant": (lambda _: LossOutputs({LOSS: torch.tensor(3.0)}), "do not depend on any trained weight"),
    "is nothing": (lambda _: None, "it returned NoneType"),
    "is alone": (lambda logp: logp.mean(), "it returned Tensor"),
    "has a plain metric": (lambda logp: LossOutputs({LOSS: logp.mean()}, {"kl": 0.5}), "'kl' is 0.5, not a tensor"),
    "was differentiated before": (lambda logp: LossOutputs({LOSS: _used_up(logp.mean())}), "cannot be differentiated"),
    "is complex": (lambda logp: LossOutputs({LOSS: logp.mean() * 1j}), "cannot be differentiated"),
}


def _used_up(loss):
    """Return a loss whose way was taken back already, which torch does once."""
    loss = (loss * loss).sum()
    loss.backward()
    return loss


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_cannot_be_learned_from_is_told_and_changes_nothing(name):
    of, problem = LOSSES[name]
    learner = Learner(Table([[0.0, 0.0]]), Own(of=of))
    before = weights(learner)

    with pytest.raises(LearnerError, match=problem):
        learner.update_batch(BATCH)

    assert same(weights(learner), before)
    assert learner.num_steps == 0


def test_a_loss_of_0_has_nothing_to_learn_from():
    learner = Learner(Table([[0.0, 0.0]]), Own(of=lambda _: LossOutputs({LOSS: torch.zeros(())})))
    before = weights(learner)

    assert learner.update_batch(BATCH)["default_policy"]["num_skipped"] == 0
    assert same(weights(learner), before)


def test_what_a_loss_leaves_at_the_weights_of_a_module_that_is_skipped_is_not_learned_from():
    def of(logp):
        loss = (logp * logp).mean()
        loss.backward(retain_graph=True)
        return LossOutputs({LOSS: loss})

    nan = {**ROWS, "obs": torch.tensor([0, 0, 1])}
    modules = {"lost": Table([[0.0, 0.0], [math.nan, 0.0]]), "sound": Table([[0.0, 1.0]])}
    learner = Learner(modules, Own(of=of))

    metrics = learner.update_batch({"lost": nan, "sound": ROWS})

    assert (metrics["lost"]["num_skipped"], metrics["sound"]["num_skipped"]) == (1, 0)
    assert modules["lost"].logits[0].tolist() == [0.0, 0.0]


def test_weights_that_want_no_gradients_any_more_are_told():
    learner = Learner(mlp(), PPOConfig(), seed=0)
    learner.modules["default_policy"].critic_head.requires_grad_(False)

    with pytest.raises(LearnerError, match=r"requires_grad_`, make a new learner"):
        learner.update([drive(5)])


PROCESSORS = {
    "another dtype": lambda gradients: {key: [each.double() for each in found] for key, found in gradients.items()},
    "arrays": lambda gradients: {key: [each.numpy() for each in found] for key, found in gradients.items()},
    "another device": lambda gradients: {key: [each.to("meta") for each in found] for key, found in gradients.items()},
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_gradient_processor_keeps_the_form_of_gradients(name):
    learner = Learner(mlp(), PPOConfig(gradient_processors=(PROCESSORS[name],)), seed=0)

    with pytest.raises(LearnerError, match="gradient processor"):
        learner.update([drive(5)])

    assert all(parameter.grad is None for parameter in learner.modules["default_policy"].parameters())


def test_a_class_is_no_gradient_processor():
    with pytest.raises(LearnerError, match="gradient_processors"):
        PPOConfig(gradient_processors=(ClipByNorm,))


# --- Optimizers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizers", "problem"),
    [
        ((), "found no optimizer, expected at least one"),
        ((OptimizerConfig(optimizer=torch.optim.LBFGS),), "LBFGS, which needs more than gradients"),
        ((OptimizerConfig(optimizer=torch.optim.SparseAdam),), "SparseAdam, which needs more than gradients"),
    ],
)
def test_optimizers_that_cannot_learn_are_rejected(optimizers, problem):
    with pytest.raises(LearnerError, match=problem):
        Learner(mlp(), PPOConfig(optimizers=optimizers))


def test_an_optimizer_that_fails_is_told_and_leaves_no_gradients():
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise ZeroDivisionError

    learner = Learner(mlp(), PPOConfig(optimizers=(OptimizerConfig(optimizer=Broken),)), seed=0)

    with pytest.raises(LearnerError, match="Broken failed"):
        learner.update([drive(5)])

    assert all(parameter.grad is None for parameter in learner.modules["default_policy"].parameters())


@pytest.mark.parametrize("options", [{"differentiable": False}, {"foreach": True}, {"fused": False}])
def test_optimizers_are_made_with_the_options_that_were_given(options):
    learner = Learner(mlp(), PPOConfig(optimizers=(OptimizerConfig(options=options),)), seed=0)

    assert learner.update([drive(5)])["default_policy"]["num_skipped"] == 0


def test_configs_can_be_keys_and_keep_their_options():
    options = {"eps": 1e-5}
    config = PPOConfig(optimizers=(OptimizerConfig(options=options),))
    options["eps"] = 1.0

    assert config.optimizers[0].options == {"eps": 1e-5}
    assert {config: 1}[config] == 1


def test_a_shared_module_learns_from_what_is_done_under_all_its_names():
    shared = Table([[0.0, 0.0]])
    learner = Learner({"a": shared, "b": shared}, ReinforceConfig(optimizers=(OptimizerConfig(components=("a",)),)))

    assert learner.trained_modules == ("a", "b")
    assert learner.update_batch({"b": ROWS})["b"]["num_steps"] == 3


class SparseTable(Table):
    """Looks its logits up in a way whose gradients hold only the rows that were asked for."""

    def __init__(self):
        super().__init__([[0.0, 0.0]])
        self.table = nn.Embedding(4, 2, sparse=True)

    def forward_train(self, batch):
        return {"action_dist_inputs": self.table(batch["obs"])}


def test_gradients_that_hold_only_some_rows_are_learned_from():
    learner = Learner(SparseTable(), ReinforceConfig(), seed=0)
    before = weights(learner)["table.weight"]

    gradients = learner.compute_gradients(BATCH)
    learner.apply_gradients([{name: value.to_sparse() for name, value in gradients.items()}], weights=[3])

    changed = (weights(learner)["table.weight"] != before).any(-1)
    assert changed.tolist() == [True, False, False, False]


# --- What is given --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 2), (2,), (3, 1), (1, 3)])
def test_a_mask_has_one_flag_for_each_step(shape):
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())
    columns = {**ROWS, "loss_mask": torch.ones(shape, dtype=torch.bool)}

    with pytest.raises(ValueError, match="loss_mask"):
        learner.compute_gradients({"default_policy": columns})


def test_a_mask_may_be_an_array():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())
    flags = [True, False, True]

    found, expected = (
        learner.compute_gradients({"default_policy": {**ROWS, "loss_mask": mask}})
        for mask in (np.array(flags), torch.tensor(flags))
    )

    assert same(found, expected)


class Counting(ConnectorV2):
    calls = 0

    def __call__(self, *, batch, **kwargs):
        Counting.calls += 1
        return batch


@pytest.mark.parametrize("wrong", [{"num_epochs": 0}, {"minibatch_size": "x"}, {"shuffle": 3}])
def test_arguments_are_checked_before_the_pipeline_runs(wrong):
    pipeline = default_pipeline(PPOConfig(), OBSERVATIONS, ACTIONS, custom=[Counting()])
    learner = Learner(mlp(), PPOConfig(), learner_pipeline=pipeline)
    before = Counting.calls

    with pytest.raises(LearnerError, match=next(iter(wrong))):
        learner.update([drive(4)], **wrong)

    assert Counting.calls == before


class FakeAccelerator(Table):
    """Notes where it was moved."""

    moved = False

    def to(self, *args, **kwargs):
        self.moved = True
        return super().to(*args, **kwargs)


def test_modules_of_a_learner_that_cannot_be_made_are_not_moved():
    module = FakeAccelerator([[0.0, 0.0]])

    with pytest.raises(LearnerError, match="nope"):
        Learner(module, ReinforceConfig(optimizers=(OptimizerConfig(components=("nope",)),)))

    assert not module.moved


def test_batches_of_unknown_modules_only_are_rejected_everywhere():
    learner, function = Learner(mlp(), PPOConfig()), GradientFunction(mlp(), PPOConfig())
    batch = {"other": learner.batch_of([drive(4)])["default_policy"]}

    for compute in (learner.compute_gradients, lambda batch: function(learner.get_state(), batch)):
        with pytest.raises(LearnerError, match=r"found columns of \['other'\]"):
            compute(batch)


def test_a_dict_of_modules_may_be_one_of_torch():
    learner = Learner(nn.ModuleDict({"left": Table([[0.0, 0.0]])}), ReinforceConfig())

    assert learner.trained_modules == ("left",)


class _OnDevice(torch.Tensor):
    """Says that it is on the second of some accelerators."""

    device = torch.device("cuda:1")

    def pin_memory(self):
        raise RuntimeError("only memory of the CPU can be pinned")


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_what_is_on_the_device_stays_there(device):
    there = torch.zeros(3).as_subclass(_OnDevice)

    assert on_device({"obs": there}, torch.device(device))["obs"] is there


# --- Rules that adapt -----------------------------------------------------------------------------------------------


class Failing:
    initial = 0.1

    def __init__(self, returned=None):
        self.returned = returned

    def after(self, coefficient, metrics):
        return 1 / 0 if self.returned is None else self.returned


@pytest.mark.parametrize("returned", [None, math.nan, math.inf])
def test_a_rule_that_fails_is_told_after_the_update_was_counted(returned):
    config = PPOConfig()
    object.__setattr__(config, "kl_coefficient", Failing(returned))
    learner = Learner(mlp(), config, seed=0)

    with pytest.raises(LearnerError, match=r"a rule that (failed|returned)"):
        learner.update([drive(5)])

    assert learner.num_steps == 5
    assert learner.get_state(["coefficients"])["coefficients"] == {"default_policy": {"kl_coefficient": 0.1}}


def test_our_own_penalty_without_clipping_obeys_the_laws():
    check_learner(PPOConfig(clip=None, kl_coefficient=AdaptiveKL()))
    check_learner(A2CConfig(entropy_coefficient=0.01))
