"""Copies of modules that follow them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from episodia.errors import LearnerError
from episodia.learners import Target
from episodia.learners.target_networks import TargetNetworks


def net(weight=0.0):
    module = nn.ModuleDict({"q": nn.Linear(1, 1, bias=False), "pi": nn.Linear(1, 1, bias=False)})
    set_to(module, weight)
    return module


def set_to(module, weight):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(weight)


def weight_of(targets, name="slow", part="q"):
    return targets.of("net")[name][part].weight.item()


@given(
    tau=st.floats(0.01, 1.0),
    every=st.integers(1, 4),
    weights=st.lists(st.floats(-1.0, 1.0, width=32), min_size=1, max_size=12),
)
def test_a_target_network_takes_a_part_of_the_way_every_few_gradient_steps(tau, every, weights):
    module = net()
    targets = TargetNetworks({"net": module}, {"slow": Target(tau=tau, every=every)})

    expected = 0.0
    for step, weight in enumerate(weights, start=1):
        set_to(module, weight)
        targets.follow(gradient_steps=step, env_steps=0)
        if step % every == 0:
            expected += tau * (weight - expected)

    assert weight_of(targets) == pytest.approx(expected, abs=1e-5)


def test_a_target_network_may_follow_environment_steps():
    module = net()
    targets = TargetNetworks({"net": module}, {"slow": Target(every=100, unit="env_steps")})

    seen = []
    for step, env_steps in enumerate([50, 99, 104, 180, 350], start=1):
        set_to(module, float(step))
        targets.follow(gradient_steps=step, env_steps=env_steps)
        seen.append(weight_of(targets))

    assert seen == [0.0, 0.0, 3.0, 3.0, 5.0]


def test_a_target_network_shares_the_weights_that_are_not_its_own():
    module = net()
    targets = TargetNetworks({"net": module}, {"slow": Target(of=("q",))})

    set_to(module, 1.0)

    assert (weight_of(targets, part="q"), weight_of(targets, part="pi")) == (0.0, 1.0)
    assert targets.of("net")["slow"]["pi"].weight is module["pi"].weight


def test_statistics_of_batch_normalisation_are_followed_too():
    module = nn.BatchNorm1d(1)
    targets = TargetNetworks({"net": module}, {"slow": Target(tau=0.5)})

    module(torch.full((4, 1), 10.0))
    targets.follow(gradient_steps=1, env_steps=0)

    followed = targets.of("net")["slow"]
    assert followed.running_mean.item() == pytest.approx(0.5 * module.running_mean.item())
    assert followed.num_batches_tracked == 1


def test_weights_of_target_networks_need_no_gradients_and_act_in_evaluation_mode():
    network = TargetNetworks({"net": nn.Dropout()}, {"slow": Target()}).of("net")["slow"]
    weights = TargetNetworks({"net": net()}, {"slow": Target()}).of("net")["slow"].parameters()

    assert not network.training
    assert not any(weight.requires_grad for weight in weights)


def test_a_restored_target_network_goes_on_as_if_nothing_had_happened():
    module = net()
    first = TargetNetworks({"net": module}, {"slow": Target(every=2)})
    set_to(module, 1.0)
    first.follow(gradient_steps=2, env_steps=0)
    second = TargetNetworks({"net": net(5.0)}, {"slow": Target(every=2)})

    second.set_state(first.get_state())
    second.follow(gradient_steps=3, env_steps=0)

    assert weight_of(second) == 1.0


def test_the_state_of_other_target_networks_is_rejected():
    targets = TargetNetworks({"net": net()}, {"slow": Target()})
    other = TargetNetworks({"net": net()}, {"slow": Target(of=("q",))})

    with pytest.raises(LearnerError, match=r"pi\.weight"):
        targets.set_state(other.get_state())


def test_a_component_without_weights_is_rejected():
    with pytest.raises(LearnerError, match=r"found the component 'critic' without weights"):
        TargetNetworks({"net": net()}, {"slow": Target(of=("critic",))})


def test_a_single_component_needs_no_tuple():
    targets = TargetNetworks({"net": net()}, {"slow": Target(of="q")})

    assert list(targets.get_state()["weights"]["net"]["slow"]) == ["q.weight"]


@pytest.mark.parametrize("junk", [3, (), ("q", 1), ["q"]])
def test_what_names_no_component_is_rejected(junk):
    with pytest.raises(LearnerError, match=r"Target: found `of=.*expected the name of a component"):
        Target(of=junk)


@pytest.mark.parametrize("junk", [0.0, -0.1, 1.1, np.nan, "fast"])
def test_a_part_of_the_way_outside_of_its_range_is_rejected(junk):
    with pytest.raises(LearnerError, match="tau"):
        Target(tau=junk)
