"""Control from replay: levels of the final greedy policy, with every seed of the test.

The settings were chosen with seeds from 200 on. One seed of DQN and of SAC runs with the other tests; all of
them with `pytest -m learning`. `docs/off_policy.md` has the results.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import train
from scaled_cartpole import BALANCING, BALANCING_DQN, Cart, until

SEEDS = range(5)

CARTPOLE = {
    "dqn": BALANCING_DQN,
    "rainbow": {**BALANCING, "target_every": 1, "atoms": 21, "batch_size": 64},
    "discrete_sac": {**BALANCING, "entropy_share": 0.1},
}

HANGING = {
    **BALANCING_DQN,
    "gamma": 0.99,
    "learning_rate": PiecewiseLinearSchedule([(0, 1e-3), (60_000, 5e-5)]),
}

SWINGING = {"num_envs": 4, "num_timesteps": 32, "batch_size": 128, "gamma": 0.95}
PENDULUM = {
    "sac": {**SWINGING, "warm_up": 800, "updates_per_step": 0.5, "learning_rate": 2e-3},
    "td3": {**SWINGING, "learning_rate": 1e-3, "noise": 0.2},
    "ddpg": {**SWINGING, "learning_rate": 1e-3, "noise": 0.2},
}


class RealCart(Cart):
    """The same, with any force between -10 and 10."""

    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, action):
        self.unwrapped.force_mag = 10.0 * abs(float(action[0]))
        return super().step(int(action[0] > 0.0))


def mean_return(algorithm, env, *, steps, seed, **options):
    """Return the mean return of 20 greedy episodes of the final policy."""
    with train(algorithm, env, steps=steps, seed=seed, progress=False, **options) as training:
        return np.mean(training.evaluate(20))


def balance(algorithm, env, *, steps, seed, **options):
    """Return the same for a training that ends when others of its episodes are almost perfect."""
    return mean_return(algorithm, env, steps=steps, seed=seed, callbacks=until(499.0), **options)


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("algorithm", "level"), [("dqn", 475.0), ("rainbow", 475.0), ("discrete_sac", 400.0)])
def test_discrete_actions_reach_their_level_on_cartpole_within_50_000_steps(algorithm, level, seed):
    assert balance(algorithm, Cart, steps=49_900, seed=seed, **CARTPOLE[algorithm]) >= level


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
def test_sac_with_any_force_reaches_200_on_cartpole_within_30_000_steps(seed):
    # At random it is about 25.
    assert balance("sac", RealCart, steps=29_900, seed=seed, **BALANCING) >= 200.0


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
def test_dqn_reaches_minus_90_on_acrobot_within_60_000_steps(seed):
    callbacks = until(-82.0)

    assert mean_return("dqn", "Acrobot-v1", steps=59_900, seed=seed, callbacks=callbacks, **HANGING) >= -90.0


def test_dqn_reaches_475_on_cartpole_within_10_000_steps():
    assert balance("dqn", Cart, steps=9_900, seed=0, **BALANCING_DQN) >= 475.0


def test_sac_reaches_minus_200_on_pendulum_within_10_000_steps():
    # At random it is about -1,200; the best there is is about -150.
    assert mean_return("sac", "Pendulum-v1", steps=9_900, seed=0, **PENDULUM["sac"]) >= -200.0


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", PENDULUM)
def test_actors_with_critics_reach_minus_200_on_pendulum_within_15_000_steps(algorithm, seed):
    assert mean_return(algorithm, "Pendulum-v1", steps=14_900, seed=seed, **PENDULUM[algorithm]) >= -200.0
