"""Every action space and every kind of observation goes all the way: acted in, learned from, saved, and acted in again."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from action_spaces import ACTION_SPACES
from episodia.policies import Policy
from episodia.training import Setup, Training, save_training

ACTIONS = {name: space for name, space in ACTION_SPACES.items() if name != "box without elements"}
OBSERVATIONS = {
    "numbers": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "an image": spaces.Box(0, 255, (16, 16, 3), np.uint8),
    "a class": spaces.Discrete(4, start=-1),
    "nested": spaces.Dict(
        view=spaces.Box(0, 255, (16, 16, 1), np.uint8),
        rest=spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([3, 2])]),
    ),
}


def fits(space, action):
    """Tell whether `action` is in `space`; gymnasium warns of the scalars that it makes itself of arrays without axes."""
    return space.contains(np.asarray(action) if isinstance(space, spaces.Box) else action)


class Anything(gym.Env):
    """Shows and takes anything of its spaces, for five steps; what is not in its action space is an error."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert fits(self.action_space, action), action
        self.t += 1
        return self.observation_space.sample(), float(self.np_random.normal()), self.t == 5, False, {}


def check_whole_way(observations, actions, tmp_path, algorithm="ppo", **options):
    amount = {"num_episodes": 4} if algorithm == "reinforce" else {"num_timesteps": 20}
    setup = Setup.of(
        algorithm,
        lambda: Anything(observations, actions),
        **{"num_envs": 2, "num_epochs": 1, "hidden": (8,), **amount, **options},
    )
    with Training.of(setup) as training:
        before = training.learner.get_weights()["default_policy"]
        records = [training.step() for _ in range(2)]
        after = training.learner.get_weights()["default_policy"]
        save_training(tmp_path / "saved", training)
        trained = training.policy()

    assert all(torch.isfinite(weight).all() for weight in after.values())
    assert any(not torch.equal(weight, after[name]) for name, weight in before.items())
    assert [record["num_skipped"] for record in records] == [0, 0]
    if algorithm == "ppo":
        # The policy that is updated is the one that has acted.
        assert [record["kl"] for record in records] == pytest.approx([0.0, 0.0], abs=1e-6)
    loaded = Policy.load(tmp_path / "saved")
    for _ in range(3):
        observation = observations.sample()
        action = loaded(observation)
        assert fits(actions, action)
        assert repr(action) == repr(trained(observation))


@pytest.mark.parametrize("name", ACTIONS)
def test_actions(name, tmp_path):
    check_whole_way(OBSERVATIONS["numbers"], ACTIONS[name], tmp_path)


@pytest.mark.parametrize("name", ["discrete from -2", "multi-discrete matrix", "box", "deep"])
def test_actions_of_networks_with_a_memory(name, tmp_path):
    check_whole_way(OBSERVATIONS["numbers"], ACTIONS[name], tmp_path, recurrent="gru")


@pytest.mark.parametrize("options", [{}, {"shared": True}, {"recurrent": "lstm", "shared": True}], ids=str)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations(name, options, tmp_path):
    check_whole_way(OBSERVATIONS[name], ACTIONS["discrete"], tmp_path, **options)


@pytest.mark.parametrize("name", ["box", "box matrix float64"])
def test_squashed_actions(name, tmp_path):
    check_whole_way(OBSERVATIONS["numbers"], ACTIONS[name], tmp_path, squashed=True)


@pytest.mark.parametrize("recurrent", [None, "lstm"])
@pytest.mark.parametrize("algorithm", ["a2c", "reinforce"])
def test_other_algorithms(algorithm, recurrent, tmp_path):
    check_whole_way(OBSERVATIONS["nested"], ACTIONS["deep"], tmp_path, algorithm=algorithm, recurrent=recurrent)
