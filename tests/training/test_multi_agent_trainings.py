"""Trainings of several agents: what they save acts as their runner does, and they go on as if they had never stopped."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from episodia.checkpoints import load_state
from episodia.connectors import MeanStdFilter
from episodia.env_runners import MultiAgentEnvRunner
from episodia.errors import CheckpointError, PolicyError, TrainingError
from episodia.learners import Learner, PPOConfig, default_pipeline
from episodia.modules import MultiModule, RuleModule, default_module
from episodia.policies import MultiAgentPolicy, Policy
from episodia.training import Recipe, Training, load_training, save_training
from examples import example

RECIPE = Recipe(num_envs=2, num_timesteps=40, num_epochs=2)
CONFIG = PPOConfig(learning_rate=0.02)


def network(env, agent, **options):
    spaces = env.observation_spaces[agent], env.action_spaces[agent]
    return default_module(*spaces, hidden=(8,), generator=torch.Generator().manual_seed(len(agent)), **options)


def two_networks():
    env = example("two_networks").Doors
    return env, lambda: MultiModule({role: network(env, role) for role in env.agents})


def with_a_memory():
    env = example("two_networks").Doors
    return env, lambda: {"speaker": network(env, "speaker"), "listener": network(env, "listener", recurrent="gru")}


def one_network():
    env = example("multi_agent_ppo").Meeting
    return env, lambda: {"both": network(env, "left")}


def a_rule():
    game = example("rule_based_opponent")
    env, rule = game.RockPaperScissors, RuleModule(game.beat_the_last)
    return env, lambda: {"player": network(env, "player"), "opponent": rule}


SETUPS = {"two networks": two_networks, "with a memory": with_a_memory, "one network": one_network, "a rule": a_rule}


def training_of(env, make_modules, **options):
    """Return a training with networks of its own for the runner and for the learner."""
    runner = MultiAgentEnvRunner(env, make_modules(), num_envs=2, seed=0, **options)
    return Training(runner, Learner(make_modules(), CONFIG, seed=0), RECIPE)


def assert_acts_as_in(policy, game):
    """Check that a policy does, observation by observation, what was done in a game."""
    policy.reset()
    for t in range(len(game)):
        found = policy(game.get_observations(t))
        assert found == game.get_actions(t), t


@pytest.mark.parametrize("name", SETUPS)
def test_what_was_saved_acts_as_the_runner_does(name, tmp_path):
    env, make_modules = SETUPS[name]()
    given = {"modules": {"opponent": make_modules()["opponent"]}} if name == "a rule" else {}
    with training_of(env, make_modules) as training:
        training.run(steps=200)
        save_training(tmp_path / "run" / "checkpoint", training)
        games = training.runner.evaluate(5)
        policies = [training.policy(), MultiAgentPolicy.load(tmp_path / "run", **given)]

    for policy in policies:
        for game in games:
            assert_acts_as_in(policy, game)


def test_a_rule_that_was_not_saved_is_asked_for_when_it_is_needed(tmp_path):
    with training_of(*a_rule()) as training:
        training.step()
        save_training(tmp_path / "saved", training)
    policy = MultiAgentPolicy.load(tmp_path / "saved")
    start = np.array([3, 3])

    assert policy({"player": start})["player"] in range(3)
    with pytest.raises(PolicyError, match=r"no module 'opponent'.*`modules=\{'opponent'"):
        policy({"player": start, "opponent": start})


def test_the_policy_of_one_agent_is_not_looked_for_in_vain(tmp_path):
    with training_of(*one_network()) as training:
        save_training(tmp_path / "saved", training)

    with pytest.raises(CheckpointError, match=r"Load it with `MultiAgentPolicy\.load`"):
        Policy.load(tmp_path / "saved")
    with pytest.raises(TrainingError, match=r"`training\.set_state\(load_state\(path\)\)`"):
        load_training(tmp_path / "saved")


@pytest.mark.parametrize("name", SETUPS)
def test_a_training_with_the_state_of_another_goes_on_as_that_one_does(name, tmp_path):
    env, make_modules = SETUPS[name]()
    with training_of(env, make_modules) as first, training_of(env, make_modules) as second:
        first.run(steps=80)
        save_training(tmp_path / "saved", first)
        second.set_state(load_state(tmp_path / "saved"))
        done = len(first.history)
        for training in (first, second):
            training.run(steps=200)

        records = [without_times(first.history[done:]), without_times(second.history)]
        assert records[0] == records[1]
        assert len(records[0]) > 1
        weights = [flat(training.learner.get_weights()) for training in (first, second)]
        assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


@pytest.mark.parametrize("name", SETUPS)
def test_a_training_counts_what_its_runner_counts(name):
    env, make_modules = SETUPS[name]()
    taken = {}
    for unit in ("env_steps", "agent_steps"):
        counts = taken[unit] = {"env_steps": 0, "agent_steps": 0}

        def count(samples, counts=counts, **_):
            counts["env_steps"] += sum(map(len, samples))
            counts["agent_steps"] += sum(len(own) for game in samples for own in game.agent_episodes.values())

        with training_of(env, make_modules, count_steps_by=unit, callbacks=[{"on_sample_end": count}]) as training:
            training.run(steps=100)

        assert training.steps == training.history[-1]["steps"] == counts[unit] >= 100
        assert counts[unit] - 100 < RECIPE.num_timesteps + 10
    if taken["env_steps"]["agent_steps"] > taken["env_steps"]["env_steps"]:
        assert taken["agent_steps"]["env_steps"] < taken["env_steps"]["env_steps"]


def test_losses_stand_under_the_names_of_their_modules():
    with training_of(*two_networks()) as training:
        record = training.step()

    assert {"speaker/policy_loss", "listener/policy_loss"} <= record.keys()


def test_statistics_of_the_runner_reach_the_learner_and_the_policy(tmp_path):
    env, make_modules = one_network()
    runner = MultiAgentEnvRunner(
        env, make_modules(), num_envs=2, seed=0, env_to_module=[MeanStdFilter(multi_agent=True)]
    )
    module = make_modules()
    pipeline = default_pipeline(CONFIG, custom=[MeanStdFilter(multi_agent=True)], module=module)
    with Training(runner, Learner(module, CONFIG, learner_pipeline=pipeline, seed=0), RECIPE) as training:
        training.run(steps=120)
        save_training(tmp_path / "saved", training)
        games = runner.evaluate(5)

    for game in games:
        assert_acts_as_in(MultiAgentPolicy.load(tmp_path / "saved"), game)
    acting, learning = runner.env_to_module["MeanStdFilter"], pipeline["MeanStdFilter"]
    # What was learned from last was acted on before its own observations counted.
    assert (acting.version, learning.version) == (3, 2)
    assert [part["agent_id"] for part in learning.get_state()["delta"]] == ["left", "right"]


def without_times(history):
    return [
        {name: value for name, value in record.items() if name not in ("time_s", "steps_per_s")} for record in history
    ]


def flat(weights):
    return {f"{module_id}.{name}": value for module_id, named in weights.items() for name, value in named.items()}
