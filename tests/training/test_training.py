"""The loop, its stops, its records, its state."""

from __future__ import annotations

import math
import signal

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia import interrupts
from episodia.errors import EnvError, LearnerError, TrainingError
from episodia.learners import OptimizerConfig, PPOConfig
from episodia.schedules import PiecewiseLinearSchedule
from episodia.training import Recipe, Setup, StoppedBy, Training

SMALL = {"num_envs": 2, "num_timesteps": 40, "num_epochs": 2, "minibatch_size": 20, "hidden": (8,)}
TIMES = ("time_s", "steps_per_s")


def small(algorithm="ppo", env="CartPole-v1", **options):
    settings = {**SMALL, **options}
    if algorithm == "reinforce":
        del settings["num_timesteps"]  # it collects whole episodes
    return Training.of(Setup.of(algorithm, env, **settings))


def without_times(history):
    return [{name: value for name, value in record.items() if name not in TIMES} for record in history]


def weights(training):
    return training.learner.get_weights()["default_policy"]


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "reinforce"])
def test_a_step_collects_updates_and_hands_over_the_weights(algorithm):
    with small(algorithm) as training:
        before = {name: value.clone() for name, value in weights(training).items()}
        record = training.step()
        acting = training.runner.module.state_dict()

        assert record["steps"] == training.steps >= 40
        assert any(not torch.equal(before[name], value) for name, value in weights(training).items())
        assert all(torch.equal(acting[name], value) for name, value in weights(training).items())
        assert training.runner.weights_version == 1


def test_the_same_seed_gives_the_same_training():
    histories = []
    for seed in (3, 3, 4):
        with small(seed=seed) as training:
            training.run(steps=120)
            histories.append(repr(without_times(training.history)))

    assert histories[0] == histories[1]
    assert histories[0] != histories[2]


def test_the_history_has_the_learning_rate_and_the_coefficients_of_each_update():
    falling = PiecewiseLinearSchedule([(0, 1e-3), (80, 0.0)])
    with small(learning_rate=falling, clip=PiecewiseLinearSchedule([(0, 0.4), (80, 0.2)])) as training:
        training.run(steps=120)

    done = [0, *(record["steps"] for record in training.history[:-1])]
    assert done[1] == 40
    assert [record["learning_rate"] for record in training.history] == [1e-3, 5e-4, 0.0]
    assert [record["clip"] for record in training.history] == pytest.approx([0.4, 0.3, 0.2])
    assert {record["value_coefficient"] for record in training.history} == {0.5}


def test_each_optimizer_has_its_learning_rate_in_the_history():
    actor = OptimizerConfig(components=("actor", "actor_head"), learning_rate=1e-3)
    critic = OptimizerConfig(components=("critic", "critic_head"), learning_rate=5e-3)
    with small(PPOConfig(optimizers=(actor, critic))) as training:
        record = training.step()

    assert (record["learning_rate_0"], record["learning_rate_1"]) == (1e-3, 5e-3)


def test_steps_count_over_several_runs():
    with small() as training:
        assert training.run(steps=80) is StoppedBy.STEPS
        reached = training.steps
        training.run(steps=reached)

        assert training.steps == reached
        assert 80 <= reached < 80 + 40 + 2


def test_a_target_stops_only_when_enough_episodes_were_finished():
    with small() as training:
        assert training.run(steps=5_000, target=1.0) is StoppedBy.TARGET
        assert training.episodes >= 20
        assert training.steps < 5_000


def test_an_interrupt_stops_after_the_update_that_is_going_on():
    with small() as training:
        stopped = training.run(steps=5_000, callbacks=[lambda _: signal.raise_signal(signal.SIGINT)])

        assert stopped is training.stopped_by is StoppedBy.INTERRUPT
        assert training.iteration == 1
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def twice(_):
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


def test_a_second_interrupt_does_not_wait(monkeypatch):
    monkeypatch.setattr(interrupts, "PAUSE_S", 0.0)

    with small() as training, pytest.raises(KeyboardInterrupt):
        training.run(steps=5_000, callbacks=[twice])


def test_two_interrupts_at_once_are_one():
    with small() as training:
        assert training.run(steps=5_000, callbacks=[twice]) is StoppedBy.INTERRUPT


def test_who_ignores_interrupts_is_not_interrupted():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with small() as training:
            assert training.run(steps=80, callbacks=[twice]) is StoppedBy.STEPS
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_target_that_was_reached_before_is_reached():
    with small() as training:
        training.run(steps=5_000, target=1.0)
        reached = training.steps

        assert training.run(steps=5_000, target=1.0) is StoppedBy.TARGET
        assert training.steps == reached


def test_what_is_played_on_the_side_is_not_part_of_the_training():
    with small() as training:
        before = training.step()["steps"]
        training.runner.sample(num_timesteps=500, random_actions=True)
        record = training.step()

        assert record["steps"] - before < 60
        assert record["episodes"] < 10


