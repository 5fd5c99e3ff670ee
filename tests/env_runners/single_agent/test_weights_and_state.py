"""Weights and their versions, evaluation beside the training, saving and going on."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.connectors import MeanStdFilter, check_state
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvRunnerError
from episodia.modules import MLPActorCritic
from episodia.testing import assert_same_episode


def cartpole(kind=MLPActorCritic, seed=2):
    env = gym.make("CartPole-v1")
    return kind(env.observation_space, env.action_space, generator=torch.Generator().manual_seed(seed))


def runner_for(module=None, **kwargs):
    return SingleAgentEnvRunner("CartPole-v1", module, **{"num_envs": 3, "seed": 7, **kwargs})


def assert_same(left, right):
    assert [episode.id_ for episode in left] == [episode.id_ for episode in right]
    for mine, other in zip(left, right, strict=True):
        assert_same_episode(mine, other, ignore=("times",))


# --- Weights and versions ---------------------------------------------------------------------------------------------


def pendulum():
    env = gym.make("Pendulum-v1")
    return MLPActorCritic(env.observation_space, env.action_space, generator=torch.Generator().manual_seed(0))


def test_every_step_carries_the_version_of_the_weights():
    other = {name: value.clone() for name, value in cartpole(seed=9).state_dict().items()}
    with SingleAgentEnvRunner("Pendulum-v1", pendulum(), num_envs=1, seed=0) as runner:
        first = runner.sample(num_timesteps=3)[0]
        runner.set_weights(runner.module.state_dict())
        second = runner.sample(num_timesteps=3)[0]
        runner.set_weights(runner.module.state_dict(), version=17)
        third = runner.sample(num_timesteps=3)[0]
        with pytest.raises(EnvRunnerError, match="do not fit"):
            runner.set_weights(other)

    assert [chunk.weights_version for chunk in (first, second, third)] == [0, 1, 17]


def test_other_weights_act_from_the_next_step_on():
    weights = cartpole(seed=5).state_dict()
    with runner_for(cartpole()) as changed, runner_for(cartpole(seed=5)) as fresh:
        changed.set_weights({name: value.numpy() for name, value in weights.items()})

        assert_same_but_versions(changed.sample(num_timesteps=30), fresh.sample(num_timesteps=30))


def assert_same_but_versions(left, right):
    for mine, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(mine.get_observations(), other.get_observations())


# --- Evaluation -------------------------------------------------------------------------------------------------------


def test_evaluation_touches_nothing_of_the_training():
    def trained(evaluate):
        with runner_for(cartpole(), env_to_module=[MeanStdFilter()]) as runner:
            chunks = []
            for _ in range(4):
                chunks += runner.sample(num_timesteps=20)
                if evaluate:
                    assert len(runner.evaluate(num_episodes=4)) == 4
            state = runner.get_state()
        return chunks, state

    with_evaluation, left = trained(True)
    without, right = trained(False)
    assert_same(with_evaluation, without)
    for key in ("env_to_module", "generator", "rng", "episode_numbers", "num_resets"):
        assert str(left[key]) == str(right[key])


def test_evaluations_can_be_repeated_and_differ_by_default():
    with runner_for(cartpole()) as runner:
        first, second = runner.evaluate(3, seed=5), runner.evaluate(3, seed=5)
        third, fourth = runner.evaluate(3), runner.evaluate(3)

    assert_same(first, second)
    assert not np.array_equal(third[0].get_observations(0), fourth[0].get_observations(0))


def test_a_ready_vector_environment_is_not_evaluated_in():
    env = gym.make_vec("CartPole-v1", num_envs=2)

    with SingleAgentEnvRunner(env, cartpole()) as runner, pytest.raises(EnvRunnerError, match="a second time"):
        runner.evaluate(1)


# --- State ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manner", [{}, {"random_actions": True}])
def test_a_runner_that_is_restored_plays_what_the_other_one_plays(manner):
    with runner_for(cartpole(), env_to_module=[MeanStdFilter()]) as runner:
        runner.sample(num_timesteps=40, **manner)
        runner.set_weights(runner.module.state_dict(), version=3)
        state = runner.get_state()
        expected = [*runner.sample(num_timesteps=40, force_reset=True, **manner), *runner.sample(num_timesteps=20)]
    with runner_for(cartpole(seed=8), env_to_module=[MeanStdFilter()], seed=99) as other:
        other.set_state(state)
        found = [*other.sample(num_timesteps=40, **manner), *other.sample(num_timesteps=20)]

    assert_same(found, expected)


def test_a_state_is_made_of_plain_values():
    with runner_for(cartpole(), env_to_module=[MeanStdFilter()]) as runner:
        runner.sample(num_timesteps=10)
        state = runner.get_state()

    check_state(state)
    json.dumps(state, default=np.ndarray.tolist)


def test_a_state_that_does_not_fit_changes_nothing():
    with runner_for(cartpole()) as runner:
        runner.sample(num_timesteps=10)
        before = runner.get_state()
        for broken in ({}, {**before, "episode_numbers": [1]}, {**before, "weights": {}}, {**before, "rng": {}}):
            with pytest.raises(EnvRunnerError, match="found a state"):
                runner.set_state(broken)

        assert str(runner.get_state()) == str(before)
