"""Action masks that allow nothing, or are no masks, cost the episode of their environment and nothing else."""

import re
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from episodia.env_runners import MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.env_runners.envs.multi_agent_env import MultiAgentEnv
from episodia.env_runners.rollout.mask_reader import lanes_without_action
from episodia.errors import EnvError
from episodia.modules import MLPActorCritic

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
GOOD = np.array([1, 0, 1], np.int8)
LENGTH = 5


class Masked(gym.Env):
    """Allows the actions 0 and 2; the mask is bad in the third step of the second episode, where that has a given seed."""

    action_space = spaces.Discrete(3)

    def __init__(self, bad, *, where="infos", at_reset=True):
        self.bad, self.where, self.at_reset = bad, where, at_reset
        mask = {"board": BOX, "action_mask": spaces.MultiBinary(3)}
        self.observation_space = spaces.Dict(mask) if where == "observations" else BOX
        self._episode, self._is_bad = -1, False

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._is_bad = seed % 3 == 0
        self._t, self._episode = 0, self._episode + 1
        return self._seen(has_mask=self.at_reset)

    def _seen(self, *, has_mask=True):
        mask = self.bad if self._is_bad and (self._episode, self._t) == (1, 3) else GOOD
        board = np.full(2, self._t / LENGTH, np.float32)
        if self.where == "observations":
            return {"board": board, "action_mask": mask}, {}
        return board, {"action_mask": mask} if has_mask else {}

    def step(self, action):
        assert action != 1 or (self._t == 0 and not self.at_reset)
        self._t += 1
        observation, info = self._seen()
        return observation, 1.0, self._t == LENGTH, False, info


def seed_with_one_bad_lane(num_envs=3):
    """Return the seed of a runner in which one environment, not the first, has a seed that is divisible by three."""
    for seed in range(100):
        with SingleAgentEnvRunner("CartPole-v1", num_envs=num_envs, seed=seed) as runner:
            bad = [lane for lane, number in enumerate(runner._seeds.next_lanes(num_envs)) if number % 3 == 0]
        if len(bad) == 1 and bad[0] > 0:
            return seed, bad[0]
    raise AssertionError


SEED, BAD_LANE = seed_with_one_bad_lane()
NO_MASKS = {
    "zeros": (np.zeros(3, np.int8), "allows no action"),
    "another width": (np.ones(4, np.int8), r"action mask int8\[4\]"),
    "NaN": (np.full(3, np.nan), r"action mask float64\[3\]"),
    "text": ("abc", "action mask 'abc'"),
    "ragged": ([[1], [1, 2]], "action mask"),
}


def sampled(runner, calls=8):
    chunks, errors = [], []
    for _ in range(calls):
        try:
            chunks += runner.sample(num_timesteps=12)
        except EnvError as error:
            errors.append(str(error))
    return chunks, errors


@pytest.mark.parametrize("acting", ["module", "random"])
@pytest.mark.parametrize("name", NO_MASKS)
def test_a_bad_mask_costs_the_episode_of_its_environment(name, acting):
    bad, message = NO_MASKS[name]
    module = MLPActorCritic(BOX, Masked.action_space) if acting == "module" else None
    with SingleAgentEnvRunner(partial(Masked, bad), module, num_envs=3, seed=SEED) as runner:
        chunks, errors = sampled(runner)
        metrics = runner.get_metrics()

    assert len(errors) == 1
    assert f"environment {BAD_LANE}: " in errors[0]
    assert re.search(message, errors[0])
    assert metrics.num_episodes_dropped == 1
    for lane in range(3):
        starts = [chunk.t_started for chunk in chunks if chunk.id_.split("-")[1] == str(lane)]
        finished = [chunk.id_ for chunk in chunks if chunk.id_.split("-")[1] == str(lane) and chunk.is_done]
        assert len(finished) >= 4
        missing = {f"{SEED}-{lane}-{number}" for number in range(len(finished))} - set(finished)
        assert missing == ({f"{SEED}-{lane}-1"} if lane == BAD_LANE else set())
        assert starts
    assert all((chunk.get_extra_model_outputs("action_mask") == GOOD).all() for chunk in chunks)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_mask_in_observations_that_allows_nothing_costs_that_episode(vectorization):
    make = partial(Masked, np.zeros(3, np.int8), where="observations")
    with SingleAgentEnvRunner(make, num_envs=3, seed=SEED, vectorization=vectorization) as runner:
        chunks, errors = sampled(runner)

    assert [f"environment {BAD_LANE}: found an action mask" in error for error in errors] == [True]
    assert sum(chunk.is_done for chunk in chunks) >= 12


