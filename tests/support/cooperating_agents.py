"""Agents of two modules that are paid for doing what they see: a task that is learned in a few updates."""

import numpy as np
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnvRunner
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv

SEEN, DONE = spaces.Box(0.0, 1.0, (2,), np.float32), spaces.Discrete(2)
LENGTH = 8


class Imitate(MultiAgentEnv):
    """Three agents; each is paid 1 for the action with the number of the place where its observation is 1."""

    def __init__(self, num_agents=3):
        self.possible_agents = [f"agent {number}" for number in range(num_agents)]
        self.observation_spaces = dict.fromkeys(self.possible_agents, SEEN)
        self.action_spaces = dict.fromkeys(self.possible_agents, DONE)

    def shown(self):
        self.asked = {agent: int(self.rng.integers(2)) for agent in self.possible_agents}
        return {agent: np.eye(2, dtype=np.float32)[place] for agent, place in self.asked.items()}

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        return self.shown(), {}

    def step(self, actions):
        paid = {agent: float(actions[agent] == self.asked[agent]) for agent in self.possible_agents}
        self.t += 1
        is_over = dict.fromkeys([*self.possible_agents, "__all__"], self.t == LENGTH)
        return self.shown(), paid, is_over, dict.fromkeys(is_over, False), {}


def one_for_the_first(agent_id, *_):
    return "first" if agent_id == "agent 0" else "others"


def runner_of(modules, seed, **settings):
    return MultiAgentEnvRunner(
        Imitate, modules, num_envs=2, seed=seed, agent_to_module_mapping_fn=one_for_the_first, **settings
    )
