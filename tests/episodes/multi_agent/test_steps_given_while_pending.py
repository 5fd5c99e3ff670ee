"""Lists with as many actions, rewards and outputs as observations: the last step is still pending, as in RLlib."""

import pytest

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing.comparing import assert_same_multi_agent_episode

OBSERVATIONS = [{"a": 0, "b": 10}, {"a": 1, "b": 11}, {"a": 2}]
ACTIONS = [{"a": 5, "b": 6}, {"a": 7, "b": 8}, {"a": 9}]
REWARDS = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}, {"a": 5.0, "b": 6.0}]
EXTRAS = [{"a": {"x": 1}, "b": {"x": 2}}, {"a": {"x": 3}, "b": {"x": 4}}, {"a": {"x": 5}}]


def built(**kwargs):
    return MultiAgentEpisode("game", observations=OBSERVATIONS, len_lookback_buffer=0, **kwargs)


def stepped(actions, rewards, extras):
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations=OBSERVATIONS[0])
    for t, (action, reward, extra) in enumerate(zip(actions, rewards, extras, strict=True)):
        observations = OBSERVATIONS[t + 1] if t + 1 < len(OBSERVATIONS) else {}
        episode.add_env_step(observations, action, reward, extra_model_outputs=extra)
    return episode


@pytest.mark.parametrize("outputs", [EXTRAS, None], ids=["outputs", "no outputs"])
def test_the_last_step_is_one_without_observations(outputs):
    found = built(actions=ACTIONS, rewards=REWARDS, extra_model_outputs=outputs)

    expected = stepped(ACTIONS, REWARDS, outputs or [{}] * 3)
    assert_same_multi_agent_episode(found, expected, ignore=["times"])
    assert found.env_t == 3


def test_the_step_ends_with_the_next_observation():
    episode = built(actions=ACTIONS, rewards=REWARDS)

    episode.add_env_step({"a": 3, "b": 12}, {}, {"a": 0.5})

    assert episode.agent_episodes["a"].get_actions() == [5, 7, 9]
    assert episode.agent_episodes["a"].get_rewards() == [1.0, 3.0, 5.5]
    assert episode.agent_episodes["b"].get_rewards() == [2.0, 10.0]


def test_rewards_alone_may_be_as_many():
    found = built(actions=ACTIONS[:2], rewards=[*REWARDS[:2], {"b": 6.0}])

    expected = stepped([*ACTIONS[:2], {}], [*REWARDS[:2], {"b": 6.0}], [{}] * 3)
    assert_same_multi_agent_episode(found, expected, ignore=["times"])


def test_an_agent_that_has_not_acted_on_the_last_observation_goes_on():
    episode = built(actions=[*ACTIONS[:2], {}], rewards=[*REWARDS[:2], {}])

    assert not episode.agent_episodes["a"].is_done


def test_two_more_than_observations_less_one_are_rejected():
    with pytest.raises(EpisodeError, match=r"\{'rewards': 4\}.*still pending"):
        built(actions=ACTIONS, rewards=[*REWARDS, {}])
