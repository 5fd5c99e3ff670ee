"""Trainings that learn from replay: warm-up, training intensity, exploration, the buffer in the checkpoint."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.cli import main
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import PipelineError, TrainingError
from episodia.learners import DQNConfig, Learner
from episodia.modules import default_module
from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import ReplayRecipe, Setup, Training, load_training, resume, save_training, train

SMALL = {
    "num_envs": 2,
    "num_timesteps": 10,
    "warm_up": 20,
    "updates_per_step": 1.0,
    "batch_size": 8,
    "capacity": 500,
    "hidden": (8,),
}
ENVS = {
    "dqn": "CartPole-v1",
    "rainbow": "CartPole-v1",
    "r2d2": "CartPole-v1",
    "ddpg": "Pendulum-v1",
    "td3": "Pendulum-v1",
    "sac": "Pendulum-v1",
    "discrete_sac": "CartPole-v1",
}


def small(algorithm="dqn", **options):
    return Training.of(Setup.of(algorithm, ENVS[algorithm], **{**SMALL, **options}))


def weights(training):
    return training.learner.get_weights()["default_policy"]


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


def without_times(history):
    return [
        {name: value for name, value in record.items() if name not in ("time_s", "steps_per_s")} for record in history
    ]


@pytest.mark.parametrize("algorithm", ENVS)
def test_a_resumed_run_equals_one_that_saved_and_went_on(algorithm, tmp_path):
    options = {**SMALL, "progress": False, "checkpoint_every": 40}
    with train(algorithm, ENVS[algorithm], steps=90, out=tmp_path / "whole", **options) as whole:
        train(algorithm, ENVS[algorithm], steps=40, out=tmp_path / "part", **options).close()
        with resume(tmp_path / "part", steps=90, progress=False) as resumed:
            assert repr(without_times(resumed.history)) == repr(without_times(whole.history))
            assert same(weights(resumed), weights(whole))
            assert resumed.evaluate(1) == whole.evaluate(1)


@pytest.mark.parametrize("saved_at", range(8))
def test_saved_at_any_update_it_goes_on_as_if_it_had_not_stopped(saved_at, tmp_path):
    with small(priority_exponent=0.6) as training:
        for _ in range(saved_at):
            training.step()
        save_training(tmp_path / "saved", training)
        with load_training(tmp_path / "saved") as loaded:
            for _ in range(3):
                training.step(), loaded.step()

            assert same(weights(training), weights(loaded))
            assert training.updating.buffer.get_state()["generator"] == loaded.updating.buffer.get_state()["generator"]


def test_without_the_buffer_a_resumed_run_warms_up_again_and_says_so(tmp_path, capsys):
    options = {**SMALL, "progress": False, "saves_buffer": False}
    train("dqn", "CartPole-v1", steps=40, out=tmp_path / "run", **options).close()
    with resume(tmp_path / "run", steps=80, progress=False) as training:
        taken = [record["num_gradient_updates"] for record in training.history]

    assert taken[:6] == [0, 0, 10, 10, 0, 0]
    assert sum(taken[6:]) == training.steps - 40 - 20
    assert "learning goes on after 20 new steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("per_step", "taken"), [(1.0, [0, 0, 10, 10]), (0.25, [0, 0, 2, 3]), (0.1, [0, 0, 1, 1]), (2, [0, 0, 20, 20])]
)
def test_updates_follow_the_steps_after_the_warm_up(per_step, taken):
    with small(updates_per_step=per_step) as training:
        training.run(steps=40)

    assert [record["num_gradient_updates"] for record in training.history] == taken


def test_rare_updates_add_up_exactly():
    with small(updates_per_step=0.1, num_timesteps=2) as training:
        training.run(steps=220)

    assert sum(record["num_gradient_updates"] for record in training.history) == 20


def test_before_the_first_update_records_have_no_losses():
    with small() as training:
        assert "loss" not in training.step()
        training.run(steps=30)

        assert "loss" in training.history[-1]


def test_a_warm_up_may_be_random():
    with small("sac", warm_up=20, num_timesteps=10) as training:
        training.step()
        actions = training.updating.buffer.episodes().flat("actions").values

        # The actor's first actions have a standard deviation of 0.6 before they are squashed; nothing is near the bounds.
        assert np.abs(actions).max() > 0.9
        assert training.updating.acts_at_random
        training.run(steps=20)
        assert not training.updating.acts_at_random


def test_exploration_follows_the_steps_of_the_training(tmp_path):
    falling = PiecewiseLinearSchedule([(0, 1.0), (100, 0.0)])
    with small(epsilon=falling) as training:
        training.run(steps=40)
        assert training.runner.module_to_env["EpsilonGreedy"].steps == 40
        save_training(tmp_path / "saved", training)

    with load_training(tmp_path / "saved") as loaded:
        loaded.step()
        assert loaded.runner.module_to_env["EpsilonGreedy"].steps == 50
        assert repr(loaded.recipe.epsilon) == repr(falling)


def test_the_action_that_was_really_taken_is_stored():
    """A chain of three places: an action moves, and the place says which action it was."""

    class Chain(gym.Env):
        observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.eye(2, dtype=np.float32)[action], 0.0, False, False, {}

    setup = Setup.of("dqn", Chain, **{**SMALL, "epsilon": 0.5})
    with Training.of(setup) as training:
        training.run(steps=100)
        stored = training.updating.buffer.episodes()
        actions = stored.flat("actions").values

        assert 10 < actions.sum() < 90
        for episode in stored:
            assert (np.asarray(episode.get_observations())[1:].argmax(1) == episode.get_actions()).all()


def test_a_truncated_episode_is_bootstrapped_from_its_last_observation():
    class Timed(gym.Env):
        observation_space = gym.spaces.Box(0.0, 10.0, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.t += 1
            return np.full(1, self.t, np.float32), 1.0, False, self.t == 5, {}

    with Training.of(Setup.of("dqn", Timed, **SMALL)) as training:
        training.run(steps=40)
        sampled = training.updating.buffer.sample(200, DQNConfig(n_step=3, gamma=0.5).draw())
        columns = training.learner.batch_of(sampled)["default_policy"]

    last = columns["obs"][:, 0] == 4.0
    assert last.any()
    assert (columns["new_obs"][last] == 5.0).all()
    assert (columns["discounts"][last] == 0.5).all()


def test_target_networks_may_follow_environment_steps():
    with small(target_every=50, target_unit="env_steps", num_timesteps=2, updates_per_step=0.5) as training:
        target = training.learner.target_networks["default_policy"]["target"]
        copied_at, last = [], {}
        for _ in range(60):
            training.step()
            if not last or not same(target.state_dict(), last):
                copied_at.append(training.steps)
            last = {name: value.clone() for name, value in target.state_dict().items()}

    assert copied_at == [2, 50, 100]


def test_a_training_by_hand_takes_a_replay_recipe():
    env = gym.make("CartPole-v1")
    module = default_module(env.observation_space, env.action_space, kind="q", hidden=(8,))
    runner = SingleAgentEnvRunner("CartPole-v1", module, num_envs=2, seed=0)
    with Training(runner, Learner(module, DQNConfig(), seed=0), ReplayRecipe(num_timesteps=10, warm_up=10)) as training:
        training.run(steps=40)

    assert sum(record["num_gradient_updates"] for record in training.history) == training.steps - 10


def test_rainbow_writes_priorities_of_a_dueling_noisy_distributional_network():
    with small("rainbow") as training:
        training.run(steps=60)
        module = training.runner.module
        weights_of = training.updating.buffer.sample(50).weights

    assert (module.dueling, module.noisy, module.atoms) == (True, True, 51)
    assert len(set(np.round(weights_of, 6))) > 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("algorithm", [name for name, env in ENVS.items() if env == "CartPole-v1"])
def test_a_warm_up_tries_all_actions(algorithm, seed):
    """A noisy network draws its first noise in an update: until then, it would push the cart to one side only."""
    with Training.of(Setup.of(algorithm, "CartPole-v1", num_timesteps=100, hidden=(8,), seed=seed)) as training:
        training.step()
        actions = np.concatenate([episode.get_actions() for episode in training.updating.buffer.episodes()])

    assert 30 < actions.sum() < 70


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"warm_up": 0}, TrainingError),
        ({"batch_size": 1.5}, TrainingError),
        ({"capacity": 1}, TrainingError),
        ({"updates_per_step": -1.0}, TrainingError),
        ({"updates_per_step": np.inf}, TrainingError),
        ({"random_warm_up": "no"}, TrainingError),
        ({"priority_exponent": -0.5}, TrainingError),
        ({"epsilon": 1.5}, PipelineError),
        ({"noise": -1.0}, PipelineError),
    ],
)
def test_amounts_out_of_range_are_named(wrong, error):
    with pytest.raises(error, match=next(iter(wrong))):
        ReplayRecipe(**wrong)


def test_options_of_other_recipes_are_unknown():
    with pytest.raises(TrainingError, match="num_epochs"):
        Setup.of("dqn", "CartPole-v1", num_epochs=3)
    with pytest.raises(TrainingError, match="warm_up"):
        Setup.of("ppo", "CartPole-v1", warm_up=3)


def test_the_command_line_trains_and_resumes(tmp_path, capsys):
    out = str(tmp_path / "run")
    settings = [f"{name}={value}" for name, value in {**SMALL, "hidden": [8]}.items()]
    words = [
        "train",
        "dqn",
        "CartPole-v1",
        "--steps",
        "40",
        "--out",
        out,
        *(part for each in settings for part in ("--set", each)),
    ]

    assert main(words) == 0
    assert main(["train", "--resume", out, "--steps", "60"]) == 0
    assert main(["eval", out, "--episodes", "2"]) == 0
    assert "2 evaluation episodes" in capsys.readouterr().out


class Masked(gym.Env):
    """One action in three is forbidden, another one in each step, and it would pay off."""

    observation_space = gym.spaces.Dict(
        {"seen": gym.spaces.Box(0.0, 1.0, (3,), np.float32), "action_mask": gym.spaces.MultiBinary(3)}
    )
    action_space = gym.spaces.Discrete(3)
    forbidden_taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._shown(), {}

    def step(self, action):
        is_forbidden = action == self.t % 3
        Masked.forbidden_taken += is_forbidden
        self.t += 1
        return self._shown(), 100.0 if is_forbidden else 0.0, self.t == 7, False, {}

    def _shown(self):
        forbidden = np.eye(3, dtype=np.int8)[self.t % 3]
        return {"seen": forbidden.astype(np.float32), "action_mask": 1 - forbidden}


@pytest.mark.parametrize("algorithm", ["dqn", "rainbow", "r2d2", "discrete_sac"])
def test_forbidden_actions_are_never_taken(algorithm):
    """Neither at random, nor to explore, nor greedily."""
    Masked.forbidden_taken = 0
    with Training.of(Setup.of(algorithm, Masked, **{**SMALL, "random_warm_up": True})) as training:
        training.run(steps=60)
        training.evaluate(2)
        sampled = training.updating.buffer.sample(30).flat("rewards").values

    assert Masked.forbidden_taken == 0
    assert not sampled.any()


def test_progress_shows_the_losses_of_critics(capsys):
    train("sac", "Pendulum-v1", steps=40, **SMALL).close()

    shown = capsys.readouterr().err
    assert "critic loss" in shown
    assert "q value" in shown
    assert "entropy" in shown
