"""What all sides of the replay rows store: the same seeded steps, in episodes of one length."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

EPISODE = 200
BATCH = 256
SIZES = {"100k": 100_000, "1M": 1_000_000}
N_STEP, GAMMA = 3, 0.99
SEQUENCES, LENGTH = 20, 80
ALPHA, BETA = 0.6, 0.4
STACK, FRAMES, SIDE = 4, 4_000, 84
# Rows whose setting is the number of environments that step at once.
ENVS = (1, 16, 256)
ADD_CAPACITY, RING_CAPACITY = 1_000_000, 100_000


class Steps(NamedTuple):
    """Steps of E episodes: observations `[E, EPISODE + 1, ...]`, all others `[E, EPISODE]`; the last step of each ends it."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    is_terminated: np.ndarray

    def flat(self) -> dict[str, np.ndarray]:
        """Return one row for each step, with its next observation and flags, as libraries without episodes store them."""
        terminated = np.zeros(self.actions.shape, np.bool_)
        terminated[:, -1] = self.is_terminated
        truncated = np.zeros(self.actions.shape, np.bool_)
        truncated[:, -1] = ~self.is_terminated
        flat = {
            "obs": self.observations[:, :-1],
            "next_obs": self.observations[:, 1:],
            "actions": self.actions,
            "rewards": self.rewards,
            "terminated": terminated,
            "truncated": truncated,
        }
        return {name: np.ascontiguousarray(rows.reshape(-1, *rows.shape[2:])) for name, rows in flat.items()}


@cache
def steps(num: int) -> Steps:
    """Return steps of CartPole's size."""
    rng, episodes = np.random.default_rng(0), num // EPISODE
    return Steps(
        rng.standard_normal((episodes, EPISODE + 1, 4), np.float32),
        rng.integers(0, 2, (episodes, EPISODE)),
        rng.standard_normal((episodes, EPISODE), np.float32),
        np.arange(episodes) % 2 == 0,
    )


@cache
def frames(num: int) -> Steps:
    """Return steps of Atari's size, one frame each."""
    rng, episodes = np.random.default_rng(1), num // EPISODE
    return Steps(
        rng.integers(0, 256, (episodes, EPISODE + 1, SIDE, SIDE), np.uint8),
        rng.integers(0, 4, (episodes, EPISODE)),
        rng.standard_normal((episodes, EPISODE), np.float32),
        np.arange(episodes) % 2 == 0,
    )


@cache
def goals(num: int) -> tuple[Steps, np.ndarray, np.ndarray]:
    """Return steps, achieved goals `[E, EPISODE + 1, 3]` and desired goals `[E, 3]`."""
    rng, found = np.random.default_rng(2), steps(num)
    episodes = len(found.actions)
    return (
        found,
        rng.standard_normal((episodes, EPISODE + 1, 3), np.float32),
        rng.standard_normal((episodes, 3), np.float32),
    )


def reward_of(achieved: np.ndarray, desired: np.ndarray, _infos: object = None) -> np.ndarray:
    """Return 0 where the goal is reached, else -1."""
    distances: np.ndarray = np.linalg.norm(achieved - desired, axis=-1)
    return -(distances > 0.5).astype(np.float32)
