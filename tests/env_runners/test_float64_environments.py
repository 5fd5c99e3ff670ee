"""Environments that return float64 although their space says float32."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner

_NUMBERS = itertools.count(2000)


class Walk(gym.Env):
    """Five steps whose observations are in float64."""

    def __init__(self, space):
        self.observation_space, self.action_space = space, spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.1, 0.0]), {}

    def step(self, action):
        self.t += 1
        return np.array([0.1, self.t * 0.3]), 1.0, self.t >= 5, False, {}


class Walks(VectorEnv):
    """A ready vector environment of two such walks that never end."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012  # gymnasium's form
    num_envs = 2

    def __init__(self, space):
        self.single_observation_space, self.single_action_space = space, spaces.Discrete(2)
        self.observation_space = gym.vector.utils.batch_space(space, 2)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, 2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.full((2, 2), 0.1), {}

    def step(self, actions):
        self.t += 1
        return np.full((2, 2), 0.1 + self.t), np.ones(2), np.zeros(2, bool), np.zeros(2, bool), {}


class Team(MultiAgentEnv):
    """Two agents, each on such a walk."""

    possible_agents = agents = ("a", "b")

    def __init__(self, space):
        self.walks = {agent: Walk(space) for agent in self.agents}
        self.observation_spaces = dict.fromkeys(self.agents, space)
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        return {agent: walk.reset()[0] for agent, walk in self.walks.items()}, {}

    def step(self, actions):
        found = {agent: self.walks[agent].step(0) for agent in actions}
        observations, rewards, ends, cuts = ({agent: out[part] for agent, out in found.items()} for part in range(4))
        return observations, rewards, {**ends, "__all__": all(ends.values())}, {**cuts, "__all__": False}, {}


def new_box():
    return spaces.Box(-np.float32(next(_NUMBERS)), np.inf, (2,), np.float32)


def runners():
    box, other, third = new_box(), new_box(), new_box()
    return {
        "one agent": lambda: SingleAgentEnvRunner(lambda: Walk(box), num_envs=2),
        "a ready vector environment": lambda: SingleAgentEnvRunner(Walks(other)),
        "many agents": lambda: MultiAgentEnvRunner(lambda: Team(third), num_envs=2),
    }


@pytest.mark.parametrize("kind", runners())
def test_runners_record_float32_and_warn_once(kind):
    runner = runners()[kind]()

    with pytest.warns(UserWarning, match="recorded as float32") as caught:
        episodes = [*runner.sample(num_timesteps=12), *runner.sample(num_timesteps=12)]

    assert len(caught) == 1
    singles = [single for episode in episodes for single in getattr(episode, "agent_episodes", {"": episode}).values()]
    assert {single.get_observations().dtype for single in singles} == {np.dtype(np.float32)}
    assert singles[0].get_observations(0)[0] == np.float32(0.1)
