"""Where an agent begins and ends: cases that a random schedule seldom draws."""

import pytest

from episodia import EpisodeError, MultiAgentEpisode

GAME = {
    "observations": [{"w": 0}, {"b": 1}, {"w": 2}, {"b": 3}],
    "actions": [{"w": "a"}, {"b": "b"}, {}],
    "rewards": [{}, {}, {"w": 1.0, "b": -1.0}],
    "len_lookback_buffer": 0,
}


@pytest.mark.parametrize("terminateds", [True, {"w": True, "b": True}], ids=["all", "each"])
def test_an_agent_from_lists_ends_where_it_is_heard_of_for_the_last_time(terminateds):
    """White does not act on its last observation, and is paid one step later."""
    episode = MultiAgentEpisode("game", **GAME, terminateds=terminateds)

    assert {agent: single.get_rewards() for agent, single in episode.agent_episodes.items()} == {
        "w": [1.0],
        "b": [-1.0],
    }
    assert episode.get_terminateds() == {"w": True, "b": True, "__all__": True}


def test_an_agent_that_idles_in_a_truncated_episode_is_truncated():
    episode = MultiAgentEpisode(
        observations=[{"a": 0, "b": 0}, {"a": 1}, {"a": 2}],
        actions=[{"a": 0}, {"a": 1}],
        rewards=[{"a": 0.0}, {"a": 0.0}],
        truncateds=True,
        len_lookback_buffer=0,
    )

    assert episode.get_terminateds() == {"a": False, "b": False, "__all__": False}
    assert episode.get_truncateds() == {"a": True, "b": True, "__all__": True}


def two_agents():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0, "b": 0}, infos={"b": {"name": "b"}})
    episode.add_env_step({"a": 1}, {"a": 0}, {"a": 1.0})
    return episode


def test_what_is_told_of_an_agent_when_it_ends_stays_with_its_last_observation():
    episode = two_agents()

    episode.add_env_step({"a": 2}, {"a": 0}, {"a": 1.0}, infos={"b": {"why": "fell"}}, terminateds={"b": True})

    assert episode.agent_episodes["b"].get_infos() == [{"name": "b", "why": "fell"}]


def test_extra_outputs_without_an_action_are_refused():
    episode = two_agents()

    with pytest.raises(EpisodeError, match="without an action"):
        episode.add_env_step({"a": 2}, {"a": 0}, {"a": 1.0}, extra_model_outputs={"b": {"x": 1}})

    assert (len(episode), len(episode.agent_episodes["a"])) == (1, 1)


def test_of_a_single_own_step_an_agent_without_steps_is_left_out():
    assert two_agents().get_actions(-1, env_steps=False) == {"a": 0}


@pytest.mark.parametrize("start", ["x", -1, 1.5])
def test_the_first_environment_step_is_a_number(start):
    with pytest.raises(EpisodeError, match="env_t_started"):
        MultiAgentEpisode("game", env_t_started=start)


def test_no_agent_has_the_name_of_all():
    with pytest.raises(EpisodeError, match="stands for all agents"):
        MultiAgentEpisode("game").add_env_reset(observations={"__all__": 0})
