"""Attributes and methods of the environments of a runner: the same for one process and for several."""

import gymnasium as gym
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvRunnerError


class Lamp(gym.Env):
    """Has a colour, and names that the wrappers around it have, too; it breaks when it is told to."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)
    lane, colour, is_broken = "middle", "red", False

    def mixed(self, other, *, sign="+"):
        return f"{self.colour}{sign}{other}"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        if self.is_broken:
            raise RuntimeError("no light")
        return 1, 0.0, False, False, {}


def seen(env):
    """Return what the calls of a vector environment return, one after another."""
    found = [env.get_attr("colour"), env.get_attr("lane"), env.call("mixed", "blue", sign="-"), env.call("colour")]
    env.set_attr("colour", "green")
    found += [env.get_attr("colour")]
    env.set_attr("colour", ["white", "black"])
    env.set_attr("lane", ("left", "right"))
    return [*found, env.get_attr("colour"), env.get_attr("lane"), env.call("mixed", "blue")]


EXPECTED = [
    ("red", "red"),
    ("middle", "middle"),
    ("red-blue", "red-blue"),
    ("red", "red"),
    ("green", "green"),
    ("white", "black"),
    ("left", "right"),
    ("white+blue", "black+blue"),
]


@pytest.mark.parametrize("settings", [{}, {"horizon": 3}], ids=str)
def test_attributes_are_read_called_and_set_as_in_gymnasium(settings):
    ready = SyncVectorEnv([Lamp, Lamp])
    with SingleAgentEnvRunner(Lamp, num_envs=2, seed=0, **settings) as runner:
        runner.sample(num_timesteps=4)

        assert seen(runner.env) == EXPECTED
        assert runner.sample(num_timesteps=4).lengths.sum() == 4
    assert seen(ready) == EXPECTED
    ready.close()


def test_what_was_set_is_lost_with_the_environment():
    with SingleAgentEnvRunner(Lamp, num_envs=2, seed=0) as runner:
        runner.env.set_attr("colour", "green")
        runner.env.set_attr("is_broken", [False, True])
        runner.sample(num_timesteps=4)

        assert runner.env.get_attr("colour") == ("green", "red")
        assert runner.env.get_attr("is_broken") == (False, False)


@pytest.mark.parametrize("values", [[], ["green"], ("a", "b", "c")], ids=str)
def test_another_number_of_values_is_rejected_and_nothing_is_set(values):
    with SingleAgentEnvRunner(Lamp, num_envs=2) as runner:
        with pytest.raises(EnvRunnerError, match=f"found {len(values)} values for 'colour', expected 2"):
            runner.env.set_attr("colour", values)

        assert runner.env.get_attr("colour") == ("red", "red")


def test_an_attribute_that_is_not_there_is_an_attribute_error():
    with SingleAgentEnvRunner(Lamp, num_envs=2) as runner, pytest.raises(AttributeError, match="flavour"):
        runner.env.get_attr("flavour")
