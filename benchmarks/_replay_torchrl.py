"""TorchRL's side of the replay rows. Its samples are tensors in a `TensorDict`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from _replay_settings import ALPHA, BATCH, BETA, LENGTH, SEQUENCES, steps
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SliceSampler


def _filled(buffer: Any, num: int) -> Any:
    found = {name: torch.from_numpy(rows) for name, rows in steps(num).flat().items()}
    flags = {name: found[name][:, None] for name in ("terminated", "truncated")}
    following = {
        "observation": found["next_obs"],
        "reward": found["rewards"][:, None],
        "done": flags["terminated"] | flags["truncated"],
        **flags,
    }
    content = {"observation": found["obs"], "action": found["actions"], "next": TensorDict(following, [num])}
    buffer.extend(TensorDict(content, [num]))
    return buffer


@cache
def _buffer(num: int) -> Any:
    return _filled(TensorDictReplayBuffer(storage=LazyTensorStorage(num), batch_size=BATCH), num)


def tensors(num: int) -> Callable[[], Any]:
    """Return what samples transitions."""
    buffer = _buffer(num)
    return buffer.sample


uniform = tensors


def prioritized(num: int) -> Callable[[], Any]:
    """Return what samples by priority, and tells new priorities."""
    buffer = TensorDictPrioritizedReplayBuffer(alpha=ALPHA, beta=BETA, storage=LazyTensorStorage(num), batch_size=BATCH)
    _filled(buffer, num)
    errors = torch.from_numpy(np.random.default_rng(3).random(BATCH))

    def run() -> Any:
        sampled = buffer.sample()
        buffer.update_priority(sampled["index"], errors)
        return sampled

    return run


def sequences(num: int) -> Callable[[], Any]:
    """Return what samples slices of trajectories; their ends are found once."""
    sampler = SliceSampler(slice_len=LENGTH, end_key=("next", "done"), cache_values=True)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(num), sampler=sampler, batch_size=SEQUENCES * LENGTH)
    _filled(buffer, num)
    return buffer.sample
