"""Tianshou's side of the rollout rows: its `Collector`, which fills a replay buffer (no log-probabilities or logits)."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
from _rollout_settings import ENV, FRAGMENTS, HIDDEN, SEED
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from torch import nn

# Its vector environments are lists of environments.
KINDS = ("sync",)


def single(_kind: str, num_envs: int) -> Callable[[], int]:
    """Return what collects, and returns the number of steps."""
    steps = num_envs * FRAGMENTS[num_envs]
    env = DummyVectorEnv([lambda: gym.make(ENV) for _ in range(num_envs)])
    space = gym.make(ENV).action_space
    network = Net(state_shape=(4,), action_shape=2, hidden_sizes=list(HIDDEN), activation=nn.Tanh)
    policy = DiscreteActorPolicy(actor=network, action_space=space)
    collector = Collector(policy, env, VectorReplayBuffer(steps, num_envs))
    env.seed(SEED)
    collector.reset()

    def collect() -> int:
        collector.reset_buffer()
        return collector.collect(n_step=steps).n_collected_steps

    return collect
