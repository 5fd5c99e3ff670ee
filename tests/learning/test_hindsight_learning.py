"""Sparse goal tasks: flip 12 bits until they equal a goal, and move a point to a place. Only with hindsight they are learned.

The settings for the point were chosen with the seeds 200 and 201.
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors.learner.hindsight import HindsightGoals
from episodia.learners import DQNConfig, SACConfig
from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import train

BITS = 12
SEEDS = range(5)
OPTIONS = {
    "num_timesteps": 96,
    "updates_per_step": 0.1,
    "batch_size": 128,
    "hidden": (128,),
    "epsilon": PiecewiseLinearSchedule([(0, 0.5), (12_500, 0.05)]),
    "progress": False,
}


def compute_reward(achieved, desired, info):  # noqa: ARG001  # the signature of goal environments
    return -(np.asarray(achieved) != np.asarray(desired)).any(-1).astype(np.float32)


class Flip(gym.Env):
    """An action flips a bit; each step costs 1 until all bits equal the goal."""

    observation_space = spaces.Dict(
        {name: spaces.Box(0.0, 1.0, (BITS,), np.float32) for name in ("achieved_goal", "desired_goal")}
    )
    action_space = spaces.Discrete(BITS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bits, self.goal = self.np_random.integers(2, size=(2, BITS)).astype(np.float32)
        self.t = 0
        return self._shown(), {}

    def step(self, action):
        self.bits[action] = 1.0 - self.bits[action]
        self.t += 1
        reward = float(compute_reward(self.bits, self.goal, {}))
        return self._shown(), reward, reward == 0.0, self.t == BITS, {}

    def _shown(self):
        return {"achieved_goal": self.bits.copy(), "desired_goal": self.goal.copy()}


@dataclass(frozen=True, kw_only=True)
class HindsightDQN(DQNConfig):
    """DQN that learns a share of its rows with goals that were reached later."""

    hindsight: float = 0.8

    def targets(self, device):
        return [HindsightGoals(compute_reward=compute_reward, ratio=self.hindsight, seed=0), *super().targets(device)]


def successes(ratio, seed):
    """Return the share of 100 greedy episodes that reach their goal after 25,000 steps."""
    config = HindsightDQN(hindsight=ratio, learning_rate=1e-3, target_every=1, tau=0.02, gamma=0.95)
    with train(config, Flip, steps=24_900, seed=seed, **OPTIONS) as training:
        return np.mean([found > -BITS for found in training.evaluate(100)])


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
def test_dqn_with_hindsight_reaches_90_percent_of_all_goals_within_25_000_steps(seed):
    assert successes(0.8, seed) >= 0.9


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
def test_dqn_without_hindsight_reaches_almost_no_goal(seed):
    assert successes(0.0, seed) <= 0.2


RADIUS, LIMIT, STRIDE = 0.04, 25, 0.15
MOVING = {
    "num_envs": 4,
    "num_timesteps": 32,
    "updates_per_step": 0.5,
    "batch_size": 128,
    "random_warm_up": True,
    "progress": False,
}


def distance_reward(achieved, desired, info):  # noqa: ARG001  # the signature of goal environments
    return -(np.linalg.norm(np.asarray(achieved) - np.asarray(desired), axis=-1) > RADIUS).astype(np.float32)


class Move(gym.Env):
    """An action moves a point in a square; each step costs 1 until the point is at its goal."""

    observation_space = spaces.Dict(
        {name: spaces.Box(-1.0, 1.0, (2,), np.float32) for name in ("achieved_goal", "desired_goal")}
    )
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1.0, 1.0, (2, 2)).astype(np.float32)
        self.t = 0
        return self._shown(), {}

    def step(self, action):
        self.place = np.clip(self.place + STRIDE * action, -1.0, 1.0).astype(np.float32)
        self.t += 1
        reward = float(distance_reward(self.place, self.goal, {}))
        return self._shown(), reward, reward == 0.0, self.t == LIMIT, {}

    def _shown(self):
        return {"achieved_goal": self.place.copy(), "desired_goal": self.goal.copy()}


@dataclass(frozen=True, kw_only=True)
class HindsightSAC(SACConfig):
    """SAC that learns a share of its rows with goals that were reached later."""

    hindsight: float = 0.8

    def targets(self, device):
        return [HindsightGoals(compute_reward=distance_reward, ratio=self.hindsight, seed=0), *super().targets(device)]


def arrivals(ratio, seed):
    """Return the share of 100 greedy episodes that arrive at their goal after 7,000 steps."""
    config = HindsightSAC(hindsight=ratio, learning_rate=1e-3, gamma=0.95, tau=0.01)
    with train(config, Move, steps=6_900, seed=seed, **MOVING) as training:
        return np.mean([found > -LIMIT for found in training.evaluate(100)])


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
def test_sac_with_hindsight_arrives_at_90_percent_of_all_goals_within_7_000_steps(seed):
    assert arrivals(0.8, seed) >= 0.9


@pytest.mark.learning
@pytest.mark.parametrize("seed", SEEDS)
def test_sac_without_hindsight_arrives_at_almost_no_goal(seed):
    assert arrivals(0.0, seed) <= 0.2
