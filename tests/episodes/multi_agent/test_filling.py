"""What stands where an agent has nothing: the same as in an episode of its own."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia import MultiAgentEpisode, SingleAgentEpisode

FORMS = pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])


def two_agents(finalized, **spaces_by_agent):
    """Only "a" acts; "b" has an observation and no steps."""
    episode = MultiAgentEpisode("two", **spaces_by_agent)
    episode.add_env_reset(observations={"a": 0, "b": 0})
    episode.add_env_step({"a": 1}, {"a": 2}, {"a": 1.0})
    return episode.finalize() if finalized else episode


@FORMS
@pytest.mark.parametrize("env_steps", [True, False], ids=["env steps", "agent steps"])
def test_the_filled_reward_of_an_agent_without_steps_is_a_number(finalized, env_steps):
    filled = two_agents(finalized).get_rewards(0, fill=0.5, env_steps=env_steps)

    assert filled == {"a": 1.0, "b": 0.5}
    assert isinstance(filled["b"], float)


def test_filled_rewards_stand_beside_real_ones_as_numbers():
    filled = two_agents(finalized=False).get_rewards(slice(0, 3), fill=0.0)

    assert filled == {"a": [1.0, 0.0, 0.0], "b": [0.0, 0.0, 0.0]}
    assert all(isinstance(reward, float) for rewards in filled.values() for reward in rewards)


@FORMS
def test_the_filled_action_of_an_agent_without_steps_is_what_its_space_says(finalized):
    by_agent = {"a": spaces.Discrete(3), "b": spaces.Box(-1.0, 1.0, (2,), np.float32)}
    filled = two_agents(finalized, action_space=by_agent).get_actions(0, fill=0)

    assert filled["a"] == 2
    assert (filled["b"].tolist(), filled["b"].dtype) == ([0.0, 0.0], np.float32)


@FORMS
def test_filling_is_the_same_for_one_agent_and_for_many(finalized):
    alone = SingleAgentEpisode("alone")
    alone.add_env_reset(0)
    alone = alone.finalize() if finalized else alone

    filled = two_agents(finalized).get_rewards(0, fill=0.5, env_steps=False)["b"]
    assert (type(filled), filled) == (type(alone.get_rewards(0, fill=0.5)), alone.get_rewards(0, fill=0.5))
