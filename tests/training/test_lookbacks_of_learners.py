"""Runners keep the steps that only a learner looks back to, when they are told."""

import gymnasium as gym
import numpy as np
import pytest

from episodia import Columns, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.connectors import AddViews, View
from episodia.errors import ConnectorError, EnvRunnerError
from episodia.learners import Learner, PPOConfig
from episodia.learners.default_learner_pipeline import default_pipeline
from episodia.modules import MLPActorCritic
from episodia.training import Recipe, Training, train
from scripted_agents import ScriptedEnv

ENV = gym.make("CartPole-v1")
SPACES = ENV.observation_space, ENV.action_space
LAST_FIVE = {"seen": View(Columns.OBS, shift=range(-5, 0), infer=False)}


def runner_of(**kwargs):
    return SingleAgentEnvRunner("CartPole-v1", MLPActorCritic(*SPACES), num_envs=2, seed=3, **kwargs)


def learner_with_views():
    pipeline = default_pipeline(PPOConfig(), *SPACES, custom=[AddViews(LAST_FIVE)])
    return Learner(MLPActorCritic(*SPACES), PPOConfig(), learner_pipeline=pipeline)


def test_a_learner_that_looks_back_further_than_the_runner_says_what_to_call():
    learner, runner = learner_with_views(), runner_of()

    learner.update(runner.sample(num_timesteps=10))
    with pytest.raises(ConnectorError, match=r"call `runner\.require_lookback\(learner\.pipeline\.lookback\)`"):
        learner.update(runner.sample(num_timesteps=10))


def test_a_runner_that_was_told_keeps_what_the_learner_needs():
    learner, runner = learner_with_views(), runner_of()
    runner.require_lookback(learner.pipeline.lookback)

    assert runner.lookback == 5
    for _ in range(3):
        assert learner.update(runner.sample(num_timesteps=20))


def test_a_training_tells_its_runner():
    with Training(runner_of(), learner_with_views(), Recipe(num_envs=2, num_timesteps=20)) as training:
        training.run(steps=60)

        assert training.runner.lookback == 5
        assert training.steps >= 60


def test_a_training_tells_its_runner_of_views_that_are_added_later():
    module = MLPActorCritic(*SPACES)
    runner = SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=3)
    with Training(runner, Learner(module, PPOConfig()), Recipe(num_envs=2, num_timesteps=20)) as training:
        training.run(steps=20)
        module.views["seen"] = View(Columns.OBS, shift=range(-5, 0), infer=False)
        training.run(steps=80)

        assert training.runner.lookback == 5
        assert training.steps >= 80


def test_telling_the_runner_is_the_same_as_its_setting():
    told, made = runner_of(), runner_of(lookback=5)
    told.require_lookback(5)

    for _ in range(2):
        pairs = zip(told.sample(num_timesteps=20), made.sample(num_timesteps=20), strict=True)
        for first, second in pairs:
            np.testing.assert_array_equal(first.get_observations(), second.get_observations())
            assert first.observations.lookback == second.observations.lookback


def test_a_runner_that_is_told_later_begins_new_episodes():
    runner = runner_of()
    before = {episode.id_ for episode in runner.sample(num_timesteps=20) if not episode.is_done}
    runner.require_lookback(5)
    after = runner.sample(num_timesteps=20)

    assert before.isdisjoint(episode.id_ for episode in after)
    assert all(episode.t_started == 0 for episode in after)


def test_less_than_before_changes_nothing():
    runner = runner_of(lookback=3)
    runner.sample(num_timesteps=20)
    runner.require_lookback(2)

    assert runner.lookback == 3
    assert any(episode.t_started for episode in runner.sample(num_timesteps=20))


def test_agents_of_a_runner_that_was_told_keep_the_steps_too():
    runner = MultiAgentEnvRunner(lambda: ScriptedEnv(kind="simultaneous", longest=200), None, num_envs=1, seed=5)
    runner.require_lookback(4)
    runner.sample(num_timesteps=6)
    later = [episode for episode in runner.sample(num_timesteps=6) if episode.env_t_started]

    assert later
    assert {agent.rewards.lookback for agent in later[0].agent_episodes.values()} == {4}


@pytest.mark.parametrize("steps", [-1, 1.5, "2", True])
def test_the_number_of_steps_is_checked(steps):
    with pytest.raises(EnvRunnerError, match="steps"):
        runner_of().require_lookback(steps)


# --- Views of modules -------------------------------------------------------------------------------------------------


def test_views_can_be_added_to_a_network_that_was_made_without():
    module, other = MLPActorCritic(*SPACES), MLPActorCritic(*SPACES)
    module.views["seen"] = View(Columns.OBS, shift=range(-5, 0))

    runner = SingleAgentEnvRunner("CartPole-v1", module, num_envs=1)
    assert runner.lookback == 5
    assert default_pipeline(PPOConfig(), *SPACES, module=module).lookback == 5
    assert other.views == {}


def test_views_that_a_subclass_declares_are_its_own():
    class Seeing(MLPActorCritic):
        views = LAST_FIVE

    module = Seeing(*SPACES)
    module.views["again"] = View(Columns.OBS, shift=-1)

    assert list(module.views) == ["seen", "again"]
    assert list(Seeing.views) == ["seen"]


@pytest.mark.parametrize("side", ["runner", "learner"])
def test_a_view_of_one_network_of_train_is_a_view_of_both(side):
    with train("ppo", "CartPole-v1", steps=20, num_timesteps=20, progress=False) as training:
        modules = training.runner.modules if side == "runner" else training.learner.modules
        modules["default_policy"].views["seen"] = View(Columns.OBS, shift=range(-5, 0), infer=False)
        training.run(steps=60)

        batch = training.learner.batch_of(training.runner.sample(num_timesteps=20))["default_policy"]
        assert batch["seen"].shape[1:] == (5, 4)
