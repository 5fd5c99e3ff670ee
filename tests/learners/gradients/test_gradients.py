"""Gradients from several places: averaged, they are what one place with all the data would have computed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drives import ACTIONS, OBSERVATIONS, drive
from episodia.errors import LearnerError
from episodia.learners import (
    A2CConfig,
    AdaptiveKL,
    ClipByGlobalNorm,
    GradientFunction,
    Learner,
    OptimizerConfig,
    PPOConfig,
    ReinforceConfig,
)
from episodia.learners.gradients.gradient_averages import averaged
from episodia.learners.minibatches import taken
from episodia.modules import LSTMActorCritic, MLPActorCritic
from tables import Table


def mlp(seed=0):
    return MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=(8,), generator=torch.Generator().manual_seed(seed))


def lstm(seed=0):
    return LSTMActorCritic(
        OBSERVATIONS, ACTIONS, hidden=(8,), cell_size=4, generator=torch.Generator().manual_seed(seed)
    )


def batch_of(learner, seed=0, lengths=(5, 9, 3), stateful=False):
    return learner.batch_of([drive(length, seed, stateful=stateful, end="terminated") for length in lengths])


def shards_of(columns, sizes):
    """Return parts of the rows with these sizes."""
    return [taken(columns, rows) for rows in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])]


@pytest.mark.parametrize("make", [mlp, lstm])
@pytest.mark.parametrize("config", [ReinforceConfig(), A2CConfig(), PPOConfig(kl_coefficient=0.1)], ids=type)
def test_the_weighted_average_of_uneven_shards_is_the_gradient_of_the_whole(config, make):
    learner = Learner(make(), config)
    stateful = make is lstm
    batch = batch_of(learner, lengths=(25, 9, 3), stateful=stateful)
    # Sequences of 20, 5, 9 and 3 steps; or 37 single ones.
    sizes = [1, 3] if stateful else [30, 2, 5]
    shards = [{"default_policy": shard} for shard in shards_of(batch["default_policy"], sizes)]

    gradients = [learner.compute_gradients(shard) for shard in shards]
    weights = [learner.num_steps_of(shard)["default_policy"] for shard in shards]
    found = averaged([{"x": part} for part in gradients], weights)["x"]

    assert weights == ([20, 17] if stateful else sizes)
    expected = learner.compute_gradients(batch)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 5))
@settings(max_examples=25)
def test_averages_agree_with_plain_sums(weights, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=len(weights)).astype(np.float32)
    places = [{"a": {"w": torch.tensor(number)}} for number in numbers]

    found = averaged(places, weights)["a"]["w"].item()

    expected = sum(float(number) * weight for number, weight in zip(numbers, weights, strict=True)) / sum(weights)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


@given(st.integers(1, 7), st.integers(1, 100), st.integers(0, 20))
@settings(max_examples=25)
def test_equal_shards_give_exactly_what_each_of_them_is(places, weight, seed):
    gradient = torch.randn(5, generator=torch.Generator().manual_seed(seed))

    found = averaged([{"a": {"w": gradient}}] * places, [weight] * places)

    assert torch.equal(found["a"]["w"], gradient)


def test_equal_shards_of_numbers_without_rounding_give_the_gradient_of_the_whole_bit_for_bit():
    # Probabilities of 1/2, and rows in powers of two: no sum has to be rounded.
    columns = {
        "obs": torch.tensor([0, 1, 0, 1, 1, 1, 0, 1]),
        "actions": torch.tensor([1, 0, 0, 1, 1, 0, 1, 0]),
        "returns_to_go": torch.tensor([1.0, 2.0, -3.0, 0.5, 4.0, -1.5, 2.0, 8.0]),
    }
    learner = Learner(Table([[0.0, 0.0], [0.0, 0.0]]), ReinforceConfig())
    shards = [{"default_policy": shard} for shard in shards_of(columns, [4, 4])]

    found = averaged([{"x": learner.compute_gradients(shard)} for shard in shards], [4, 4])["x"]

    expected = learner.compute_gradients({"default_policy": columns})
    # log(1/2) and its exponential are rounded, but alike in each row.
    assert torch.equal(found["logits"], expected["logits"])


@pytest.mark.parametrize("config", [A2CConfig(), PPOConfig()], ids=type)
def test_applying_gradients_from_shards_changes_weights_as_an_update_with_the_whole_does(config):
    whole, shared = Learner(mlp(), config), Learner(mlp(), config)
    batch = batch_of(whole)
    shards = [{"default_policy": shard} for shard in shards_of(batch["default_policy"], [12, 5])]

    for _ in range(3):
        whole.update_batch(batch)
        gradients = [shared.compute_gradients(shard) for shard in shards]
        shared.apply_gradients(gradients, weights=[12, 5])

    expected, found = whole.get_weights()["default_policy"], shared.get_weights()["default_policy"]
    for name, weights in expected.items():
        torch.testing.assert_close(found[name], weights, rtol=1e-4, atol=1e-5)
    assert shared.num_steps == whole.num_steps == 3 * 17


def test_clipping_is_applied_to_the_average_not_to_its_parts():
    learner = Learner(
        Table([[0.0, 0.0]]),
        ReinforceConfig(
            gradient_processors=(ClipByGlobalNorm(1.0),),
            learning_rate=1.0,
            optimizers=(OptimizerConfig(optimizer=torch.optim.SGD),),
        ),
    )

    learner.apply_gradients([{"logits": np.array([[4.0, 0.0]])}, {"logits": np.array([[-3.0, 0.0]])}], weights=[1, 1])

    # The mean is 0.5, which is within the limit; clipped parts would cancel each other.
    torch.testing.assert_close(learner.get_weights()["default_policy"]["logits"], torch.tensor([[-0.5, 0.0]]))


def test_each_module_is_averaged_over_the_places_that_have_steps_of_it():
    places = [
        {"left": {"left.w": torch.tensor(1.0)}, "right": {"right.w": torch.tensor(2.0)}},
        {"left": {"left.w": torch.tensor(4.0)}},
    ]

    found = averaged(places, [{"left": 1, "right": 5}, {"left": 2}])

    assert found == {"left": {"left.w": torch.tensor(3.0)}, "right": {"right.w": torch.tensor(2.0)}}


def test_one_number_for_several_modules_is_rejected():
    places = [{"left": {"left.w": torch.tensor(1.0)}, "right": {"right.w": torch.tensor(2.0)}}]

    with pytest.raises(LearnerError, match=r"the weight 3 for the modules \['left', 'right'\] together"):
        averaged(places, [3])


def two(shared_module):
    left = Table([[0.5, 0.0]])
    return {"left": left, "right": left if shared_module else Table([[0.0, 0.25]])}


@pytest.mark.parametrize("shared_module", [True, False])
def test_modules_under_two_names_are_averaged_as_one_computation_would(shared_module):
    learner = Learner(
        two(shared_module),
        ReinforceConfig(learning_rate=1.0, optimizers=(OptimizerConfig(optimizer=torch.optim.SGD),)),
    )
    reference = Learner(two(shared_module), learner.config)

    def columns(actions, returns):
        rows = len(actions)
        return {
            "obs": torch.zeros(rows, dtype=torch.int64),
            "actions": torch.tensor(actions),
            "returns_to_go": torch.tensor(returns),
        }

    whole = {"left": columns([0, 1, 1], [1.0, 2.0, 3.0]), "right": columns([1, 0, 0], [4.0, 5.0, -1.0])}
    places = [
        {"left": taken(whole["left"], np.array([0])), "right": taken(whole["right"], np.array([0, 1]))},
        {"left": taken(whole["left"], np.array([1, 2])), "right": taken(whole["right"], np.array([2]))},
    ]

    learner.apply_gradients(
        [learner.compute_gradients(place) for place in places],
        weights=[learner.num_steps_of(place) for place in places],
    )
    reference.update_batch(whole)

    for module_id in whole:
        found, expected = (one.get_weights()[module_id]["logits"] for one in (learner, reference))
        torch.testing.assert_close(found, expected)
        assert not torch.equal(found, two(shared_module)[module_id].logits)


@pytest.mark.parametrize("weights", [[1], [1, 2, 3], [1, -1], [1, float("nan")], [1, "a"], [{"left": 1}, {"left": -1}]])
def test_weights_that_do_not_fit_are_an_error(weights):
    places = [{"left": {"w": torch.tensor(1.0)}}] * 2

    with pytest.raises(LearnerError, match="expected a weight from 0 on for each set"):
        averaged(places, weights)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({"left": 1, "rihgt": 2}, r"lack \['right'\] and name \['rihgt'\]"),
        ({"left": 1}, r"lack \['right'\]"),
        ({}, r"lack \['left', 'right'\]"),
        ({"left": 1, "right": 1, "third": 0}, r"name \['third'\]"),
    ],
)
def test_weights_by_module_that_miss_a_module_are_an_error_and_change_nothing(weights, problem):
    learner = Learner(two(shared_module=False), ReinforceConfig())
    gradients = {"left.logits": torch.ones(1, 2), "right.logits": torch.ones(1, 2)}
    before = str(learner.get_state())

    with pytest.raises(LearnerError, match=problem):
        learner.apply_gradients([gradients], weights=[weights])

    assert str(learner.get_state()) == before


def test_gradients_of_unknown_parameters_change_nothing():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())
    before = learner.get_state()

    with pytest.raises(LearnerError, match=r"found gradients of \['biases'\]"):
        learner.apply_gradients([{"logits": torch.ones(1, 2), "biases": torch.ones(1)}], weights=[1])
    with pytest.raises(LearnerError, match=r"with shape \[2\], expected that of the parameter, \[1, 2\]"):
        learner.apply_gradients([{"logits": torch.ones(2)}], weights=[1])

    assert str(learner.get_state()) == str(before)


def test_computing_gradients_changes_nothing():
    learner = Learner(mlp(), PPOConfig())
    batch = batch_of(learner)
    before = learner.get_state()

    learner.compute_gradients(batch)

    assert str(learner.get_state()) == str(before)
    assert all(parameter.grad is None for parameter in learner.modules["default_policy"].parameters())


def test_the_stateless_function_computes_what_the_learner_does():
    config = PPOConfig(kl_coefficient=AdaptiveKL(initial=1.0, target=1e-9))
    learner, function = Learner(mlp(), config, seed=0), GradientFunction(mlp(5), config)
    first, second = batch_of(learner), batch_of(learner, seed=1)

    for _ in range(3):
        state = learner.get_state(GradientFunction.components)
        function(state, second)  # what was computed before has no influence
        found, expected = function(state, first), learner.compute_gradients(first)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        learner.update_batch(first, num_epochs=2)


# --- What is measured on the way ------------------------------------------------------------------------------------


def test_what_was_measured_at_several_places_is_what_an_update_with_the_whole_measures():
    learner = Learner(mlp(), PPOConfig(kl_coefficient=0.1))
    batch = batch_of(learner)
    shards = [{"default_policy": shard} for shard in shards_of(batch["default_policy"], [12, 5])]

    gradients = [learner.compute_gradients(shard) for shard in shards]
    # Metrics travel with the gradients, to other processes too.
    found = learner.apply_gradients(pickle.loads(pickle.dumps(gradients)), weights=[12, 5])["default_policy"]

    expected = Learner(mlp(), learner.config).update_batch(batch)["default_policy"]
    # A ratio of variances is not an average over steps.
    del found["explained_variance"]
    assert {"loss", "policy_loss", "kl", "entropy", "gradient_norm"} <= found.keys() <= expected.keys()
    assert found == pytest.approx({name: expected[name] for name in found}, rel=1e-4, abs=1e-6)


def test_gradients_that_come_without_metrics_are_applied_without():
    learner = Learner(Table([[0.0, 0.0]]), ReinforceConfig())

    metrics = learner.apply_gradients([{"logits": np.ones((1, 2))}], weights=[1])

    assert metrics["default_policy"] == {"gradient_norm": pytest.approx(2**0.5), "num_skipped": 0}


def test_coefficients_adapt_to_what_gradients_were_measured_with_as_they_do_in_an_update():
    config = PPOConfig(kl_coefficient=AdaptiveKL(initial=1.0, target=1e-9))
    whole, shared = Learner(mlp(), config), Learner(mlp(), config)
    batch = batch_of(whole)

    for _ in range(3):
        whole.update_batch(batch, num_epochs=2)
        for _ in range(2):
            metrics = shared.apply_gradients([shared.compute_gradients(batch)], weights=[17])
        shared.adapt(metrics)

    found = shared.get_state(["coefficients"])
    assert found == whole.get_state(["coefficients"]) == {"coefficients": {"default_policy": {"kl_coefficient": 8.0}}}


@pytest.mark.parametrize(
    "metrics", [None, 3, {"defualt_policy": {"kl": 1.0}}, {"default_policy": {"kl": "1"}}, {"x": 1}]
)
def test_non_finite_metrics_change_no_coefficient(metrics):
    learner = Learner(mlp(), PPOConfig(kl_coefficient=AdaptiveKL()))

    with pytest.raises(LearnerError, match="metrics: found"):
        learner.adapt(metrics)

    assert learner.get_state(["coefficients"])["coefficients"] == {"default_policy": {"kl_coefficient": 0.2}}


def test_the_stateless_function_leaves_state_and_modules_alone_and_can_be_sent_away():
    module = mlp()
    learner = Learner(mlp(1), A2CConfig())
    batch, state = batch_of(learner), learner.get_state()
    before = str(state)

    found = pickle.loads(pickle.dumps(GradientFunction(module, A2CConfig())))(state, batch)

    assert str(state) == before
    assert torch.equal(module.actor_head.weight, mlp().actor_head.weight)
    assert torch.equal(found["actor_head.weight"], learner.compute_gradients(batch)["actor_head.weight"])


def test_the_stateless_function_rejects_the_state_of_other_modules():
    function = GradientFunction(mlp(), A2CConfig())
    other = Learner(Table([[0.0, 0.0]]), A2CConfig())

    with pytest.raises(LearnerError, match="weights of 'default_policy'"):
        function(other.get_state(), {})
    with pytest.raises(LearnerError, match=r"found no \['target_networks', 'coefficients', 'progress'\]"):
        function(other.get_state(["weights"]), {})
