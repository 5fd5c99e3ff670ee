"""Setups: what a training follows from, as plain data that a checkpoint holds."""

from __future__ import annotations

import json
from dataclasses import fields

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.checkpoints import load_state, save_state
from episodia.connectors import (
    ConnectorV2,
    ConstantSchedule,
    ExponentialSchedule,
    MeanStdFilter,
    PiecewiseLinearSchedule,
    Schedule,
)
from episodia.errors import EnvRunnerError, EpisodiaError, LearnerError, TrainingError
from episodia.learners import (
    AdaptiveKL,
    ClipByGlobalNorm,
    ClipByNorm,
    ClipByValue,
    LearnerHook,
    OptimizerConfig,
    PPOConfig,
)
from episodia.learners.config_codec import decoded
from episodia.training import Recipe, Setup, load_training, resume, train
from episodia.training.training_setup import RUNNER_OPTIONS, WORKER_OPTIONS, module_options
from examples import example

NETWORK = {"num_envs": 2, "num_timesteps": 40, "num_epochs": 2, "minibatch_size": 20, "hidden": (8,)}
SMALL = {**NETWORK, "progress": False}


def test_a_setup_survives_being_plain_data():
    setup = Setup.of("a2c", "CartPole-v1", seed=3, gamma=0.9, hidden=[4, 4], recurrent="gru", num_envs=3)

    data = json.loads(json.dumps(setup.to_dict()))

    again = Setup.from_dict(data)
    assert again.to_dict() == setup.to_dict()
    assert (again.algorithm, again.recipe, again.seed) == (setup.algorithm, setup.recipe, setup.seed)
    assert (again.network["hidden"], again.network["recurrent"]) == ((4, 4), "gru")


def test_what_is_as_usual_is_saved_too():
    """So that a later version, in which other things are usual, goes on with what was usual then."""
    options = Setup.of("ppo", "CartPole-v1").to_dict()["options"]

    fields_of = {each.name for kind in (PPOConfig, Recipe) for each in fields(kind)}
    assert set(options) == fields_of | {*module_options(PPOConfig()), *RUNNER_OPTIONS, *WORKER_OPTIONS}
    assert (options["gamma"], options["num_envs"], options["hidden"], options["max_restarts"]) == (
        0.99,
        8,
        [64, 64],
        100,
    )


CONFIGS = {
    "no processors": {"gradient_processors": []},
    "processors": {"gradient_processors": (ClipByValue(2.0), ClipByNorm(1.0), ClipByGlobalNorm(0.5))},
    "a schedule": {"learning_rate": PiecewiseLinearSchedule([(0, 1e-3), (200, 1e-4)]), "entropy_coefficient": 0.01},
    "schedules": {"clip": ExponentialSchedule(0.2, 0.1, half_life=50), "value_coefficient": ConstantSchedule(0.3)},
    "an adaptive coefficient": {"kl_coefficient": AdaptiveKL(target=0.02), "clip": None},
    "optimizers": {
        "optimizers": [
            OptimizerConfig(components=("actor", "actor_head"), optimizer=torch.optim.SGD, options={"momentum": 0.5}),
            OptimizerConfig(
                components=("critic", "critic_head"),
                learning_rate=ConstantSchedule(0.01),
                options={"betas": (0.8, 0.9)},
            ),
        ]
    },
    "numbers of NumPy": {"gamma": np.float32(0.5), "burn_in": np.int64(0)},
}


@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS)
def test_a_run_with_any_config_of_the_library_goes_on_without_being_told(options, tmp_path):
    options = {**SMALL, "checkpoint_every": 80, **options}
    with (
        train("ppo", "CartPole-v1", steps=160, out=tmp_path / "whole", **options) as whole,
        train("ppo", "CartPole-v1", steps=80, out=tmp_path / "parts", **options),
        resume(tmp_path / "parts", steps=160, checkpoint_every=80, progress=False) as resumed,
    ):
        weights = [training.learner.get_weights()["default_policy"] for training in (whole, resumed)]
        assert resumed.setup.to_dict() == whole.setup.to_dict()

    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


class Steps(Schedule):
    extremes = (0.1, 0.1)

    def at(self, t):
        return 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_processors": [lambda gradients: gradients]},
        {"learning_rate": Steps()},
        {"optimizers": [OptimizerConfig(optimizer=lambda parameters, lr: torch.optim.Adam(parameters, lr=lr))]},
    ],
    ids=["a function", "a schedule of someone else", "an optimizer of someone else"],
)
def test_what_has_no_name_is_only_mentioned(options):
    data = Setup.of("ppo", "CartPole-v1", **options).to_dict()

    with pytest.raises(TrainingError, match=rf"found options.{next(iter(options))}.* \(.*without a name.*setup="):
        Setup.from_dict(json.loads(json.dumps(data)))


