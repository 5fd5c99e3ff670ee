"""A game on small images, of MinAtar's kind: catch a falling ball with a paddle. Random actions catch about one in five."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import train

SIDE = 10


class Catch(gym.Env):
    """The ball falls one row in each step; the reward is 1 if the paddle is below it at the end."""

    observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE, 2), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, (self.ball, self.paddle) = 0, self.np_random.integers(SIDE, size=2)
        return self._shown(), {}

    def step(self, action):
        self.paddle = np.clip(self.paddle + action - 1, 0, SIDE - 1)
        self.row += 1
        is_over = self.row == SIDE - 1
        return self._shown(), float(is_over and self.ball == self.paddle), is_over, False, {}

    def _shown(self):
        image = np.zeros((SIDE, SIDE, 2), np.uint8)
        image[self.row, self.ball, 0] = image[-1, self.paddle, 1] = 255
        return image


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(5))
def test_dqn_catches_90_percent_of_all_balls_within_7_000_steps(seed):
    options = {
        "num_envs": 4,
        "num_timesteps": 32,
        "updates_per_step": 0.25,
        "batch_size": 32,
        "hidden": (64,),
        "epsilon": PiecewiseLinearSchedule([(0, 1.0), (3_000, 0.05)]),
        "gamma": 0.95,
        "n_step": 3,
        "target_every": 100,
    }
    with train("dqn", Catch, steps=6_900, seed=seed, progress=False, **options) as training:
        assert np.mean(training.evaluate(100)) >= 0.9