@pytest.mark.parametrize("goal", [{"num_timesteps": 12}, {"num_episodes": 3}])
@pytest.mark.parametrize("acting", ["module", "random"])
def test_masks_in_the_infos_of_steps_but_not_of_resets_are_completed(acting, goal):
    module = MLPActorCritic(BOX, Masked.action_space) if acting == "module" else None
    make = partial(Masked, GOOD, at_reset=False)
    with SingleAgentEnvRunner(make, module, num_envs=2, seed=0) as runner:
        chunks = [chunk for _ in range(4) for chunk in runner.sample(**goal)]
        metrics = runner.get_metrics()

    for chunk in chunks:
        masks = chunk.get_extra_model_outputs("action_mask")
        expected = [[1, 1, 1] if t == 0 else [1, 0, 1] for t in range(chunk.t_started, chunk.t)]
        assert np.asarray(masks).tolist() == expected
    # The first steps were played before a mask was seen.
    assert (metrics.num_episodes_dropped, metrics.num_env_steps_dropped) == (2, 2)


def test_none_is_no_mask_and_allows_everything():
    with SingleAgentEnvRunner(partial(Masked, None), num_envs=3, seed=SEED) as runner:
        chunks, errors = sampled(runner)

    assert not [error for error in errors if "mask" in error]
    rows = np.concatenate([chunk.get_extra_model_outputs("action_mask") for chunk in chunks])
    assert set(map(tuple, rows.tolist())) == {(1, 0, 1), (1, 1, 1)}


class MaskedAgents(MultiAgentEnv):
    possible_agents = ["a", "b"]  # noqa: RUF012  # as in the base

    def __init__(self):
        self._one = Masked(np.zeros(3, np.int8), where="observations")

    def get_observation_space(self, agent_id):
        return self._one.observation_space

    def get_action_space(self, agent_id):
        return self._one.action_space

    def reset(self, *, seed=None, options=None):
        seen, _ = self._one.reset(seed=0 if self._one._episode < 0 else None)
        return {"a": seen, "b": seen}, {}

    def step(self, actions):
        seen, reward, ended, _, _ = self._one.step(0)
        return {"a": seen, "b": seen}, dict.fromkeys(actions, reward), {"__all__": ended}, {"__all__": False}, {}


def test_a_mask_of_an_agent_that_allows_nothing_costs_that_episode():
    with MultiAgentEnvRunner(MaskedAgents, num_envs=1, seed=0) as runner:
        chunks, errors = sampled(runner)
        dropped = runner.get_metrics().num_episodes_dropped

    assert len(errors) == dropped == 1
    assert "environment 0: found an action mask that allows no action" in errors[0]
    assert sum(chunk.is_done for chunk in chunks) >= 12


def test_lanes_without_action_looks_into_nested_masks():
    space = spaces.Dict({"move": spaces.Discrete(2), "hands": spaces.Tuple([spaces.MultiDiscrete([2, 2]), BOX])})
    masks = {
        "move": np.array([[0, 0], [1, 0], [0, 1]]),
        "hands": (np.array([[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0]]), None),
    }

    assert lanes_without_action(space, masks, 3) == [0, 2]
