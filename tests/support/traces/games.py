"""Environments with several agents that the traces are played in; all of what happens follows from seeds and actions."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnv

OBSERVATIONS = spaces.Box(-100.0, 100.0, (4,), np.float32)
ACTIONS = spaces.Discrete(2)


class Game(MultiAgentEnv):
    """Agents with CartPole's shapes of observations and actions."""

    def __init__(self, num_agents):
        self.agents = self.possible_agents = [f"agent_{number}" for number in range(num_agents)]
        self.observation_spaces = dict.fromkeys(self.agents, OBSERVATIONS)
        self.action_spaces = dict.fromkeys(self.agents, ACTIONS)


class Walkers(Game):
    """All agents walk together for 20 steps."""

    def reset(self, *, seed=None, options=None):
        self.places = np.random.default_rng(seed).uniform(-1.0, 1.0, (len(self.agents), 4)).astype(np.float32)
        self.t = 0
        return self.seen(), {agent: {"place": number} for number, agent in enumerate(self.agents)}

    def step(self, actions):
        self.places[:, 0] += [0.1 * actions[agent] - 0.05 for agent in self.agents]
        self.t += 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        return self.seen(), rewards, {"__all__": False}, {"__all__": self.t >= 20}, {}

    def seen(self):
        return dict(zip(self.agents, self.places.copy(), strict=True))


class CartPoles(Game):
    """One cart for each agent; agents leave as their poles fall, and the last one ends the episode."""

    def __init__(self, num_agents):
        super().__init__(num_agents)
        self.carts = {agent: gym.make("CartPole-v1") for agent in self.agents}

    def reset(self, *, seed=None, options=None):
        seeds = np.random.SeedSequence(seed).generate_state(len(self.carts)).tolist()
        self.left = len(self.carts)
        carts = zip(self.carts.items(), seeds, strict=True)
        return {agent: cart.reset(seed=its_seed)[0] for (agent, cart), its_seed in carts}, {}

    def step(self, actions):
        observations, rewards, terminateds, truncateds = {}, {}, {}, {}
        for agent, action in actions.items():
            observations[agent], rewards[agent], terminateds[agent], truncateds[agent], _ = self.carts[agent].step(
                action
            )
            self.left -= terminateds[agent] or truncateds[agent]
        return observations, rewards, terminateds | {"__all__": not self.left}, truncateds | {"__all__": False}, {}


class Turns(Game):
    """Agents act in turns; each is rewarded also while the others act, and the third turn of an agent is its last."""

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        return self.seen(), {}

    def step(self, actions):
        self.t += 1
        rewards = {agent: float(self.rng.integers(-4, 5)) / 2 for agent in self.agents}
        over = self.t >= 3 * len(self.agents)
        seen = self.seen() if not over else {agent: self.shown() for agent in self.agents}
        return seen, rewards, {"__all__": over}, {"__all__": False}, {agent: {"t": self.t} for agent in seen}

    def seen(self):
        return {self.agents[self.t % len(self.agents)]: self.shown()}

    def shown(self):
        return self.rng.uniform(-1.0, 1.0, 4).astype(np.float32)
