"""What all sides of the off-policy rows learn: the same stored steps, networks and settings, and when a game is solved.

This module runs on all sides, also in the peers' environments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from _case import CLOCK

ENVS = {"dqn": "CartPole-v1", "sac": "Pendulum-v1"}
BATCHES, WIDTHS = (64, 256), (64, 256)
GAMMA, TAU, RATE = 0.99, 0.005, 1e-3
# How many gradient steps are asked for at once, and after how many steps of the environment as many updates are due.
AT_ONCE = 16
STORED = 50_000
EPISODE = 200
WARM_UP = 1_000
EPSILON = 0.05
TARGET_EVERY = 500
# How many steps of the environment one call of a loop takes.
LOOP_STEPS = 8 * AT_ONCE


@cache
def stored(algorithm: str) -> dict[str, np.ndarray]:
    """Return `STORED` steps of random play, one row each; each episode has `EPISODE` steps and is truncated."""
    rng = np.random.default_rng(0)
    width = 4 if algorithm == "dqn" else 3
    track = rng.standard_normal((STORED // EPISODE, EPISODE + 1, width), np.float32)
    actions = rng.integers(0, 2, STORED) if algorithm == "dqn" else rng.uniform(-1, 1, (STORED, 1)).astype(np.float32)
    ends = np.zeros(STORED, np.bool_)
    ends[EPISODE - 1 :: EPISODE] = True
    return {
        "track": track,
        "obs": track[:, :-1].reshape(STORED, width),
        "next_obs": track[:, 1:].reshape(STORED, width),
        "actions": actions,
        "rewards": rng.standard_normal(STORED).astype(np.float32),
        "ends": ends,
    }


@dataclass(frozen=True)
class Solving:
    """A game with the settings that SB3's zoo has found for it; `target` is the return that counts as solved."""

    env: str
    target: float
    width: int
    batch: int
    rate: float
    warm_up: int
    collect: int
    updates: int
    capacity: int
    # Of DQN only.
    target_every: int = 1
    falling: int = 0
    epsilon: float = 0.0


SOLVING = {
    "dqn": Solving("CartPole-v1", 475.0, 256, 64, 2.3e-3, 1_000, 256, 128, 100_000, 10, 8_000, 0.04),
    "sac": Solving("Pendulum-v1", -200.0, 256, 256, 1e-3, 100, 1, 1, 100_000),
}
# After how many steps the policy is looked at, in how many episodes, and when a side gives up.
LOOK_EVERY = {"dqn": 1_024, "sac": 500}
EVALUATED = 20
MOST_STEPS = {"dqn": 100_000, "sac": 20_000}


class Training(Protocol):
    """What each side has: a policy that learns."""

    def run(self, steps: int) -> None:
        """Go on until so many steps were taken in all."""

    def act(self, observations: np.ndarray) -> np.ndarray:
        """Return the best actions, as environments take them."""


def solved(make: Callable[[Solving, int], Training], algorithm: str, seed: int) -> dict[str, Any]:
    """Train until the game is solved, and return seconds and steps; evaluations count for neither."""
    setting = SOLVING[algorithm]
    training = make(setting, seed)
    seconds, steps = 0.0, 0
    while steps < MOST_STEPS[algorithm]:
        steps += LOOK_EVERY[algorithm]
        started = CLOCK()
        training.run(steps)
        seconds += CLOCK() - started
        if steps > setting.warm_up and evaluated(setting.env, training) >= setting.target:
            return {"is_solved": True, "seconds": seconds, "steps": steps}
    return {"is_solved": False, "seconds": seconds, "steps": steps}


def evaluated(env_id: str, training: Training) -> float:
    """Return the mean return of whole episodes in which the best actions are taken."""
    env = gym.make_vec(env_id, num_envs=EVALUATED, vectorization_mode="sync")
    observations, _ = env.reset(seed=0)
    returns, is_over = np.zeros(EVALUATED), np.zeros(EVALUATED, np.bool_)
    while not is_over.all():
        observations, rewards, terminateds, truncateds, _ = env.step(training.act(observations))
        returns += np.where(is_over, 0.0, rewards)
        is_over |= terminateds | truncateds
    env.close()
    return float(returns.mean())
