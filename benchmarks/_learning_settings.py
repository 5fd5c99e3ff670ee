"""What all sides learn, with what, and when it counts as learnt.

This module runs on all sides, also in the peers' environments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

ENV = "CartPole-v1"
HIDDEN = (64, 64)
SOLVED = 475.0
EVALUATION_EPISODES = 20
# After how many iterations the policy is looked at.
BETWEEN_EVALUATIONS = 8
# The update that is timed: a batch of 4,096 steps of 8 environments.
UPDATE_ENVS, UPDATE_STEPS, UPDATE_EPOCHS, UPDATE_MINIBATCH = 8, 512, 10, 256


@dataclass(frozen=True)
class Setting:
    """The numbers of PPO. Everywhere gradients are clipped at a norm of 0.5, and the values' error counts half."""

    num_envs: int
    num_steps: int
    num_epochs: int
    minibatch_size: int
    learning_rate: float
    gamma: float
    lambda_: float
    entropy_coefficient: float
    clip: float = 0.2


SETTINGS = {
    # Those that SB3's zoo has found for CartPole, with constant rates.
    "zoo": Setting(8, 32, 20, 256, 1e-3, 0.98, 0.8, 0.0),
    # Those that CleanRL publishes its curves with, with a constant rate.
    "cleanrl": Setting(4, 128, 4, 128, 2.5e-4, 0.99, 0.95, 0.01),
}


class Training(Protocol):
    """What each side has: a policy that learns."""

    def iterate(self) -> int:
        """Collect, update, hand over the weights; return how many steps were collected."""

    def act(self, observations: np.ndarray) -> np.ndarray:
        """Return the most probable actions."""


def solved(make: Callable[[], Training], limit_s: float) -> dict[str, Any]:
    """Train until the policy is good, and return seconds and steps of environments; evaluations count for neither."""
    training = make()
    seconds, steps = 0.0, 0
    while seconds < limit_s:
        started = time.perf_counter()
        for _ in range(BETWEEN_EVALUATIONS):
            steps += training.iterate()
        seconds += time.perf_counter() - started
        if evaluated(training) >= SOLVED:
            return {"is_solved": True, "seconds": seconds, "steps": steps}
    return {"is_solved": False, "seconds": seconds, "steps": steps}


def evaluated(training: Training) -> float:
    """Return the mean return of whole episodes in which the most probable actions are taken."""
    env = gym.make_vec(ENV, num_envs=EVALUATION_EPISODES, vectorization_mode="vector_entry_point")
    observations, _ = env.reset(seed=0)
    returns, is_over = np.zeros(EVALUATION_EPISODES), np.zeros(EVALUATION_EPISODES, np.bool_)
    while not is_over.all():
        observations, rewards, terminateds, truncateds, _ = env.step(training.act(observations))
        returns += np.where(is_over, 0.0, rewards)
        is_over |= terminateds | truncateds
    env.close()
    return float(returns.mean())
