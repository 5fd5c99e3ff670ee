"""Stable-Baselines3's side of the replay rows. Its samples are tensors; its buffers are filled through their arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from _replay_settings import BATCH, EPISODE, FRAMES, GAMMA, N_STEP, SIDE, STACK, frames, goals, reward_of, steps
from gymnasium import spaces
from stable_baselines3 import HerReplayBuffer
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

_CART = (spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2))


def _fill(buffer: Any, found: dict[str, np.ndarray]) -> Any:
    buffer.actions[:, 0, 0] = found["actions"]
    buffer.rewards[:, 0] = found["rewards"]
    buffer.dones[:, 0] = found["terminated"] | found["truncated"]
    buffer.timeouts[:, 0] = found["truncated"]
    buffer.full = True
    return buffer


@cache
def _buffer(num: int, kind: type[ReplayBuffer] = ReplayBuffer, **options: Any) -> ReplayBuffer:
    buffer, found = kind(num, *_CART, device="cpu", **options), steps(num).flat()
    buffer.observations[:, 0], buffer.next_observations[:, 0] = found["obs"], found["next_obs"]
    filled: ReplayBuffer = _fill(buffer, found)
    return filled


def tensors(num: int) -> Callable[[], Any]:
    """Return what samples transitions."""
    buffer = _buffer(num)
    return lambda: buffer.sample(BATCH)


uniform = tensors


def n_step(num: int) -> Callable[[], Any]:
    """Return what samples n-step transitions."""
    buffer = _buffer(num, NStepReplayBuffer, n_steps=N_STEP, gamma=GAMMA)
    return lambda: buffer.sample(BATCH)


n_step_tensors = n_step


def stacked() -> Callable[[], Any]:
    """Return what samples stacked frames: every stack is stored twice, as it is and as the next one."""
    found = frames(FRAMES)
    space = spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
    buffer = ReplayBuffer(FRAMES, space, spaces.Discrete(4), device="cpu")
    padded = np.concatenate([np.zeros_like(found.observations[:, : STACK - 1]), found.observations], axis=1)
    for episode, track in enumerate(padded):
        windows = np.lib.stride_tricks.sliding_window_view(track, STACK, axis=0).transpose(0, 3, 1, 2)
        rows = slice(episode * EPISODE, (episode + 1) * EPISODE)
        buffer.observations[rows, 0], buffer.next_observations[rows, 0] = windows[:-1], windows[1:]
    _fill(buffer, found.flat())
    return lambda: buffer.sample(BATCH)


def add(num_envs: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what makes a vector step, and what adds it."""
    buffer = ReplayBuffer(1_000_000, *_CART, device="cpu", n_envs=num_envs)
    rng, flags, infos = np.random.default_rng(0), np.zeros(num_envs), [{} for _ in range(num_envs)]
    actions, rewards = np.zeros((num_envs, 1), np.int64), np.ones(num_envs)

    def prepare() -> Any:
        return rng.standard_normal((2, num_envs, 4), np.float32)

    return prepare, lambda both: buffer.add(both[0], both[1], actions, rewards, flags, infos)


class _Goals:
    """The only part of an environment that the buffer asks."""

    def env_method(self, _name: str, achieved: Any, desired: Any, infos: Any, **_: Any) -> list[Any]:
        return [reward_of(achieved, desired, infos)]


def hindsight(num: int) -> Callable[[], Any]:
    """Return what samples transitions, four of five with another goal."""
    found, achieved, desired = goals(num)
    goal = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    space = spaces.Dict({"observation": _CART[0], "achieved_goal": goal, "desired_goal": goal})
    buffer = HerReplayBuffer(num, space, _CART[1], env=_Goals(), device="cpu", copy_info_dict=False)
    tracks = {
        "observation": found.observations,
        "achieved_goal": achieved,
        "desired_goal": np.repeat(desired[:, None], EPISODE + 1, axis=1),
    }
    for key, track in tracks.items():
        buffer.observations[key][:, 0] = track[:, :-1].reshape(num, -1)
        buffer.next_observations[key][:, 0] = track[:, 1:].reshape(num, -1)
    buffer.ep_start[:, 0] = np.arange(num) // EPISODE * EPISODE
    buffer.ep_length[:] = EPISODE
    _fill(buffer, found.flat())
    return lambda: buffer.sample(BATCH)
