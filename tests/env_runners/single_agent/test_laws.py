"""The laws that runners obey: recorded equals hand-built, nothing is shared, the same seed plays the same."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import Columns, SingleAgentEpisode
from episodia.connectors import ConnectorV2, FlattenObservations
from episodia.env_runners import SingleAgentEnvRunner
from episodia.modules import LSTMActorCritic, MLPActorCritic
from episodia.testing import assert_same_episode
from scripted_envs import ScriptedEnv

TIMES = ("times",)


def cartpole(kind=MLPActorCritic):
    env = gym.make("CartPole-v1")
    return kind(env.observation_space, env.action_space, generator=torch.Generator().manual_seed(2))


def played(**kwargs):
    settings_ = {"num_envs": 3, "seed": 7, "module": cartpole(), **kwargs}
    with SingleAgentEnvRunner("CartPole-v1", **settings_) as runner:
        parts = [runner.sample(num_timesteps=40), runner.sample(num_timesteps=40, random_actions=True)]
        return [chunk for part in [*parts, runner.sample(num_episodes=3)] for chunk in part]


def assert_same(left, right):
    assert [episode.id_ for episode in left] == [episode.id_ for episode in right]
    for mine, other in zip(left, right, strict=True):
        assert_same_episode(mine, other, ignore=TIMES)


class Idle(ConnectorV2):
    """Does nothing."""

    reads = writes = frozenset()
    lookback = 0

    def __call__(self, *, batch, **kwargs):
        return batch


# --- Law 4 ------------------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 30))
def test_what_is_recorded_equals_what_is_built_by_hand(seed, num_envs, steps):
    with SingleAgentEnvRunner(partial(ScriptedEnv, 6, infos=True), num_envs=num_envs, seed=seed) as runner:
        chunks = list(runner.sample(num_timesteps=steps))
        lane_seeds = type(runner._seeds)(seed).next_lanes(num_envs)

    assert sum(map(len, chunks)) >= steps
    for chunk in chunks:
        lane, number = map(int, chunk.id_.split("-")[1:])
        assert_same_episode(chunk, built_by_hand(chunk, lane_seeds[lane], number), ignore=TIMES)


def built_by_hand(chunk, lane_seed, number):
    env = ScriptedEnv(6, infos=True)
    episode = SingleAgentEpisode(chunk.id_, observation_space=env.observation_space, action_space=env.action_space)
    episode.weights_version = 0
    observation, info = env.reset(seed=lane_seed)
    for _ in range(number):
        observation, info = env.reset()
    episode.add_env_reset(observation, info)
    for action in chunk.get_actions():
        observation, reward, terminated, truncated, info = env.step(action)
        episode.add_env_step(observation, action, reward, info, terminated=terminated, truncated=truncated)
    return episode.finalize()


# --- Law 8 ------------------------------------------------------------------------------------------------------------


def test_nothing_that_a_caller_does_to_an_episode_reaches_the_runner_or_other_episodes():
    expected = played()
    with SingleAgentEnvRunner("CartPole-v1", cartpole(), num_envs=3, seed=7) as runner:
        first = list(runner.sample(num_timesteps=40))
        for chunk in first:
            chunk.set_observations(new_data=np.zeros_like(chunk.get_observations()))
            chunk.set_rewards(new_data=np.full(len(chunk), -5.0))
        second = list(runner.sample(num_timesteps=40, random_actions=True))

    assert_same(second, expected[len(first) : len(first) + len(second)])


def test_arrays_of_episodes_are_read_only():
    for episode in played()[:3]:
        for array in (episode.get_observations(), episode.get_actions(), episode.get_rewards()):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


class Vandal(ScriptedEnv):
    """Changes the action that it was given, and its observations after it has returned them."""

    def __init__(self, longest):
        super().__init__(longest)
        self.action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self._given = None

    def reset(self, **kwargs):
        self._given, info = super().reset(**kwargs)
        return self._given, info

    def step(self, action):
        if self._given is not None:
            self._given[:] = -1
        action[:] = 77
        self._given, *rest = super().step(0)
        return self._given, *rest


def test_a3_an_environment_that_changes_actions_and_observations_does_not_change_what_is_recorded():
    with SingleAgentEnvRunner(partial(Vandal, 4), num_envs=2, seed=0) as runner:
        chunks = runner.sample(num_timesteps=30)

    for chunk in chunks:
        assert np.abs(chunk.get_actions()).max() <= 1
        assert chunk.get_observations()[:, 2].tolist() == list(range(chunk.t_started, chunk.t + 1))


# --- Law 9 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
def test_d1_the_same_seed_plays_the_same_episodes(kind):
    assert_same(played(module=cartpole(kind)), played(module=cartpole(kind)))


def test_another_seed_plays_other_episodes():
    left, right = played(), played(seed=8)

    assert not np.array_equal(left[0].get_observations(0), right[0].get_observations(0))
    assert {episode.id_ for episode in left}.isdisjoint(episode.id_ for episode in right)


def test_d1_asynchronous_environments_play_the_same_as_synchronous_ones():
    assert_same(played(vectorization="async"), played())


class Steps(gym.Env):
    """Observes a list of random numbers, which has no place in shared memory."""

    observation_space = spaces.Sequence(spaces.Box(0.0, 1.0, (), np.float64))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = ()
        return self.seen, {}

    def step(self, action):
        self.seen = (*self.seen, self.np_random.random((), np.float64))
        return self.seen, 1.0, bool(self.np_random.random() < 0.3), False, {}


def test_asynchronous_environments_without_shared_memory_play_the_same_after_resets_too():
    def played_with(vectorization):
        with SingleAgentEnvRunner(Steps, num_envs=2, seed=3, vectorization=vectorization) as runner:
            return [chunk for _ in range(6) for chunk in runner.sample(num_timesteps=5, force_reset=True)]

    assert_same(played_with("async"), played_with("sync"))


@pytest.mark.parametrize("num_envs", [1, 2])
def test_where_samples_are_cut_does_not_change_what_is_played(num_envs):
    env = gym.make("CartPole-v1")
    module = MLPActorCritic(env.observation_space, env.action_space)
    played = []
    for steps in (120, 1):
        with SingleAgentEnvRunner("CartPole-v1", module, num_envs=num_envs, seed=5) as runner:
            chunks = [chunk for _ in range(120 // steps) for chunk in runner.sample(num_timesteps=steps * num_envs)]
        by_id = {}
        for chunk in chunks:
            by_id.setdefault(chunk.id_, []).extend(chunk.get_actions().tolist())
        played.append(by_id)

    whole, parts = played
    assert all(
        parts[id_][: len(actions)] == actions[: len(parts[id_])] for id_, actions in whole.items() if id_ in parts
    )
    assert len(parts) > 2 * num_envs


def test_evaluations_one_after_another_are_those_of_synchronous_environments():
    def played_with(vectorization):
        with SingleAgentEnvRunner(Steps, num_envs=2, seed=3, vectorization=vectorization) as runner:
            return [episode for _ in range(3) for episode in runner.evaluate(num_episodes=3)]

    assert_same(played_with("async"), played_with("sync"))


def test_no_global_generator_is_touched():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    state = np.random.get_state()[1].copy()  # noqa: NPY002  # that one is meant

    played()

    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_runners_without_a_seed_play_different_episodes_that_can_be_played_again():
    left, right = (SingleAgentEnvRunner("CartPole-v1", num_envs=2) for _ in range(2))
    with left, right, SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=left.seed) as again:
        samples = [runner.sample(num_timesteps=20) for runner in (left, right, again)]

    assert left.seed != right.seed
    assert_same(samples[0], samples[2])


# --- Pipelines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("explore", [True, False])
@pytest.mark.parametrize("kind", [MLPActorCritic, LSTMActorCritic])
def test_pieces_that_change_nothing_change_no_episode(env, explore, kind):
    made = gym.make(env)
    module = kind(made.observation_space, made.action_space, generator=torch.Generator().manual_seed(2))
    samples = []
    for pieces in ((), (FlattenObservations(),)):
        with SingleAgentEnvRunner(env, module, num_envs=3, seed=1, env_to_module=pieces) as runner:
            if pieces:
                runner.module_to_env.append(Idle())
            samples.append([*runner.sample(num_timesteps=60, explore=explore), *runner.sample(num_episodes=2)])

    assert_same(*samples)


def test_a_pipeline_that_is_edited_while_running_is_run_as_it_is_then():
    class Zero(ConnectorV2):
        reads, writes, lookback = frozenset({Columns.OBS}), frozenset({Columns.OBS}), 0

        def __call__(self, *, batch, **kwargs):
            batch[Columns.OBS] = batch[Columns.OBS] * 0
            return batch

    with SingleAgentEnvRunner("CartPole-v1", cartpole(), num_envs=2, seed=0) as runner:
        runner.sample(num_timesteps=4)
        runner.env_to_module.append(Zero())
        runner.sample(num_timesteps=2)
        chunk = runner.sample(num_timesteps=6)[-1]

    inputs = chunk.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS)
    assert (inputs == inputs[0]).all()
