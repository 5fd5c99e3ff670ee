"""CartPole is learned within the steps that are written here, with every seed.

One seed of each algorithm runs with the other tests; all of them with `pytest -m learning`.
"""

from __future__ import annotations

import numpy as np
import pytest

from episodia.training import train

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.learning) for seed in (1, 2, 3, 4))]


def returns_after(algorithm, *, steps, target, seed):
    """Return the returns of 100 evaluation episodes, and how many steps were taken before."""
    # One batch fewer: a training stops when it has at least as many steps as it was told.
    with train(algorithm, "CartPole-v1", steps=steps - 5_000, target=target, seed=seed, progress=False) as training:
        return training.evaluate(100), training.steps


@pytest.mark.parametrize("seed", SEEDS)
def test_ppo_solves_cartpole_within_50_000_steps(seed):
    returns, steps = returns_after("ppo", steps=50_000, target=475.0, seed=seed)

    assert np.mean(returns) >= 475.0
    assert steps <= 50_000


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ["a2c", "reinforce"])
def test_a2c_and_reinforce_reach_400_within_200_000_steps(algorithm, seed):
    returns, steps = returns_after(algorithm, steps=200_000, target=450.0, seed=seed)

    assert np.mean(returns) >= 400.0
    assert steps <= 200_000
