"""Noise is added to real-valued parts of actions, and to nothing else."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia import Columns, EpisodiaError
from episodia.connectors.module_to_env.action_noise import GaussianNoise, UniformNoise
from module_columns import ACTION_SPACES, UNEVEN, UNIT, WHOLE_BOXES, leaf_spaces, leaves_of, module_actions


def _noisy(piece, actions):
    return piece(rl_module=None, batch={Columns.ACTIONS: actions}, episodes=[], explore=True)[Columns.ACTIONS]


def _clipped(value, low, high):
    """Return what a module may put out, in plain Python: -1 to 1 between two bounds, otherwise the bounds."""
    if np.isfinite(low) and np.isfinite(high):
        low, high = -1.0, 1.0
    return min(max(value, low), high)


@pytest.mark.parametrize("name", ACTION_SPACES)
@pytest.mark.parametrize("kind", [GaussianNoise, UniformNoise])
def test_each_number_equals_what_plain_python_makes_of_it(kind, name):
    space = ACTION_SPACES[name]
    actions = module_actions(space, 5)
    amount = {"std": 0.3} if kind is GaussianNoise else {"amplitude": 0.3}
    rng = np.random.default_rng(7)

    changed = leaves_of(_noisy(kind(input_action_space=space, seed=7, **amount), actions))

    for leaf, before, after in zip(leaf_spaces(space), leaves_of(actions), changed, strict=True):
        if not isinstance(leaf, spaces.Box):
            assert after is before
            continue
        draws = rng.standard_normal(before.shape) if kind is GaussianNoise else rng.uniform(-1.0, 1.0, before.shape)
        low, high = (np.broadcast_to(bound, before.shape) for bound in (leaf.low, leaf.high))
        numbers = zip(*map(np.ravel, (before.astype(float), draws, low, high)), strict=True)
        expected = [_clipped(action + 0.3 * draw, lowest, highest) for action, draw, lowest, highest in numbers]
        np.testing.assert_allclose(np.ravel(after), np.array(expected, before.dtype), rtol=1e-6, atol=1e-7)
        assert after.dtype == before.dtype


def test_gaussian_noise_has_the_standard_deviation_that_it_was_given():
    noise = _noisy(GaussianNoise(input_action_space=UNIT, std=0.1, seed=0), np.zeros((20_000, 2)))

    assert noise.std() == pytest.approx(0.1, abs=0.003)
    assert noise.mean() == pytest.approx(0.0, abs=0.003)


def test_uniform_noise_fills_its_amplitude():
    noise = _noisy(UniformNoise(input_action_space=UNIT, amplitude=0.2, seed=0), np.zeros((20_000, 2)))

    assert noise.min() == pytest.approx(-0.2, abs=0.001)
    assert noise.max() == pytest.approx(0.2, abs=0.001)
    assert noise.std() == pytest.approx(0.4 / np.sqrt(12), abs=0.003)


def test_sums_are_clipped_to_the_range_of_modules_or_to_the_bounds():
    space = spaces.Box(-5.0, 5.0, (2,))
    actions = np.full((1_000, 2), 0.9)

    in_range = _noisy(GaussianNoise(input_action_space=space, std=3.0, seed=0), actions)
    in_bounds = _noisy(GaussianNoise(input_action_space=space, std=3.0, seed=0, real_range=None), actions)

    assert (in_range.min(), in_range.max()) == (-1.0, 1.0)
    assert (in_bounds.min(), in_bounds.max()) == (-5.0, 5.0)


def test_bounds_of_single_elements_hold():
    noisy = _noisy(GaussianNoise(input_action_space=UNEVEN, std=9.0, seed=0), np.zeros((1_000, 4)))

    assert noisy.min(axis=0)[:2].tolist() == [-1.0, 0.0]
    assert noisy.max(axis=0)[[0, 2]].tolist() == [1.0, 3.0]
    assert np.abs(noisy[:, 3]).max() > 9.0


@pytest.mark.parametrize("name", WHOLE_BOXES)
def test_whole_numbers_get_no_noise(name):
    actions = module_actions(WHOLE_BOXES[name], 5)

    assert _noisy(GaussianNoise(input_action_space=WHOLE_BOXES[name], std=1.0), actions) is actions


@pytest.mark.parametrize(("kind", "name"), [(GaussianNoise, "std"), (UniformNoise, "amplitude")])
def test_an_amount_is_not_negative(kind, name):
    with pytest.raises(EpisodiaError, match=name):
        kind(**{name: -0.1})
