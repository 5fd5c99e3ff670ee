"""Our side of the learning rows: the plain loop over a runner and a learner."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch
from _learning_settings import ENV, HIDDEN, UPDATE_ENVS, UPDATE_EPOCHS, UPDATE_MINIBATCH, UPDATE_STEPS, Setting

from episodia.env_runners import SingleAgentEnvRunner
from episodia.learners import Learner, PPOConfig
from episodia.modules import MLPActorCritic


def _module(seed: int) -> MLPActorCritic:
    env = gym.make(ENV)
    generator = torch.Generator().manual_seed(seed)
    return MLPActorCritic(env.observation_space, env.action_space, HIDDEN, generator=generator)


class Training:
    """Runner and learner share the module, so weights need not be handed over."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self._setting = setting
        self._module = _module(seed)
        self._runner = SingleAgentEnvRunner(ENV, self._module, num_envs=setting.num_envs, seed=seed)
        config = PPOConfig(
            learning_rate=setting.learning_rate,
            gamma=setting.gamma,
            lambda_=setting.lambda_,
            entropy_coefficient=setting.entropy_coefficient,
            clip=setting.clip,
        )
        self._learner = Learner(self._module, config, seed=seed)

    def iterate(self) -> int:
        """See `_learning_settings.Training`."""
        setting = self._setting
        episodes = self._runner.sample(num_timesteps=setting.num_envs * setting.num_steps)
        steps = int(episodes.lengths.sum())
        self._learner.update(episodes, num_epochs=setting.num_epochs, minibatch_size=setting.minibatch_size)
        return steps

    def act(self, observations: np.ndarray) -> np.ndarray:
        """See `_learning_settings.Training`."""
        with torch.no_grad():
            outputs = self._module.forward_inference({"obs": torch.from_numpy(observations)})
        return outputs["action_dist_inputs"].argmax(-1).numpy()


def update() -> Callable[[], object]:
    """Return what learns from one batch, from episodes to new weights."""
    module = _module(0)
    with SingleAgentEnvRunner(ENV, module, num_envs=UPDATE_ENVS, seed=0) as runner:
        episodes = runner.sample(num_timesteps=UPDATE_ENVS * UPDATE_STEPS)
    learner = Learner(module, PPOConfig(), seed=0)
    return lambda: learner.update(episodes, num_epochs=UPDATE_EPOCHS, minibatch_size=UPDATE_MINIBATCH)
