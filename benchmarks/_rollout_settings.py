"""What is played in all rollout rows, on all sides: sizes, networks, and environments with several agents.

This module runs on all sides, also in the peers' environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

ENV = "CartPole-v1"
HIDDEN = (64, 64)
CELL_SIZE = 64
SEED = 7
# How environments are stepped: one by one in one process, or in the form that steps all of them as arrays.
KINDS = ("sync", "vectorised")
# How many environments there are, and for how many steps each of them is played before data is returned.
FRAGMENTS = {1: 512, 16: 128, 64: 64, 256: 32}
RECURRENT_ENVS = 16
# How many environments are played with a piece in front of the module.
PIECE_ENVS = (1, 16, 64)


def single_row(kind: str, num_envs: int, added: str = "") -> str:
    """Return the name of a row with one agent in each environment.

    >>> single_row("sync", 16), single_row("sync", 16, "MeanStdFilter")
    ('rollout sync 16 envs', 'rollout sync 16 envs, MeanStdFilter')
    """
    return f"rollout {kind} {num_envs} envs{added and ', '}{added}"


def team_row(team: type[Team], num_agents: int, num_envs: int, added: str = "") -> str:
    """Return the name of a row with several agents in each environment."""
    return f"rollout multi-agent {num_agents} agents x {num_envs} envs{team.mode}{added and ', '}{added}"


class Team:
    """An environment with several agents, to be mixed with the base class of a side.

    Actions and the shape of observations are those of a CartPole, so that networks are the same in all rows.
    """

    mode = ""
    observation_space: spaces.Box

    def __init__(self, num_agents: int) -> None:
        super().__init__()
        self.agents = self.possible_agents = [f"agent_{number}" for number in range(num_agents)]
        self.observation_spaces = dict.fromkeys(self.agents, self.observation_space)
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(2))


class Walkers(Team):
    """All agents walk to and fro for 100 steps: an environment that costs next to nothing, so the runner is measured."""

    observation_space = spaces.Box(-20.0, 20.0, (4,), np.float32)
    length = 100

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Let all agents begin at random places."""
        size = (len(self.agents), 4)
        self._places = np.random.default_rng(seed).uniform(-1.0, 1.0, size).astype(np.float32)
        self._t = 0
        return self._seen(), {}

    def step(self, actions: dict[Any, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Let all agents make a step."""
        steps = np.array([actions[agent] for agent in self.agents], np.float32)
        self._places[:, 0] += 0.1 * steps - 0.05
        self._t += 1
        rewards = dict.fromkeys(self.agents, 1.0)
        return self._seen(), rewards, {"__all__": False}, {"__all__": self._t >= self.length}, {}

    def _seen(self) -> dict[Any, np.ndarray]:
        return dict(zip(self.agents, self._places.copy(), strict=True))


class CartPoles(Team):
    """One cart for each agent. Agents leave as their poles fall; the episode ends with the last of them."""

    mode = ", leaving one by one"
    observation_space = gym.make(ENV).observation_space

    def __init__(self, num_agents: int) -> None:
        super().__init__(num_agents)
        self._carts = {agent: gym.make(ENV) for agent in self.agents}
        self._left = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        """Begin an episode in which all agents take part."""
        self._left = len(self._carts)
        seeds: Sequence[int | None] = [None] * self._left
        if seed is not None:
            seeds = np.random.SeedSequence(seed).generate_state(self._left).tolist()
        carts = zip(self._carts.items(), seeds, strict=True)
        return {agent: cart.reset(seed=its_seed)[0] for (agent, cart), its_seed in carts}, {}

    def step(self, actions: dict[Any, Any]) -> tuple[dict, dict, dict, dict, dict]:
        """Move the carts of those who act."""
        observations, rewards, terminateds, truncateds = {}, {}, {}, {}
        for agent, action in actions.items():
            observation, reward, terminated, truncated, _ = self._carts[agent].step(action)
            observations[agent], rewards[agent] = observation, float(reward)
            terminateds[agent], truncateds[agent] = terminated, truncated
            self._left -= terminated or truncated
        terminateds["__all__"], truncateds["__all__"] = not self._left, False
        return observations, rewards, terminateds, truncateds, {}


# The environment, agents, how many environments, and for how many steps each of them is played.
TEAMS: tuple[tuple[type[Team], int, int, int], ...] = (
    *((Walkers, agents, envs, steps) for agents in (2, 8) for envs, steps in ((1, 100), (8, 50))),
    *((CartPoles, 8, envs, steps) for envs, steps in ((1, 100), (8, 50))),
)
# The one that is also played with a piece, and with a callback.
WATCHED_TEAM = (Walkers, 8, 8, 50)
