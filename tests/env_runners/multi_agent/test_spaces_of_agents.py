"""Environments tell the spaces of their agents in RLlib's ways: dicts, `Dict` spaces, or one space for all."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnv, MultiAgentEnvRunner
from episodia.errors import EnvError
from episodia.modules import MLPActorCritic

BOX, ACTIONS = spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2)


class Plain(MultiAgentEnv):
    possible_agents = agents = ("a", "b")

    def reset(self, *, seed=None, options=None):
        self.left = 3
        return self.seen(), {}

    def step(self, actions):
        self.left -= 1
        return self.seen(), dict.fromkeys(actions, 1.0), {"__all__": self.left == 0}, {"__all__": False}, {}

    def seen(self):
        return {agent: np.zeros(2, np.float32) for agent in self.agents}


class Joint(Plain):
    observation_space = spaces.Dict({"a": BOX, "b": BOX})
    action_space = spaces.Dict({"a": ACTIONS, "b": ACTIONS})


class OfInstance(Plain):
    def __init__(self):
        self.observation_space = {"a": BOX, "b": BOX}
        self.action_space = spaces.Dict({"a": ACTIONS, "b": ACTIONS})


class Shared(Plain):
    observation_space, action_space = BOX, ACTIONS


class Both(Joint):
    observation_spaces = {"a": BOX, "b": BOX}  # noqa: RUF012  # as users write it


@pytest.mark.parametrize("kind", [Joint, OfInstance, Shared, Both])
@pytest.mark.parametrize("num_envs", [1, 2])
def test_spaces_are_told_in_any_of_these_ways(kind, num_envs):
    assert (kind().get_observation_space("a"), kind().get_action_space("b")) == (BOX, ACTIONS)
    with MultiAgentEnvRunner(kind, MLPActorCritic(BOX, ACTIONS), num_envs=num_envs, seed=0) as runner:
        games = runner.sample(num_episodes=2)

    assert [game.agent_steps() for game in games] == [6, 6]
    assert games[0].agent_episodes["a"].observation_space == BOX


class Half(Plain):
    observation_space = spaces.Dict({"a": BOX})
    action_space = ACTIONS


@pytest.mark.parametrize(("kind", "found"), [(Plain, "no such dict"), (Half, r"only \['a'\]")])
def test_a_space_that_is_missing_is_named(kind, found):
    with pytest.raises(EnvError, match=rf"{kind.__name__}: found {found} with the observation space of the agent"):
        MultiAgentEnvRunner(kind, MLPActorCritic(BOX, ACTIONS))
