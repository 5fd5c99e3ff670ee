"""Tianshou's side of the replay rows. Its samples are NumPy arrays in a `Batch`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from _replay_settings import ADD_CAPACITY, ALPHA, BATCH, BETA, RING_CAPACITY, steps
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer


def _fill(buffer: ReplayBuffer, num: int) -> ReplayBuffer:
    found = steps(num).flat()
    buffer.set_batch(
        Batch(
            obs=found["obs"],
            obs_next=found["next_obs"],
            act=found["actions"],
            rew=found["rewards"].astype(np.float64),
            terminated=found["terminated"],
            truncated=found["truncated"],
            done=found["terminated"] | found["truncated"],
        )
    )
    buffer._size = num
    return buffer


@cache
def _buffer(num: int) -> ReplayBuffer:
    return _fill(ReplayBuffer(num), num)


def uniform(num: int) -> Callable[[], Any]:
    """Return what samples transitions."""
    buffer = _buffer(num)
    return lambda: buffer.sample(BATCH)


def prioritized(num: int) -> Callable[[], Any]:
    """Return what samples by priority, and tells new priorities."""
    buffer = PrioritizedReplayBuffer(num, alpha=ALPHA, beta=BETA)
    _fill(buffer, num)
    buffer.init_weight(np.arange(num))
    errors = np.random.default_rng(3).random(BATCH)

    def run() -> Any:
        batch, rows = buffer.sample(BATCH)
        buffer.update_weight(rows, errors)
        return batch

    return run


def add(num_envs: int, capacity: int = ADD_CAPACITY) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what makes a vector step, and what adds it."""
    buffer: Any = ReplayBuffer(capacity) if num_envs == 1 else VectorReplayBuffer(capacity, num_envs)
    rng, flags = np.random.default_rng(0), np.zeros(num_envs, np.bool_)
    shape = () if num_envs == 1 else (num_envs,)
    ids = None if num_envs == 1 else np.arange(num_envs)

    def prepare() -> Any:
        both = rng.standard_normal((2, *shape, 4), np.float32)
        return Batch(
            obs=both[0],
            obs_next=both[1],
            act=np.zeros(shape, np.int64)[()],
            rew=np.ones(shape)[()],
            terminated=flags if shape else False,
            truncated=flags if shape else False,
            info={},
        )

    return prepare, lambda batch: buffer.add(batch, buffer_ids=ids)


def add_to_full_ring(num_envs: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what adds to a buffer that overwrites its oldest rows."""
    prepare, run = add(num_envs, RING_CAPACITY)
    for _ in range(RING_CAPACITY // num_envs + 1):
        run(prepare())
    return prepare, run
