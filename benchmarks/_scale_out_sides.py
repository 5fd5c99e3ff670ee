"""What the workers of `scale_out.py` make: runners, and learners that keep others busy."""

from __future__ import annotations

import os
from time import sleep
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from episodia import SingleAgentEnvRunner, SingleAgentEpisode
from episodia.learners import A2CConfig, Learner
from episodia.modules import MLPActorCritic

OBSERVATIONS, ACTIONS = gym.spaces.Box(-1, 1, (64,)), gym.spaces.Discrete(4)


class Waiting(gym.Wrapper[Any, Any, Any, Any]):
    """Waits in each step, as an environment does that runs elsewhere."""

    def __init__(self, env: gym.Env[Any, Any], wait_s: float) -> None:
        super().__init__(env)
        self._wait_s = wait_s

    def step(self, action: Any) -> Any:
        sleep(self._wait_s)
        return super().step(action)


def runner(seed: int, *, wait_s: float = 0.0, num_envs: int = 8) -> SingleAgentEnvRunner:
    env = gym.make("CartPole-v1")
    module = MLPActorCritic(env.observation_space, env.action_space, generator=torch.Generator().manual_seed(0))
    if wait_s:
        return SingleAgentEnvRunner(
            lambda: Waiting(gym.make("CartPole-v1"), wait_s), module, num_envs=num_envs, seed=seed
        )
    return SingleAgentEnvRunner("CartPole-v1", module, num_envs=num_envs, seed=seed)


def learner(hidden: tuple[int, ...] = (640, 640)) -> Learner:
    generator = torch.Generator().manual_seed(0)
    return Learner(MLPActorCritic(OBSERVATIONS, ACTIONS, hidden=hidden, generator=generator), A2CConfig(), seed=0)


def episodes(num: int, length: int = 128) -> list[SingleAgentEpisode]:
    rng = np.random.default_rng(0)
    return [
        SingleAgentEpisode(
            f"walk {number}",
            observations=rng.uniform(-1, 1, (length + 1, 64)).astype(np.float32),
            actions=rng.integers(0, 4, length),
            rewards=rng.normal(size=length),
            terminated=True,
            extra_model_outputs={"action_logp": np.full(length, -1.4, np.float32)},
            len_lookback_buffer=0,
        ).finalize()
        for number in range(num)
    ]


class Half:
    """A learner that learns from its own half, without talking."""

    def __init__(self, num: int) -> None:
        self._learner, self._episodes = learner(), episodes(num)

    def update(self, num_epochs: int) -> int:
        self._learner.update(self._episodes, num_epochs=num_epochs)
        return os.getpid()
