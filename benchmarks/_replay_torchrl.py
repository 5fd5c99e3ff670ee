"""TorchRL's side of the replay rows. Its samples are tensors in a `TensorDict`.

Its sum tree is bound to another version of torch than all sides have here, so it has no row with priorities.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from _replay_settings import BATCH, LENGTH, SEQUENCES, steps
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
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


def sequences(num: int) -> Callable[[], Any]:
    """Return what samples slices of trajectories; their ends are found once."""
    sampler = SliceSampler(slice_len=LENGTH, end_key=("next", "done"), cache_values=True)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(num), sampler=sampler, batch_size=SEQUENCES * LENGTH)
    _filled(buffer, num)
    return buffer.sample
