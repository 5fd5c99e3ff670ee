"""Squashed Gaussians: densities that integrate to one, entropies and divergences against plain numerical integration."""

import math

import numpy as np
import pytest
import torch
import torch.distributions as td
from gymnasium import spaces

from episodia.errors import ModuleError
from episodia.modules import dist_for
from episodia.modules.distributions import Nested, SquashedGaussian

BOX = spaces.Box(-2.0, 3.0, (2,), np.float32)
INPUTS = torch.tensor([[0.3, -1.0, -0.5, 0.4], [0.0, 2.0, 0.0, -1.0]], dtype=torch.float64)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def squashed(inputs=INPUTS, space=BOX):
    return dist_for(space, squashed=True).from_logits(inputs)


def reference(inputs):
    """Return the same distribution of torch's."""
    size = inputs.shape[-1] // 2
    normal = td.Normal(inputs[..., :size], inputs[..., size:].exp(), validate_args=False)
    return td.Independent(td.TransformedDistribution(normal, [td.TanhTransform(cache_size=1)], validate_args=False), 1)


def inner_grid(mean, std):
    """Return points and steps of an integral over numbers before tanh, which is smooth there."""
    points = np.linspace(mean - 12 * std, mean + 12 * std, 20_001)
    return points, points[1] - points[0]


@pytest.mark.parametrize("place", range(2))
def test_the_density_integrates_to_one(place):
    mean, log_std = float(INPUTS[0, place]), float(INPUTS[0, 2 + place])
    box = spaces.Box(-1.0, 1.0, (1,), np.float64)
    actions = torch.linspace(-1 + 1e-7, 1 - 1e-7, 2_000_001, dtype=torch.float64)[:, None]
    inputs = torch.tensor([[mean, log_std]], dtype=torch.float64).expand(len(actions), 2)

    density = squashed(inputs, box).logp(actions).exp()

    assert float(torch.trapezoid(density, actions[:, 0])) == pytest.approx(1.0, abs=1e-3)


def test_log_probabilities_are_those_of_torch():
    actions = torch.tensor([[0.3, -0.9], [0.0, 0.999]], dtype=torch.float64)

    torch.testing.assert_close(
        squashed().logp(actions.float()), reference(INPUTS).log_prob(actions), rtol=1e-4, atol=1e-4
    )


