"""CartPole and Pendulum from replay: levels of the final greedy policy, with every seed.

The settings were chosen with the seeds 10 to 12. One seed of SAC runs with the other tests; all of them with
`pytest -m learning`.
"""

from __future__ import annotations

import numpy as np
import pytest

from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import train

SEEDS = range(5)

BALANCING = {"num_envs": 4, "num_timesteps": 32, "gamma": 0.98}
Q_LEARNING = {
    **BALANCING,
    "n_step": 3,
    "updates_per_step": 0.5,
    "target_every": 50,
    "learning_rate": PiecewiseLinearSchedule([(0, 2e-3), (50_000, 1e-4)]),
    "epsilon": PiecewiseLinearSchedule([(0, 1.0), (10_000, 0.02)]),
}

SWINGING = {"num_envs": 4, "num_timesteps": 32, "batch_size": 128, "gamma": 0.95}
ACTORS = {
    "sac": {**SWINGING, "warm_up": 800, "updates_per_step": 0.5, "learning_rate": 2e-3},
    "td3": {**SWINGING, "learning_rate": 1e-3, "noise": 0.2},
    "ddpg": {**SWINGING, "learning_rate": 1e-3, "noise": 0.2},
}


def mean_return(algorithm, env, *, steps, seed, target=None, **options):
    """Return the mean return of 20 greedy episodes of the final policy."""
    with train(algorithm, env, steps=steps, target=target, seed=seed, progress=False, **options) as training:
        return np.mean(training.evaluate(20))


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
def test_dqn_reaches_475_on_cartpole_within_50_000_steps(seed):
    assert mean_return("dqn", "CartPole-v1", steps=49_900, target=480.0, seed=seed, **Q_LEARNING) >= 475.0


def test_sac_reaches_minus_200_on_pendulum_within_10_000_steps():
    # At random it is about -1,200; the best there is is about -150.
    assert mean_return("sac", "Pendulum-v1", steps=9_900, seed=0, **ACTORS["sac"]) >= -200.0


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ACTORS)
def test_actors_with_critics_reach_minus_200_on_pendulum_within_15_000_steps(algorithm, seed):
    assert mean_return(algorithm, "Pendulum-v1", steps=14_900, seed=seed, **ACTORS[algorithm]) >= -200.0
