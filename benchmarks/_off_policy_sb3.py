"""Stable-Baselines3's side of the off-policy rows."""

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
    Solving,
    stored,
)
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import ReplayBuffer

_KINDS: dict[str, Any] = {"dqn": DQN, "sac": SAC}


def _algorithm(algorithm: str, batch: int, width: int, **options: Any) -> Any:
    own = {"exploration_fraction": 1e-9, "exploration_final_eps": EPSILON, "target_update_interval": TARGET_EVERY}
    usual = {"buffer_size": 2 * STORED, "learning_starts": WARM_UP, "train_freq": AT_ONCE, "gradient_steps": AT_ONCE}
    made = _KINDS[algorithm](
        "MlpPolicy",
        gym.make(ENVS[algorithm]),
        learning_rate=RATE,
        gamma=GAMMA,
        batch_size=batch,
        policy_kwargs={"net_arch": [width, width]},
        device="cpu",
        seed=0,
        **({**usual, **own} if algorithm == "dqn" else {**usual, "tau": TAU}),
        **options,
    )
    made._setup_learn(total_timesteps=10**9)
    return made


def fill(buffer: ReplayBuffer, algorithm: str) -> ReplayBuffer:
    """Let the buffer hold the stored steps."""
    found = stored(algorithm)
    rows = slice(STORED)
    buffer.observations[rows, 0], buffer.next_observations[rows, 0] = found["obs"], found["next_obs"]
    buffer.actions[rows, 0] = found["actions"].reshape(STORED, -1)
    buffer.rewards[rows, 0] = found["rewards"]
    # Truncated episodes go on, for targets.
    buffer.dones[rows, 0] = buffer.timeouts[rows, 0] = found["ends"]
    buffer.pos = STORED
    return buffer


def updates(algorithm: str, batch: int, width: int) -> Callable[[], Any]:
    """Return what takes `AT_ONCE` gradient steps."""
    made = _algorithm(algorithm, batch, width)
    fill(made.replay_buffer, algorithm)
    return lambda: made.train(gradient_steps=AT_ONCE, batch_size=batch)


def loop(algorithm: str, batch: int, width: int) -> Callable[[], int]:
    """Return what plays and learns, one update for each step, and returns the number of steps."""
    made = _algorithm(algorithm, batch, width)
    made.learn(WARM_UP + AT_ONCE)

    def run() -> int:
        before = made.num_timesteps
        made.learn(LOOP_STEPS, reset_num_timesteps=False)
        return int(made.num_timesteps - before)

    return run


class Training:
    """SB3's own loop with the settings of its zoo."""

    def __init__(self, setting: Solving, seed: int) -> None:
        options: dict[str, Any] = {}
        if setting.falling:
            # The fraction refers to the steps of each call of `learn`, so the schedule is set instead.
            options = {"target_update_interval": setting.target_every, "exploration_final_eps": setting.epsilon}
        self._made = _KINDS["dqn" if setting.falling else "sac"](
            "MlpPolicy",
            gym.make(setting.env),
            learning_rate=setting.rate,
            gamma=GAMMA,
            batch_size=setting.batch,
            buffer_size=setting.capacity,
            learning_starts=setting.warm_up,
            train_freq=setting.collect,
            gradient_steps=setting.updates,
            policy_kwargs={"net_arch": [setting.width] * 2},
            device="cpu",
            seed=seed,
            **options,
        )
        _, self._callback = self._made._setup_learn(total_timesteps=10**9)
        self._setting = setting

    def run(self, steps: int) -> None:
        """See `_off_policy_settings.Training`: the loop of `learn`, without its logging."""
        made, setting = self._made, self._setting
        while made.num_timesteps < steps:
            if setting.falling:
                share = min(1.0, made.num_timesteps / setting.falling)
                made.exploration_schedule = lambda _, rate=1.0 + share * (setting.epsilon - 1.0): rate
            made.collect_rollouts(
                made.env,
                callback=self._callback,
                train_freq=made.train_freq,
                action_noise=None,
                learning_starts=setting.warm_up,
                replay_buffer=made.replay_buffer,
                log_interval=None,
            )
            if made.num_timesteps > setting.warm_up:
                made.train(gradient_steps=setting.updates, batch_size=setting.batch)

    def act(self, observations: np.ndarray) -> np.ndarray:
        """See `_off_policy_settings.Training`."""
        return np.asarray(self._made.predict(observations, deterministic=True)[0])
