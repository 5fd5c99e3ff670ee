"""Stable-Baselines3's side of the learning rows: PPO's own collecting and training, without its logging."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _learning_settings import ENV, HIDDEN, UPDATE_ENVS, UPDATE_EPOCHS, UPDATE_MINIBATCH, UPDATE_STEPS, Setting
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env


class Training:
    """PPO with its default policy."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._setting = setting
        self.algorithm = PPO(
            "MlpPolicy",
            make_vec_env(ENV, setting.num_envs, seed=seed),
            n_steps=setting.num_steps,
            n_epochs=setting.num_epochs,
            batch_size=setting.minibatch_size,
            learning_rate=setting.learning_rate,
            gamma=setting.gamma,
            gae_lambda=setting.lambda_,
            ent_coef=setting.entropy_coefficient,
            clip_range=setting.clip,
            policy_kwargs={"net_arch": list(HIDDEN)},
            device="cpu",
            seed=seed,
        )
        _, self._callback = self.algorithm._setup_learn(total_timesteps=10**9)

    def collect(self) -> None:
        """Fill the rollout buffer."""
        ppo = self.algorithm
        ppo.collect_rollouts(ppo.env, self._callback, ppo.rollout_buffer, n_rollout_steps=self._setting.num_steps)

    def iterate(self) -> int:
        """See `_learning_settings.Training`."""
        self.collect()
        self.algorithm.train()
        return self._setting.num_envs * self._setting.num_steps

    def act(self, observations: np.ndarray) -> np.ndarray:
        """See `_learning_settings.Training`."""
        return self.algorithm.predict(observations, deterministic=True)[0]


def update() -> Callable[[], object]:
    """Return what learns from one batch; advantages are there already, which are computed while collecting."""
    setting = Setting(UPDATE_ENVS, UPDATE_STEPS, UPDATE_EPOCHS, UPDATE_MINIBATCH, 1e-3, 0.99, 0.95, 0.0)
    training = Training(setting, 0)
    training.collect()
    return training.algorithm.train
