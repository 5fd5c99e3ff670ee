"""RLlib's side of the learning rows: its runner and its PPO learner in one process, without the algorithm around them.

Ray is not started: what is left out costs time and teaches nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from _learning_settings import ENV, HIDDEN, UPDATE_ENVS, UPDATE_EPOCHS, UPDATE_MINIBATCH, UPDATE_STEPS, Setting
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner


class Training:
    """A runner and a learner."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._setting = setting
        network = DefaultModelConfig(fcnet_hiddens=list(HIDDEN), fcnet_activation="tanh", vf_share_layers=False)
        config = (
            PPOConfig()
            .environment(ENV)
            .env_runners(num_env_runners=0, num_envs_per_env_runner=setting.num_envs)
            .rl_module(rl_module_spec=RLModuleSpec(model_config=network))
            .training(
                lr=setting.learning_rate,
                gamma=setting.gamma,
                lambda_=setting.lambda_,
                entropy_coeff=setting.entropy_coefficient,
                clip_param=setting.clip,
                vf_loss_coeff=0.5,
                vf_clip_param=float("inf"),
                use_kl_loss=False,
                grad_clip=0.5,
                grad_clip_by="global_norm",
            )
            .debugging(seed=seed)
        )
        self.runner = SingleAgentEnvRunner(config=config)
        self._learner = config.build_learner(env=gym.make(ENV))
        self._num_steps = 0
        self._hand_over()

    def _hand_over(self) -> None:
        self.runner.set_state(self._learner.get_state(components=["rl_module"], inference_only=True))

    def iterate(self) -> int:
        """See `_learning_settings.Training`."""
        setting = self._setting
        episodes = self.runner.sample(num_timesteps=setting.num_envs * setting.num_steps)
        steps = sum(map(len, episodes))
        self.learn(episodes)
        self._hand_over()
        return steps

    def learn(self, episodes: list[Any]) -> None:
        """Update the weights; the episodes are changed."""
        self._num_steps += sum(map(len, episodes))
        self._learner.update(
            episodes=episodes,
            timesteps={"num_env_steps_sampled_lifetime": self._num_steps},
            num_epochs=self._setting.num_epochs,
            minibatch_size=self._setting.minibatch_size,
            shuffle_batch_per_epoch=True,
        )

    def act(self, observations: np.ndarray) -> np.ndarray:
        """See `_learning_settings.Training`."""
        with torch.no_grad():
            outputs = self.runner.module.forward_inference({"obs": torch.from_numpy(observations)})
        return outputs["action_dist_inputs"].argmax(-1).numpy()


def update() -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """Return what makes episodes, and what learns from them."""
    setting = Setting(UPDATE_ENVS, UPDATE_STEPS, UPDATE_EPOCHS, UPDATE_MINIBATCH, 1e-3, 0.99, 0.95, 0.0)
    training = Training(setting, 0)
    episodes = training.runner.sample(num_timesteps=UPDATE_ENVS * UPDATE_STEPS)
    return lambda: copy.deepcopy(episodes), training.learn
