"""Runners are pickled and copied with their settings and their state."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia.connectors import FrameStacking, MeanStdFilter
from episodia.env_runners import Callbacks, MultiAgentEnv, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.errors import EnvRunnerError
from episodia.modules import MLPActorCritic

BOX = spaces.Box(-5.0, 5.0, (2,), np.float32)
ACTIONS = spaces.Discrete(2)


class Walk(gym.Env):
    observation_space, action_space = BOX, ACTIONS

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(2, np.float32), {}

    def step(self, action):
        return self.np_random.random(2, np.float32), float(action), bool(self.np_random.random() < 0.2), False, {}


class Pair(MultiAgentEnv):
    possible_agents = agents = ("a", "b")
    observation_space, action_space = BOX, ACTIONS

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        return self.seen(), {}

    def step(self, actions):
        flags = {"__all__": bool(self.rng.random() < 0.2)}
        return self.seen(), dict.fromkeys(actions, 1.0), flags, {"__all__": False}, {}

    def seen(self):
        return {agent: self.rng.random(2, np.float32) for agent in self.agents}


class Counting(Callbacks):
    def __init__(self):
        self.ends = 0

    def on_episode_end(self, **kwargs):
        self.ends += 1


def own(agent, _episode):
    return agent


def module():
    return MLPActorCritic(BOX, ACTIONS, hidden=(4,))


RUNNERS = {
    "one": lambda: SingleAgentEnvRunner(Walk, module(), num_envs=2, seed=3, env_to_module=[MeanStdFilter()]),
    "with settings": lambda: SingleAgentEnvRunner(
        Walk, module(), seed=3, horizon=7, explore=False, callbacks=[Counting()], action_mask_key=None
    ),
    "by id": lambda: SingleAgentEnvRunner("CartPole-v1", seed=3, num_envs=2, vectorization="vector_entry_point"),
    "random": lambda: SingleAgentEnvRunner(Walk, seed=3, env_to_module=[FrameStacking(num_frames=2)]),
    "many": lambda: MultiAgentEnvRunner(Pair, module(), num_envs=2, seed=3),
    "many modules": lambda: MultiAgentEnvRunner(
        Pair, {"a": module(), "b": module()}, agent_to_module_mapping_fn=own, seed=3, count_steps_by="agent_steps"
    ),
}


def data_of(episodes):
    return [(episode.id_, len(episode), float(episode.get_return())) for episode in episodes]


@pytest.mark.parametrize(
    "again", [lambda runner: pickle.loads(pickle.dumps(runner)), copy.deepcopy], ids=["pickled", "copied"]
)
@pytest.mark.parametrize("steps_before", [0, 30])
@pytest.mark.parametrize("name", RUNNERS)
def test_a_pickled_runner_plays_as_the_original_with_new_episodes(name, steps_before, again):
    with RUNNERS[name]() as runner:
        if steps_before:
            runner.sample(num_timesteps=steps_before)
        with again(runner) as other:
            assert (type(other), other.num_envs, other.seed) == (type(runner), runner.num_envs, runner.seed)
            found = [data_of(other.sample(num_timesteps=40, force_reset=True)), data_of(other.evaluate(2))]
        expected = [data_of(runner.sample(num_timesteps=40, force_reset=True)), data_of(runner.evaluate(2))]

    assert found == expected


def test_callbacks_belong_to_it():
    with RUNNERS["with settings"]() as runner, pickle.loads(pickle.dumps(runner)) as other:
        other.sample(num_episodes=2)
        (callback,) = other._callbacks

    assert callback.ends >= 2
    assert runner._callbacks[0].ends == 0


def test_a_ready_environment_cannot_be_pickled():
    with (
        SingleAgentEnvRunner(gym.make_vec("CartPole-v1", 2), seed=0) as runner,
        pytest.raises(EnvRunnerError, match=r"pickle: found a ready environment"),
    ):
        pickle.dumps(runner)
