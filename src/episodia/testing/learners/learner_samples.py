"""Episodes to check learners on: modules play in environments that show random items of a space."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import Space

from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.episodes import MultiAgentEpisode, SingleAgentEpisode

# How long the episodes are, one after another, again and again.
_LENGTHS = (3, 1, 5, 2)


class DrawnEnv(gym.Env[Any, Any]):
    """Shows random items of a space and pays random rewards; even episodes terminate, odd ones are truncated.

    >>> from gymnasium import spaces
    >>> env = DrawnEnv(spaces.Discrete(3), spaces.Discrete(2))
    >>> env.reset(seed=0)[0] in env.observation_space
    True
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        self.observation_space = copy.deepcopy(observation_space)
        self.action_space = copy.deepcopy(action_space)
        self._episode, self._step = -1, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if seed is not None:
            self.observation_space.seed(seed)
            self._rng = np.random.default_rng(seed)
        self._episode, self._step = self._episode + 1, 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go on by one step."""
        self._step += 1
        is_over = self._step >= _LENGTHS[self._episode % len(_LENGTHS)]
        is_odd = self._episode % 2 == 1
        reward = float(self._rng.normal())
        return self.observation_space.sample(), reward, is_over and not is_odd, is_over and is_odd, {}


class DrawnGame(MultiAgentEnv):
    """The same for several agents, which are named after their modules and all act in each step."""

    def __init__(self, modules: Mapping[Any, Any]) -> None:
        self.possible_agents = self.agents = list(modules)
        self._envs = {name: DrawnEnv(module.observation_space, module.action_space) for name, module in modules.items()}
        self.observation_spaces = {name: env.observation_space for name, env in self._envs.items()}
        self.action_spaces = {name: env.action_space for name, env in self._envs.items()}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin an episode."""
        seeds = [None] * len(self._envs) if seed is None else [seed + place for place in range(len(self._envs))]
        return {name: env.reset(seed=own)[0] for (name, env), own in zip(self._envs.items(), seeds, strict=True)}, {}

    def step(self, actions: dict[Any, Any]) -> Any:
        """Go on by one step."""
        results = {name: self._envs[name].step(action) for name, action in actions.items()}
        observations, rewards, terminateds, truncateds = (
            {name: result[part] for name, result in results.items()} for part in range(4)
        )
        flags = {"__all__": any(terminateds.values())}, {"__all__": any(truncateds.values())}
        return observations, rewards, *flags, {}


def played_episodes(modules: Any, *, seed: int = 0) -> list[SingleAgentEpisode] | list[MultiAgentEpisode]:
    """Return a few whole episodes that `modules` have played, with all their outputs; those of several agents for a dict.

    >>> from gymnasium import spaces
    >>> from episodia.modules import RandomModule
    >>> [len(episode) for episode in played_episodes(RandomModule(spaces.Discrete(3), spaces.Discrete(2), seed=0))]
    [3, 1, 5, 2]
    """
    runner: Any
    if isinstance(modules, Mapping):
        runner = MultiAgentEnvRunner(lambda: DrawnGame(modules), modules, seed=seed)
    else:
        spaces = modules.observation_space, modules.action_space
        runner = SingleAgentEnvRunner(lambda: DrawnEnv(*spaces), modules, seed=seed)
    with runner, torch.no_grad():
        return list(runner.sample(num_episodes=len(_LENGTHS)))
