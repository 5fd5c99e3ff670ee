"""Tianshou's side of the off-policy rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from _off_policy_settings import (
    AT_ONCE,
    ENVS,
    EPSILON,
    GAMMA,
    LOOP_STEPS,
    RATE,
    STORED,
    TARGET_EVERY,
    TAU,
    WARM_UP,
    stored,
)
from tianshou.algorithm import DQN, SAC
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.sac import AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, ReplayBuffer
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.torch_utils import policy_within_training_step


def _algorithm(algorithm: str, width: int) -> Any:
    env = gym.make(ENVS[algorithm])
    hidden, shape, rate = [width, width], env.observation_space.shape, AdamOptimizerFactory(lr=RATE)
    if algorithm == "dqn":
        policy = DiscreteQLearningPolicy(
            model=Net(state_shape=shape, action_shape=2, hidden_sizes=hidden),
            action_space=env.action_space,
            eps_training=EPSILON,
        )
        return DQN(
            policy=policy,
            optim=rate,
            gamma=GAMMA,
            target_update_freq=TARGET_EVERY,
            is_double=False,
            huber_loss_delta=1.0,
        )
    actor = ContinuousActorProbabilistic(
        preprocess_net=Net(state_shape=shape, hidden_sizes=hidden),
        action_shape=(1,),
        unbounded=True,
        conditioned_sigma=True,
    )
    critics = [
        ContinuousCritic(preprocess_net=Net(state_shape=shape, action_shape=(1,), hidden_sizes=hidden, concat=True))
        for _ in range(2)
    ]
    return SAC(
        policy=SACPolicy(actor=actor, action_space=env.action_space),
        policy_optim=rate,
        critic=critics[0],
        critic_optim=rate,
        critic2=critics[1],
        critic2_optim=rate,
        tau=TAU,
        gamma=GAMMA,
        alpha=AutoAlpha(-1.0, 0.0, rate),
    )


def _updates(algorithm: Any, buffer: ReplayBuffer, batch: int) -> Callable[[], None]:
    def run() -> None:
        with policy_within_training_step(algorithm.policy):
            for _ in range(AT_ONCE):
                algorithm.update(buffer=buffer, sample_size=batch)

    return run


def updates(algorithm: str, batch: int, width: int) -> Callable[[], None]:
    """Return what takes `AT_ONCE` gradient steps."""
    found, buffer = stored(algorithm), ReplayBuffer(STORED)
    buffer.set_batch(
        Batch(
            obs=found["obs"],
            obs_next=found["next_obs"],
            act=found["actions"],
            rew=found["rewards"].astype(np.float64),
            terminated=np.zeros(STORED, np.bool_),
            truncated=found["ends"],
            done=found["ends"],
            info=Batch(),
        )
    )
    buffer._size = STORED
    return _updates(_algorithm(algorithm, width), buffer, batch)


def loop(algorithm: str, batch: int, width: int) -> Callable[[], int]:
    """Return what plays and learns, one update for each step, and returns the number of steps."""
    made, buffer = _algorithm(algorithm, width), ReplayBuffer(2 * STORED)
    collector = Collector(made, gym.make(ENVS[algorithm]), buffer, exploration_noise=algorithm == "dqn")
    collector.reset()
    collector.collect(n_step=WARM_UP, random=True)
    learn = _updates(made, buffer, batch)

    def run() -> int:
        steps = 0
        while steps < LOOP_STEPS:
            steps += collector.collect(n_step=AT_ONCE).n_collected_steps
            learn()
        return steps

    return run
