"""Episodes that a fault has ended are not waited for, and steps that are lost with them are not counted."""

from __future__ import annotations

import os

import gymnasium as gym
import numpy as np
import pytest

from episodia.env_runners import SingleAgentEnvRunner


class Moody(gym.Env):
    """Fails now and then, and ends now and then."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if self.np_random.random() < 0.1:
            raise RuntimeError("not today")
        return np.zeros(1, np.float32), 1.0, bool(self.np_random.random() < 0.3), False, {}


@pytest.mark.parametrize("on_env_error", ["drop", "truncate"])
def test_so_many_episodes_come_although_environments_fail(on_env_error):
    with SingleAgentEnvRunner(Moody, num_envs=4, seed=0, on_env_error=on_env_error) as runner:
        first, second = runner.sample(num_episodes=10), runner.sample(num_episodes=10)
        metrics = runner.get_metrics()

    assert len(first) == len(second) == 10
    assert all(episode.is_done for episode in [*first, *second])
    assert metrics.num_env_restarts > 0
    assert any(episode.is_truncated for episode in [*first, *second]) == (on_env_error == "truncate")


@pytest.mark.parametrize("on_env_error", ["drop", "truncate"])
def test_f4_so_many_steps_come_although_environments_fail(on_env_error):
    with SingleAgentEnvRunner(Moody, num_envs=4, seed=0, on_env_error=on_env_error) as runner:
        counts = [int(runner.sample(num_timesteps=40).lengths.sum()) for _ in range(10)]
        metrics = runner.get_metrics()

    assert all(40 <= count < 44 for count in counts)
    assert metrics.num_env_steps == sum(counts)
    assert (metrics.num_env_steps_dropped > 0) == (on_env_error == "drop")


class Mortal(Moody):
    """Its process dies in the sixth step, with one environment of many."""

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.t += 1
        if self.t == 6 and self.np_random.random() < 0.2:
            os._exit(1)
        return np.zeros(1, np.float32), 1.0, self.t == 7, False, {}


def test_f1_so_many_steps_come_although_processes_die():
    with SingleAgentEnvRunner(Mortal, num_envs=3, seed=0, vectorization="async") as runner:
        counts = [int(runner.sample(num_timesteps=20).lengths.sum()) for _ in range(3)]

        assert runner.get_metrics().num_env_steps_dropped > 0
    assert all(20 <= count < 23 for count in counts)