JUNK_PARTS = {
    "an unknown part": {"part": "subprocess.Popen", "args": ["true"]},
    "no name": {"part": 3},
    "no part": {"limit": 3},
    "unknown arguments": {"part": "ClipByNorm", "limit": 1.0, "more": 2},
    "missing arguments": {"part": "ClipByNorm"},
    "a number out of range": {"part": "ClipByNorm", "limit": -1.0},
    "an unknown schedule": {"schedule": "os.system"},
    "missing arguments of a schedule": {"schedule": "ConstantSchedule"},
    "invalid points": {"schedule": "PiecewiseLinearSchedule", "points": 3},
    "an unknown optimizer": {"part": "OptimizerConfig", "optimizer": "Popen"},
    "invalid options": {"part": "OptimizerConfig", "options": 3},
}


@pytest.mark.parametrize("data", JUNK_PARTS.values(), ids=JUNK_PARTS)
def test_invalid_parts_of_a_config_are_rejected(data):
    with pytest.raises(EpisodiaError, match="expected"):
        decoded([data])


@pytest.mark.parametrize("data", [{}, {"algorithm": "ppo"}, {"env": 1}])
def test_plain_data_of_something_else_is_no_setup(data):
    with pytest.raises(TrainingError, match="Setup"):
        Setup.from_dict(data)


# --- The setup of a run that goes on --------------------------------------------------------------------------------


def make_cartpole():
    return gym.make("CartPole-v1")


OTHERS = {
    "algorithm": {"algorithm": "a2c"},
    "seed": {"seed": 7},
    "gamma": {"gamma": 0.5},
    "num_epochs": {"num_epochs": 3},
    "env": {"env": "Acrobot-v1"},
    "connectors": {"connectors": [MeanStdFilter()]},
    "horizon": {"horizon": 30},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_does_not_go_on_with_another_setup(name, tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL).close()
    other = Setup.of(**{"algorithm": "ppo", "env": "CartPole-v1", **NETWORK, **OTHERS[name]})

    with pytest.raises(TrainingError, match=rf"found a setup with .*'{name}'.*expected the saved"):
        resume(tmp_path, steps=80, setup=other, progress=False)


def test_what_is_known_of_a_setup_without_a_name_is_compared_too(tmp_path):
    train("ppo", make_cartpole, steps=40, out=tmp_path, seed=3, **SMALL).close()

    with pytest.raises(TrainingError, match=r"found env \(make_cartpole\) without a name.*setup="):
        resume(tmp_path, steps=80, progress=False)
    with pytest.raises(TrainingError, match="'seed': 4"):
        resume(tmp_path, steps=80, setup=Setup.of("ppo", make_cartpole, seed=4, **NETWORK), progress=False)
    with resume(
        tmp_path, steps=80, setup=Setup.of("ppo", make_cartpole, seed=3, **NETWORK), progress=False
    ) as training:
        assert training.steps >= 80


class Unregistered(ConnectorV2):
    def __call__(self, *, batch, **kwargs):
        return batch


def test_a_piece_that_is_not_registered_is_mentioned(tmp_path):
    pieces = [MeanStdFilter(), Unregistered()]
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, connectors=pieces, **SMALL).close()

    with pytest.raises(TrainingError, match=r"found connectors\[1\] \(Unregistered\) without a name"):
        load_training(tmp_path)


def test_a_run_may_go_on_elsewhere(tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL).close()

    state = load_state(tmp_path / "checkpoint")
    state["setup"]["device"] = "cuda:99"
    save_state(tmp_path / "checkpoint", state)

    with pytest.raises(LearnerError, match="cuda:99"):
        load_training(tmp_path)
    with resume(tmp_path, steps=80, device="cpu", progress=False) as training:
        assert training.setup.device == "cpu"


def test_a_device_may_be_one_of_torch(tmp_path):
    with train("ppo", "CartPole-v1", steps=40, out=tmp_path, device=torch.device("cpu"), **SMALL) as training:
        assert training.setup.device == "cpu"


