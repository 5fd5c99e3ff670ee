"""What a runner does with an agent that has acted, and is truncated before its next observation."""

import pytest

from episodia import MultiAgentEnvRunner
from episodia.errors import EpisodiaError
from scripted_agents import ScriptedEnv


def runner_of(**kwargs):
    return MultiAgentEnvRunner(
        lambda: ScriptedEnv(kind="turns", num_agents=3, longest=200), None, num_envs=1, seed=5, horizon=4, **kwargs
    )


def test_by_default_the_last_observation_is_repeated():
    episode = runner_of().sample(num_episodes=1)[0]

    assert episode.is_truncated
    assert episode.missing_final_observation == "repeat"


def test_a_runner_can_be_told_to_raise():
    with pytest.raises(EpisodiaError, match="missing_final_observation"):
        runner_of(missing_final_observation="error").sample(num_episodes=1)


def test_a_wrong_choice_is_rejected():
    with pytest.raises(EpisodiaError, match="missing_final_observation"):
        runner_of(missing_final_observation="ignore")
