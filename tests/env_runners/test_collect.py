"""Episodes in one line."""

import io
import re
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest

import episodia
from episodia.errors import EnvRunnerError
from episodia.modules import MLPActorCritic
from scripted_envs import ScriptedEnv


def test_ten_random_episodes_are_one_line():
    episodes = episodia.collect("CartPole-v1", seed=3)

    assert len(episodes) == 10
    assert all(episode.is_done for episode in episodes)


def test_the_same_seed_collects_the_same():
    first, second = (episodia.collect("CartPole-v1", episodes=3, num_envs=2, seed=3) for _ in range(2))

    assert [episode.id_ for episode in first] == [episode.id_ for episode in second]
    for left, right in zip(first, second, strict=True):
        np.testing.assert_array_equal(left.get_observations(), right.get_observations())


def test_steps_can_be_asked_for_instead():
    chunks = episodia.collect("CartPole-v1", timesteps=50, num_envs=4)

    assert 50 <= sum(map(len, chunks)) < 54


def test_a_function_of_one_observation_is_a_policy():
    episodes = episodia.collect("CartPole-v1", lambda observation: observation[2] > 0, episodes=2, num_envs=2, seed=0)

    for episode in episodes:
        np.testing.assert_array_equal(episode.get_actions(), episode.get_observations()[:-1, 2] > 0)


def test_actions_of_a_function_are_those_of_the_environment():
    episodes = episodia.collect("Pendulum-v1", lambda _: [1.5], episodes=1, seed=0)

    assert (episodes[0].get_actions() == 1.5).all()
    assert episodes[0].get_actions().dtype == np.float32


def test_a_module_is_a_policy():
    env = gym.make("CartPole-v1")
    episodes = episodia.collect("CartPole-v1", MLPActorCritic(env.observation_space, env.action_space), episodes=2)

    assert "action_logp" in episodes[0].extra_model_outputs


def test_both_numbers_are_rejected():
    with pytest.raises(EnvRunnerError, match="expected one of them"):
        episodia.collect("CartPole-v1", episodes=1, timesteps=1)


@pytest.mark.parametrize("policy", [3, "random", []])
def test_what_is_no_policy_is_rejected(policy):
    with pytest.raises(EnvRunnerError, match="as the policy, expected a module, a function"):
        episodia.collect("CartPole-v1", policy)


@pytest.mark.parametrize("name", ["num_episodes", "num_timesteps", "module", "tea"])
def test_settings_that_there_are_not_are_rejected_by_name(name):
    with pytest.raises(EnvRunnerError, match=rf"found the settings \['{name}'\], expected `episodes=`"):
        episodia.collect("CartPole-v1", **{name: 3})


@pytest.mark.parametrize(("name", "meant"), [("num_episodes", "episodes"), ("num_env", "num_envs"), ("sed", "seed")])
def test_the_error_about_a_misspelt_setting_names_the_nearest_one(name, meant):
    with pytest.raises(EnvRunnerError, match=rf"Did you mean `{meant}`\?$"):
        episodia.collect("CartPole-v1", **{name: 3})


class Slow(ScriptedEnv):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


def test_progress_is_shown_when_it_takes_long_and_taken_away_again(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("episodia.env_runners.collect._PATIENCE_S", 0.05)

    episodia.collect(lambda: Slow(4), episodes=8, progress=True)

    *lines, cleared, end = sys.stderr.getvalue().split("\r")[1:]
    assert any(re.fullmatch(r"\[#+\.+\] [1-7] of 8 episodes, \d+ steps *", line) for line in lines)
    assert (cleared.strip(), end) == ("", "")


def test_progress_towards_a_number_of_steps_is_shown_too(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("episodia.env_runners.collect._PATIENCE_S", 0.05)

    episodia.collect(lambda: Slow(4), timesteps=30, progress=True)

    assert re.search(r"\r\[#*\.*\] \d+ episodes, \d+ of 30 steps", sys.stderr.getvalue())


def test_nothing_is_shown_without_a_terminal(capsys):
    episodia.collect("CartPole-v1", episodes=2)

    assert capsys.readouterr() == ("", "")


def test_the_name_is_there_without_torch_until_it_is_used():
    code = (
        "import sys, episodia; assert 'collect' in dir(episodia); assert 'torch' not in sys.modules; episodia.collect"
    )
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' in sys.modules"], check=True)


def test_an_unknown_name_is_still_unknown():
    with pytest.raises(AttributeError, match="tea"):
        _ = episodia.tea
