"""What a step costs: in proportion to the agents in it, not to those that were there before or have not come."""

import copy

import pytest

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import EpisodeError


def test_a_step_does_not_look_at_the_agents_that_have_ended(monkeypatch):
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations=dict.fromkeys(range(200), 0))
    everybody = dict.fromkeys(range(200), 1)
    episode.add_env_step(everybody, everybody, everybody, terminateds=dict.fromkeys(range(199), True))
    looks = []
    monkeypatch.setattr(SingleAgentEpisode, "is_done", property(lambda single: looks.append(single) or False))

    episode.add_env_step({199: 2}, {199: 0}, {199: 1.0})

    assert len(looks) < 10


def test_the_episode_ends_with_its_last_agent_also_if_one_came_after_others_had_ended():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0, "b": 0})
    episode.add_env_step({"a": 1, "c": 1}, {"a": 0}, {"a": 0.0}, truncateds={"a": True})
    episode.add_env_step({}, {}, {}, truncateds={"b": True})
    assert not episode.is_done

    episode.add_env_step({"c": 2}, {}, {}, terminateds={"c": True})

    assert episode.is_terminated


def test_rewards_of_an_agent_that_has_not_come_are_appended_and_not_shared_by_copies():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0})
    episode.add_env_step({"a": 1}, {"a": 0}, {"a": 0.0, "ghost": 1.0})
    entries, before = episode.roster.records["ghost"].early_rewards, copy.copy(episode)
    episode.add_env_step({"a": 2}, {"a": 0}, {"a": 0.0, "ghost": 2.0})

    assert episode.roster.records["ghost"].early_rewards is entries
    assert episode._hanging_rewards_begin == {"ghost": 3.0}
    assert before._hanging_rewards_begin == {"ghost": 1.0}


def test_the_modules_of_newcomers_are_forgotten_with_a_step_that_is_rejected():
    def module_of(agent, episode):
        return episode.module_for("leader") if agent == "follower" else f"module of {agent}"

    episode = MultiAgentEpisode("game", agent_to_module_mapping_fn=module_of)
    episode.add_env_reset(observations={"a": 0})
    modules = episode._agent_to_module_mapping

    with pytest.raises(EpisodeError, match="no reward"):
        episode.add_env_step({"a": 1, "follower": 0, "other": 0}, {"a": 0}, {"a": "no reward"})

    assert episode._agent_to_module_mapping is modules
    assert modules == {"a": "module of a"}
