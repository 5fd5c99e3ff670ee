"""A training runs with a group of runners as with one runner."""

import gymnasium as gym
import pytest
import torch

from episodia import SingleAgentEnvRunner
from episodia.connectors import EpsilonGreedy, MeanStdFilter
from episodia.dataflow import RunnerGroup, ThreadEngine
from episodia.dataflow.seats import seed_of
from episodia.learners import Learner, PPOConfig
from episodia.learners.default_learner_pipeline import default_pipeline
from episodia.modules import MLPActorCritic
from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import Training
from episodia.training.recipes.recipe import Recipe

SPACES = gym.make("CartPole-v1")


def new_module():
    generator = torch.Generator().manual_seed(0)
    return MLPActorCritic(SPACES.observation_space, SPACES.action_space, generator=generator)


def make_runner(seed, **settings):
    return SingleAgentEnvRunner(
        "CartPole-v1", new_module(), num_envs=2, seed=seed, env_to_module=[MeanStdFilter()], **settings
    )


def new_training(runner):
    pipeline = default_pipeline(PPOConfig(), custom=[MeanStdFilter()])
    learner = Learner(new_module(), PPOConfig(), seed=0, learner_pipeline=pipeline)
    return Training(runner, learner, Recipe(num_timesteps=64, num_epochs=2, minibatch_size=32))


def records(training, updates):
    found = [training.step() for _ in range(updates)]
    return [
        {name: value for name, value in record.items() if not name.startswith(("time", "steps_per", "runners/"))}
        for record in found
    ]


def test_a_training_with_a_group_of_one_is_the_training_with_its_runner():
    with new_training(RunnerGroup(make_runner, 1, seed=3)) as group, new_training(make_runner(seed_of(3, 0, 0))) as one:
        for found, expected in zip(records(group, 3), records(one, 3), strict=True):
            assert found == pytest.approx(expected, rel=1e-4, nan_ok=True)


def test_a_training_with_a_group_goes_on_from_its_state():
    with new_training(RunnerGroup(make_runner, 2)) as first, new_training(RunnerGroup(make_runner, 2)) as second:
        first.step()
        second.set_state(first.get_state())

        for found, expected in zip(records(second, 2), records(first, 2), strict=True):
            assert found == pytest.approx(expected, rel=1e-4, nan_ok=True)


def test_a_training_with_threads_has_a_policy_and_evaluates():
    with ThreadEngine() as engine, new_training(RunnerGroup(make_runner, 2, engine=engine)) as training:
        training.step()

        assert len(training.evaluate(3)) == 3
        assert training.policy()(SPACES.observation_space.sample()) in (0, 1)


def test_schedules_of_exploration_reach_all_runners():
    falling = PiecewiseLinearSchedule([(0, 1.0), (1000, 0.0)])
    group = RunnerGroup(lambda seed: make_runner(seed, module_to_env=[EpsilonGreedy(epsilon=falling)]), 2)
    with new_training(group) as training:
        steps = [training.step()["steps"] for _ in range(2)]
        found = group.foreach_runner(lambda runner: runner.module_to_env["EpsilonGreedy"].steps)

    assert all(clock >= steps[0] for clock in found)