def entropy_of(mean, log_std):
    """Return minus the mean log-density after tanh, integrated before it."""
    points, step = inner_grid(mean, math.exp(log_std))
    log_normal = -0.5 * ((points - mean) / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    log_slope = 2 * (math.log(2) - np.logaddexp(points, -points))
    return -float((np.exp(log_normal) * (log_normal - log_slope)).sum() * step)


def test_entropy_is_minus_the_mean_log_density():
    expected = [sum(map(entropy_of, row[:2], row[2:])) for row in INPUTS.tolist()]

    assert squashed().entropy().tolist() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("log_std", [-10.0, -5.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0])
def test_entropy_is_exact_for_small_and_large_standard_deviations(log_std):
    means = [0.0, 0.1, -0.7, 2.0, -6.0, 30.0]
    inputs = torch.tensor([[mean, log_std] for mean in means], dtype=torch.float64)

    found = squashed(inputs, spaces.Box(-1.0, 1.0, (1,))).entropy()

    assert found.tolist() == pytest.approx([entropy_of(mean, log_std) for mean in means], abs=2e-4)


@pytest.mark.parametrize("log_std", [-15.0, -2.0, 0.0, 1.0, 4.0])
def test_the_gradient_of_the_entropy_is_its_slope(log_std):
    inputs = torch.tensor([[0.4, log_std]], dtype=torch.float64, requires_grad=True)

    squashed(inputs, spaces.Box(-1.0, 1.0, (1,))).entropy().sum().backward()

    step = 1e-3
    by_mean = (entropy_of(0.4 + step, log_std) - entropy_of(0.4 - step, log_std)) / (2 * step)
    by_log_std = (entropy_of(0.4, log_std + step) - entropy_of(0.4, log_std - step)) / (2 * step)
    assert inputs.grad[0].tolist() == pytest.approx([by_mean, by_log_std], abs=1e-3)


def test_entropy_has_a_gradient_away_from_the_ends():
    inputs = torch.tensor([[3.0, -3.0, 0.0, 0.0]], requires_grad=True)

    squashed(inputs).entropy().sum().backward()

    # More entropy is nearer to the middle.
    assert inputs.grad[0, 0] < 0 < inputs.grad[0, 1]


def test_divergence_is_that_before_squashing():
    left, right = squashed(INPUTS), squashed(INPUTS.flip(0))

    expected = td.kl_divergence(reference(INPUTS).base_dist.base_dist, reference(INPUTS.flip(0)).base_dist.base_dist)

    torch.testing.assert_close(left.kl(right), expected.sum(-1))
    assert left.kl(left).tolist() == [0.0, 0.0]


def test_actions_are_drawn_between_the_ends_in_the_dtype_and_shape_of_the_space():
    space = spaces.Box(-5.0, 5.0, (2, 3), np.float32)
    inputs = torch.cat([torch.zeros(4, 5, 6), torch.full((4, 5, 6), 4.0)], -1)

    distribution = squashed(inputs, space)
    actions = distribution.sample(seeded())

    assert actions.shape == (4, 5, 2, 3)
    assert actions.dtype == torch.float32
    assert bool((actions.abs() < 1.0).all())
    assert bool(torch.isfinite(distribution.logp(actions)).all())
    assert torch.equal(actions, distribution.sample(seeded()))


def test_drawn_actions_have_the_frequencies_of_the_density():
    inputs = torch.tensor([[0.5, math.log(0.8)]]).expand(50_000, 2)
    actions = squashed(inputs, spaces.Box(-1.0, 1.0, (1,))).sample(seeded())

    share = float((actions < 0.2).float().mean())
    expected = float(td.Normal(0.5, 0.8).cdf(torch.atanh(torch.tensor(0.2))))
    assert share == pytest.approx(expected, abs=0.01)


def test_the_mode_is_squashed_too():
    torch.testing.assert_close(squashed().mode(), INPUTS[:, :2].tanh().float())


def test_actions_at_the_ends_have_a_finite_log_probability_and_gradient():
    inputs = INPUTS.clone().requires_grad_()

    logp = squashed(inputs).logp(torch.tensor([[1.0, -1.0], [1.0, 1.0]]))
    logp.sum().backward()

    assert bool(torch.isfinite(logp).all())
    assert bool(torch.isfinite(inputs.grad).all())


def test_boxes_in_nested_spaces_are_squashed_and_others_stay():
    spec = dist_for(spaces.Dict(arm=BOX, tool=spaces.Discrete(3)), squashed=True)

    distribution = spec.from_logits(torch.zeros(2, spec.num_inputs))

    assert isinstance(distribution, Nested)
    assert isinstance(distribution.parts[0], SquashedGaussian)
    assert distribution.sample(seeded())["tool"].dtype == torch.int64


@pytest.mark.parametrize("low", [-np.inf, 0.0])
def test_a_box_without_bounds_cannot_be_squashed(low):
    with pytest.raises(ModuleError, match=r"action_space\['x'\]: found .* no bounds .*`squashed=False`"):
        dist_for(spaces.Dict(x=spaces.Box(low, np.inf, (2,))), squashed=True)


def test_half_precision_has_too_few_numbers_near_the_bounds_to_be_squashed():
    with pytest.raises(ModuleError, match=r"action_space\['x'\]: found .*float16.*, expected float32 or float64"):
        dist_for(spaces.Dict(x=spaces.Box(-1.0, 1.0, (2,), np.float16)), squashed=True)


def test_distributions_of_another_kind_cannot_be_compared():
    with pytest.raises(ModuleError, match="expected a distribution of the same kind"):
        squashed().kl(dist_for(BOX).from_logits(INPUTS))