@pytest.mark.parametrize("processors", [[ClipByNorm(50.0), len], [len], [len, ClipByNorm(0.5)]])
def test_named_and_unnamed_parts_are_compared(processors, tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, gradient_processors=[ClipByNorm(0.5), same], **SMALL).close()
    given = [same if each is len else each for each in processors]

    with pytest.raises(TrainingError, match="'gradient_processors'"):
        load_training(tmp_path, setup=Setup.of("ppo", "CartPole-v1", gradient_processors=given, **NETWORK))
    with pytest.raises(TrainingError, match=r"found options.gradient_processors\[1\] \(same\) without a name"):
        load_training(tmp_path)


def same(gradients):
    return gradients


def test_no_device_is_the_cpu():
    assert Setup.of("ppo", "CartPole-v1", device=None).device == "cpu"


def test_a_device_without_memory_is_none():
    with pytest.raises(LearnerError, match="meta"):
        Setup.of("ppo", "CartPole-v1", device="meta").build()


# --- How environments are played ------------------------------------------------------------------------------------


def test_the_runner_can_be_told_how_to_play():
    told = {"horizon": np.int64(5), "vectorization": "vector_entry_point"}
    with train("ppo", "CartPole-v1", steps=80, **told, **SMALL) as training:
        assert training.return_mean <= 5.0
        assert training.setup.runner == told


def test_the_runner_says_what_it_cannot_be_told():
    with pytest.raises(EnvRunnerError, match="vectorization"):
        train("ppo", "CartPole-v1", steps=80, vectorization="quantum", **SMALL)


@pytest.mark.parametrize("options", [{"num_timesteps": 512}, {"num_timesteps": 512, "num_episodes": 2}])
def test_a_number_of_steps_beside_a_number_of_episodes_is_rejected(options):
    with pytest.raises(TrainingError, match=r"`num_timesteps=512` and `num_episodes=\d`.*expected one of the two"):
        Setup.of("reinforce", "CartPole-v1", **options)


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [("ppo", {"max_seq_len": 10}), ("impala", {"burn_in": 4}), ("ppo", {"cell_size": 8}), ("dqn", {"cell_size": 8})],
)
def test_settings_of_recurrent_networks_are_rejected_for_others(algorithm, options):
    with pytest.raises(TrainingError, match=r"network that is not recurrent.*`recurrent=\"lstm\"`"):
        Setup.of(algorithm, "CartPole-v1", **options)

    assert Setup.of(algorithm, "CartPole-v1", recurrent="gru", **options).network["recurrent"] == "gru"


def test_a_number_of_steps_may_replace_a_number_of_episodes():
    setup = Setup.of("reinforce", "CartPole-v1", num_timesteps=512, num_episodes=None)

    assert setup.recipe.wanted == {"num_timesteps": 512}
    assert Setup.from_dict(setup.to_dict()).recipe == setup.recipe


def test_a_setup_of_whole_episodes_survives_being_plain_data():
    setup = Setup.of("reinforce", "CartPole-v1", num_episodes=3)

    assert Setup.from_dict(json.loads(json.dumps(setup.to_dict()))).recipe == setup.recipe


def test_the_error_about_a_misspelt_option_names_the_nearest_one():
    with pytest.raises(TrainingError, match="Did you mean `num_timesteps`"):
        Setup.of("ppo", "CartPole-v1", num_timestep=64)


class CountUpdates(LearnerHook):
    """Adds the number of its updates to the metrics."""

    num_seen = 0

    def after_update(self, metrics):
        self.num_seen += 1
        return {"default_policy": {"num_seen": float(self.num_seen)}}


def test_hooks_are_called_in_a_training_and_needed_to_resume_it(tmp_path):
    options = {"hooks": [CountUpdates()], "num_envs": 2, "num_timesteps": 32, "hidden": (8,)}
    with train("ppo", "CartPole-v1", steps=64, out=tmp_path / "run", progress=False, **options) as training:
        assert [record["num_seen"] for record in training.history] == [1, 2]

    with pytest.raises(TrainingError, match=r"options\.hooks\[0\] \(CountUpdates\) without a name"):
        resume(tmp_path / "run", steps=96, progress=False)
    setup = Setup.of("ppo", "CartPole-v1", **options)
    with resume(tmp_path / "run", steps=96, progress=False, setup=setup) as training:
        assert training.history[-1]["num_seen"] == 3


def test_an_environment_of_several_agents_is_rejected_with_how_to_train_them():
    with pytest.raises(TrainingError, match=r"for several agents, use `MultiAgentEnvRunner`"):
        train("dqn", example("two_networks").Doors, steps=64, progress=False)
