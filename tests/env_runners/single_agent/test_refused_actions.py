"""Actions outside of their space are the fault of who has chosen them, not of the environment."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia import Columns
from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.env_runners.envs.env_crashes import is_outside
from episodia.errors import SpaceError
from episodia.modules import Rule
from scripted_agents import ScriptedEnv as ScriptedAgents


class OnceOutside(Rule):
    """Pushes to the right, but once, in the second lane, does something that cannot be done."""

    def __init__(self, at=5, action=7):
        super().__init__()
        self.at, self.action, self.count = at, action, 0

    def act(self, batch):
        self.count += 1
        actions = np.ones(len(batch[Columns.OBS]), np.int64)
        if self.count == self.at:
            actions[1] = self.action
        return actions


def ready():
    return gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")


@pytest.mark.parametrize(
    "made",
    [
        {"env": "CartPole-v1", "num_envs": 2},
        {"env": "CartPole-v1", "num_envs": 2, "vectorization": "async"},
        {"env": "CartPole-v1", "num_envs": 2, "vectorization": "vector_entry_point"},
        {"env": ready},
    ],
    ids=["sync", "async", "own form", "ready"],
)
def test_an_action_that_an_environment_rejects_is_named_with_its_lane_and_space(made):
    with SingleAgentEnvRunner(module=OnceOutside(), seed=0, **made) as runner:
        with pytest.raises(SpaceError, match=r"environment 1: found the action .*7.*expected one of Discrete\(2\)"):
            runner.sample(num_timesteps=100)
        steps = runner.sample(num_timesteps=20).lengths.sum()

        assert runner.get_metrics().num_env_restarts == 0
    assert steps >= 20


class Moody(gym.Env):
    """Fails in its third step, whatever it is told to do, or has ended before."""

    observation_space = spaces.Box(0.0, 1.0, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.low, {}

    def step(self, action):
        self.t += 1
        if self.t == 3:
            raise RuntimeError("not today")
        return self.observation_space.low, 1.0, bool(self.np_random.random() < 0.5), False, {}


def test_an_environment_that_fails_with_an_action_of_its_space_is_to_blame_itself():
    with SingleAgentEnvRunner(Moody, OnceOutside(at=10**6), num_envs=2, seed=0) as runner:
        runner.sample(num_timesteps=20)

        assert runner.get_metrics().num_env_restarts > 0


class Strict(ScriptedAgents):
    """Looks at its actions."""

    def step(self, actions):
        for agent, action in actions.items():
            if not self.action_spaces[agent].contains(action):
                raise KeyError(f"no such action: {action}")
        return super().step(actions)


class OneOutside(Rule):
    """Does the first thing, but the last of all agents does something that cannot be done, once."""

    count = 0

    def act(self, batch):
        self.count += 1
        actions = np.zeros(len(batch[Columns.OBS]), np.int64)
        actions[-1] = 9 if self.count == 4 else 0
        return actions


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_action_of_one_of_many_agents_is_named_with_agent_and_space(vectorization):
    make = partial(Strict, kind="simultaneous", num_agents=2)
    with MultiAgentEnvRunner(make, OneOutside(), num_envs=2, seed=0, vectorization=vectorization) as runner:
        with pytest.raises(
            SpaceError, match=r"environment 1, episode \d, agent 'agent 1': found the action .*9.*Discrete"
        ):
            runner.sample(num_timesteps=60)
        steps = sum(map(len, runner.sample(num_timesteps=20)))

        assert runner.get_metrics().num_env_restarts == 0
    assert steps >= 20


@pytest.mark.parametrize(
    ("space", "action", "outside"),
    [
        (spaces.Box(0.0, 0.7, (1,)), np.array([0.7]), False),
        (spaces.Box(0.0, 0.7, (1,)), np.array([0.71], np.float32), True),
        (spaces.Box(0.0, 0.7, (1,)), np.array([np.nan], np.float32), True),
        (spaces.Box(0.0, 0.7, (1,)), np.array([[0.5]], np.float32), True),
        (spaces.Box(0, 9, (1,), np.int64), np.array([0.5]), True),
        (spaces.Discrete(3, start=1), np.int64(3), False),
        (spaces.Discrete(3, start=1), np.int64(0), True),
        (spaces.Dict(go=spaces.Discrete(2)), {"go": 1}, False),
        (spaces.Dict(go=spaces.Discrete(2)), {"went": 1}, True),
        (spaces.Tuple([spaces.Discrete(2)]), (5,), True),
        (spaces.Tuple([spaces.Discrete(2)]), (0, 1), True),
    ],
)
def test_what_is_outside_of_a_space(space, action, outside):
    assert is_outside(space, action) == outside
