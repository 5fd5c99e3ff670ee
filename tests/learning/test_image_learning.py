"""A game on small images, of MinAtar's kind: catch falling balls with a paddle until one is missed.

The settings were chosen with the seed 200.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import train

SIDE, BALLS = 10, 10
OPTIONS = {
    "num_envs": 4,
    "num_timesteps": 32,
    "updates_per_step": 0.25,
    "batch_size": 32,
    "hidden": (64,),
    "epsilon": PiecewiseLinearSchedule([(0, 1.0), (4_000, 0.02)]),
    "gamma": 0.95,
    "n_step": 3,
    "target_every": 100,
    "progress": False,
}


class Catch(gym.Env):
    """A ball falls one row in each step; each ball that is caught counts 1, and the first miss ends the game."""

    observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE, 2), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_caught, self.paddle = 0, self.np_random.integers(SIDE)
        self._drop()
        return self._shown(), {}

    def step(self, action):
        self.paddle = np.clip(self.paddle + action - 1, 0, SIDE - 1)
        self.row += 1
        if self.row < SIDE - 1:
            return self._shown(), 0.0, False, False, {}
        is_caught = bool(self.ball == self.paddle)
        self.num_caught += is_caught
        is_over = not is_caught or self.num_caught == BALLS
        if not is_over:
            self._drop()
        return self._shown(), float(is_caught), is_over, False, {}

    def _drop(self):
        self.row, self.ball = 0, self.np_random.integers(SIDE)

    def _shown(self):
        image = np.zeros((SIDE, SIDE, 2), np.uint8)
        image[self.row, self.ball, 0] = image[-1, self.paddle, 1] = 255
        return image


def test_random_actions_catch_almost_no_ball():
    env, caught = Catch(), []
    env.action_space.seed(0)
    for seed in range(200):
        env.reset(seed=seed)
        while not env.step(env.action_space.sample())[2]:
            pass
        caught.append(env.num_caught)

    assert np.mean(caught) < 0.3


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(5))
def test_dqn_catches_8_of_10_balls_within_10_000_steps(seed):
    with train("dqn", Catch, steps=9_900, seed=seed, **OPTIONS) as training:
        assert np.mean(training.evaluate(20)) >= 8.0
