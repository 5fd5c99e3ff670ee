"""CartPole with scaled observations, and settings with which Q-learning balances it."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np

from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import EvalEvery

# Long horizons make all actions look alike, and Q-learning forgets how to balance once values are large.
BALANCING = {
    "num_envs": 4,
    "num_timesteps": 32,
    "updates_per_step": 0.25,
    "batch_size": 128,
    "gamma": 0.95,
    "n_step": 3,
    "tau": 0.02,
    "hidden": (128, 128),
    "learning_rate": PiecewiseLinearSchedule([(0, 1e-3), (30_000, 5e-5)]),
}
BALANCING_DQN = {
    **BALANCING,
    "target_every": 1,
    "dueling": True,
    "batch_size": 64,
    "priority_exponent": 0.5,
    "epsilon": PiecewiseLinearSchedule([(0, 1.0), (10_000, 0.04)]),
}


class Cart(gym.ObservationWrapper):
    """CartPole with angles in units of 0.1, so that all observations are about as large."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)

    def observation(self, observation):
        return observation / np.array([1.0, 1.0, 0.1, 1.0], np.float32)


def until(enough):
    """Return callbacks that end a training when 20 greedy episodes, after every 2,500 steps, have a mean of `enough`."""
    return [EvalEvery(2_500, 20), lambda record: record.get("evaluation_return_mean", -math.inf) >= enough]