class Stubborn(gym.Env):
    """Fails for good from a number of steps on, all of its episodes counted."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)
    taken = 0
    lasts = 100
    fails_every = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        kind = type(self)
        kind.taken += 1
        if kind.taken > kind.lasts or (kind.fails_every and kind.taken % kind.fails_every == 0):
            raise RuntimeError("out of order")
        return np.zeros(2, np.float32), 1.0, kind.taken % 10 == 0, False, {}


def stubborn(**settings):
    """Return a class of its own, which counts from 0."""
    return type("OfItsOwn", (Stubborn,), {"taken": 0, **settings})


def test_steps_before_an_error_are_counted_when_it_goes_on():
    env = stubborn(lasts=30)
    with small(env=env, num_envs=1) as training:
        with pytest.raises(EnvError):
            training.step()
        env.lasts = 10_000

        record = training.step()

    assert record["steps"] >= 40
    assert record["num_env_restarts"] > 0


def test_environments_that_fail_are_counted_in_the_records():
    env = stubborn(lasts=10_000, fails_every=37)
    with small(env=env, num_envs=1) as training:
        training.run(steps=200)

    assert sum(record["num_env_restarts"] for record in training.history) == env.taken // 37 > 4


def test_the_mean_return_is_nan_until_an_episode_ends():
    with small(env=lambda: gym.make("Pendulum-v1"), num_timesteps=20) as training:
        assert math.isnan(training.step()["return_mean"])


def test_torch_gets_its_threads_back():
    before = torch.get_num_threads()
    inside = []
    with small() as training:
        training.torch_threads = before + 1
        training.run(steps=40, callbacks=[lambda _: inside.append(torch.get_num_threads())])

    assert inside == [before + 1]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("algorithm", ["ppo", "reinforce"])
@pytest.mark.parametrize("recurrent", [None, "gru"])
def test_going_on_from_a_state_equals_not_having_stopped(algorithm, recurrent):
    options = {"recurrent": recurrent} | ({"num_episodes": 3} if algorithm == "reinforce" else {})
    with small(algorithm, **options) as first, small(algorithm, **options) as second:
        first.run(steps=120)
        state = first.get_state()
        second.set_state(state)
        for training in (first, second):
            training.run(steps=300)

        assert without_times(second.history) == without_times(first.history)[-len(second.history) :]
        assert all(torch.equal(value, weights(second)[name]) for name, value in weights(first).items())
        assert first.evaluate(3) == second.evaluate(3)


def test_a_state_that_does_not_fit_changes_nothing():
    with small() as training, small(hidden=(4,)) as other:
        training.step()
        before = weights(training)

        with pytest.raises(LearnerError):
            training.set_state(other.get_state())
        with pytest.raises(TrainingError, match="progress"):
            training.set_state({"runner": {}, "learner": {}})

        assert all(torch.equal(before[name], value) for name, value in weights(training).items())


@pytest.mark.parametrize(
    "wrong", [{"steps": -3}, {"steps": float("nan")}, {"iteration": "x"}, {"recent_returns": ["a"]}, {"time_s": None}]
)
def test_a_state_with_invalid_progress_changes_nothing(wrong):
    with small() as training, small(seed=1) as other:
        training.step()
        state, before = other.get_state(), repr(training.get_state())

        with pytest.raises(TrainingError, match=next(iter(wrong))):
            training.set_state({**state, "progress": {**state["progress"], **wrong}})

        assert repr(training.get_state()) == before


@pytest.mark.parametrize("wrong", [3, {"runner": 3}, {"learner": None}, {"progress": []}])
def test_an_invalid_state_is_an_error(wrong):
    with small() as training, pytest.raises(TrainingError, match="get_state"):
        training.set_state({**training.get_state(), **wrong} if isinstance(wrong, dict) else wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"seed": 2**64},
        {"seed": None},
        {"seed": 1.5},
        {"env": None},
        {"env": lambda: 1 / 0},
        {"env": lambda: 3},
    ],
)
def test_a_setup_names_what_it_cannot_use(wrong):
    with pytest.raises(TrainingError, match=next(iter(wrong))):
        Setup.of(**{"algorithm": "ppo", "env": "CartPole-v1", **wrong}).build()


def test_seeds_of_numpy_are_seeds():
    assert Setup.of("ppo", "CartPole-v1", seed=np.int64(3)) == Setup.of("ppo", "CartPole-v1", seed=3)


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_there_is_named(device):
    with pytest.raises(LearnerError, match=device):
        Setup.of("ppo", "CartPole-v1", device=device).build()


@pytest.mark.parametrize("limits", [{"steps": "5"}, {"steps": 1.5}, {"steps": -1}, {"target": float("nan")}])
def test_invalid_limits_are_named(limits):
    with small() as training:
        with pytest.raises(TrainingError, match=next(iter(limits))):
            training.run(**{"steps": 40, **limits})

        assert training.stopped_by is None


def test_evaluating_does_not_change_the_training():
    with small() as watched, small() as alone:
        for training in (watched, alone):
            training.step()
        watched.evaluate(3)

        assert without_times([watched.step()]) == without_times([alone.step()])


@pytest.mark.parametrize("wrong", [{"num_envs": 0}, {"num_timesteps": None}, {"num_epochs": 1.5}])
def test_a_recipe_has_whole_numbers(wrong):
    with pytest.raises(TrainingError, match=next(iter(wrong))):
        Recipe(**wrong)


def test_unknown_algorithms_and_options_are_named():
    with pytest.raises(TrainingError, match="'dpn'"):
        Setup.of("dpn", "CartPole-v1")
    with pytest.raises(TrainingError, match="lerning_rate"):
        Setup.of("ppo", "CartPole-v1", lerning_rate=1.0)
    with pytest.raises(TrainingError, match="None"):
        Setup.of(None, "CartPole-v1")


def test_options_of_a_config_that_is_passed_are_not_suggested():
    with pytest.raises(TrainingError, match="'gamma'") as error:
        Setup.of(PPOConfig(), "CartPole-v1", gamma=0.9)

    assert str(error.value).count("gamma") == 1
    assert "into the config" in str(error.value)
