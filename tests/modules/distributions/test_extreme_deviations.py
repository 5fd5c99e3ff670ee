"""Gaussians whose standard deviations a network has let go: they count as the nearest ones that floats can work with."""

import math

import numpy as np
import pytest
import torch
import torch.distributions as td
from gymnasium import spaces

from episodia.modules import dist_for

BOX = spaces.Box(-1.0, 1.0, (1,), np.float32)
both_kinds = pytest.mark.parametrize("squashed", [False, True], ids=["gaussian", "squashed"])


def seeded():
    return torch.Generator().manual_seed(0)


def made(inputs, squashed=False):
    return dist_for(BOX, squashed=squashed).from_logits(inputs)


@both_kinds
@pytest.mark.parametrize("log_std", [-3e38, -100.0, -20.0, 20.0, 100.0, 3e38])
def test_all_that_is_known_of_a_distribution_is_finite(log_std, squashed):
    inputs = torch.tensor([[0.5, log_std]] * 100, requires_grad=True)
    distribution = made(inputs, squashed)
    actions, logp = distribution.sample_with_logp(seeded())
    known = (actions, logp, distribution.logp(distribution.mode()), distribution.entropy())
    divergences = (distribution.kl(made(0.0 * inputs, squashed)), made(0.0 * inputs, squashed).kl(distribution))

    sum(part.sum() for part in (*known[1:], *divergences)).backward()

    assert all(bool(torch.isfinite(part).all()) for part in (*known, *divergences, inputs.grad))


@both_kinds
@pytest.mark.parametrize(("log_std", "nearest"), [(-100.0, -20.0), (-20.5, -20.0), (20.5, 20.0), (100.0, 20.0)])
def test_what_is_beyond_the_range_counts_as_its_end_and_is_not_learned_from(log_std, nearest, squashed):
    inputs = torch.tensor([[0.5, log_std]], requires_grad=True)
    entropy = made(inputs, squashed).entropy()
    entropy.sum().backward()

    assert torch.equal(entropy, made(torch.tensor([[0.5, nearest]]), squashed).entropy())
    assert inputs.grad[0, 1] == 0.0


@pytest.mark.parametrize("log_std", [-20.0, -19.5, -5.0, 0.0, 5.0, 19.5, 20.0])
def test_within_the_range_all_is_as_torch_says(log_std):
    inputs = torch.tensor([[0.5, log_std]], requires_grad=True)
    reference = td.Normal(torch.tensor(0.5), math.exp(log_std))
    actions = torch.tensor([[0.5 + 2 * math.exp(log_std)]])

    logp = made(inputs).logp(actions)
    logp.sum().backward()

    torch.testing.assert_close(logp, reference.log_prob(actions)[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(made(inputs).entropy(), reference.entropy()[None])
    assert inputs.grad[0, 1] != 0.0
