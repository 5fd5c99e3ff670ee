"""Networks with statistics and random numbers of their own: what is skipped does not touch them, what goes on goes on alike."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from drives import drive
from episodia.errors import NonFiniteError
from episodia.learners import A2CConfig, GradientFunction, Learner
from remembering import Remembering


def net(**options):
    torch.manual_seed(0)
    return Remembering(**options)


def statistics(learner):
    weights = learner.get_weights()["default_policy"]
    return {name: value for name, value in weights.items() if name.startswith("norm.running")}


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("on_non_finite", ["skip", "raise"])
def test_a_step_that_is_skipped_leaves_the_statistics_as_they_were(on_non_finite):
    learner = Learner(net(), A2CConfig(on_non_finite=on_non_finite), seed=0)
    batch = learner.batch_of([drive(6)])
    batch["default_policy"]["obs"][0, 0] = math.nan
    before = statistics(learner)

    if on_non_finite == "skip":
        assert learner.update_batch(batch)["default_policy"]["num_skipped"] == 1
    else:
        with pytest.raises(NonFiniteError):
            learner.update_batch(batch)

    assert same(statistics(learner), before)


def test_an_update_changes_the_statistics():
    learner = Learner(net(), A2CConfig(), seed=0)
    before = statistics(learner)

    learner.update([drive(6)])

    assert not same(statistics(learner), before)


def test_computing_gradients_leaves_the_statistics_as_they_were():
    learner = Learner(net(), A2CConfig(), seed=0)
    function = GradientFunction(net(), A2CConfig())
    batch, before = learner.batch_of([drive(6)]), statistics(learner)

    learner.compute_gradients(batch)
    function(learner.get_state(function.components), batch)

    assert same(statistics(learner), before)


def test_a_learner_with_dropout_goes_on_from_a_state_as_the_other_does():
    first, second = Learner(net(dropout=0.5), A2CConfig(), seed=0), Learner(net(dropout=0.5), A2CConfig(), seed=1)
    first.update([drive(6)])
    second.set_state(first.get_state())

    for learner, seed in ((first, 3), (second, 4)):
        torch.manual_seed(seed)  # What others draw has no influence.
        learner.update([drive(6), drive(9)], num_epochs=3, minibatch_size=5)

    assert same(first.get_weights()["default_policy"], second.get_weights()["default_policy"])


def test_updates_differ_in_what_dropout_lets_through():
    learner = Learner(net(dropout=0.5), A2CConfig(), seed=0)
    batch = learner.batch_of([drive(6)])

    first = learner.compute_gradients(batch)
    learner.apply_gradients([{name: torch.zeros_like(value) for name, value in first.items()}], weights=[6])
    second = learner.compute_gradients(batch)

    assert not same(first, second)


def test_the_same_state_and_batch_give_the_same_gradients_with_dropout():
    learner, function = Learner(net(dropout=0.5), A2CConfig()), GradientFunction(net(dropout=0.5), A2CConfig())
    batch, state = learner.batch_of([drive(6)]), learner.get_state(GradientFunction.components)

    first, second = function(state, batch), function(copy.deepcopy(state), batch)

    assert same(first, second)
    assert same(first, learner.compute_gradients(batch))


def test_learning_draws_no_random_numbers_of_others(monkeypatch):
    learner = Learner(net(dropout=0.5), A2CConfig(), seed=0)
    before, seeded = torch.get_rng_state(), []
    # Functions that would seed devices which are not in use.
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)

    learner.update([drive(6)], num_epochs=2)

    assert torch.equal(torch.get_rng_state(), before)
    assert seeded == []
