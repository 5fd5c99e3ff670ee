"""Cutting, slicing, joining, copying and saving multi-agent episodes, as a user would read about it."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing import multi_agent_trajectories
from episodia.trees import equal
from turn_taking import columns, play, turns

both_forms = pytest.mark.parametrize("form", [lambda e: e, lambda e: e.finalize()], ids=["growing", "finalized"])


def as_lists(found):
    return {agent: list(items) for agent, items in found.items()}


# --- cut ----------------------------------------------------------------------------------------------------------


@both_forms
def test_a_chunk_starts_with_the_last_observation_of_every_agent(form):
    episode = form(turns(5))
    chunk = episode.cut()

    assert (len(chunk), chunk.env_t_started, chunk.env_t) == (0, 5, 5)
    assert as_lists(chunk.get_observations(env_steps=False)) == {"a": ["a4"], "b": ["b5"]}
    assert chunk.agent_t_started == {"a": 2, "b": 2}
    assert chunk.get_agents_to_act() == {"b"}
    assert chunk.is_finalized == episode.is_finalized
    assert chunk.module_for("a") == "mod_a"


@both_forms
@pytest.mark.parametrize("lookback", range(7))
def test_the_lookback_is_counted_in_environment_steps(form, lookback):
    whole, chunk = turns(5), form(turns(5)).cut(lookback)
    kept = min(lookback, 5)

    window = {"indices": slice(-lookback, 1), "neg_index_as_lookback": True, "return_list": True}
    assert chunk.get_observations(**window) == whole.get_observations(slice(5 - kept, 6), return_list=True)
    assert chunk.get_actions(**window) == whole.get_actions(slice(5 - kept, 5), return_list=True)
    assert chunk.env_lookback == kept


def test_an_agent_that_has_ended_is_not_in_the_next_chunk():
    episode = turns(4)
    play(episode, 1, terminateds={"a": True})
    chunk = episode.cut(3)

    assert chunk.agent_ids == {"b"}
    assert chunk.get_terminateds() == {"b": False, "__all__": False}


def test_an_agent_that_idles_takes_its_waiting_reward_along():
    first = MultiAgentEpisode()
    first.add_env_reset(observations={"a": 0, "b": 0})
    first.add_env_step({"a": 1}, {"a": 0}, {"a": 1.0, "b": 5.0})
    second = first.cut()
    second.add_env_step({"a": 2, "b": 2}, {"a": 1, "b": 1}, {"a": 1.0, "b": 1.0})

    assert columns(second, "b") == ([0, 2], [1], [6.0])


def test_both_chunks_can_go_on_without_touching_each_other():
    first = turns(4)
    second = first.cut(2)
    play(first, 2)
    second.set_observations(new_data={"a": "other"}, at_indices=-1)

    assert first.get_observations(4) == {"a": "a4"}
    assert second.get_observations(-1) == {"a": "other"}
    assert second.env_t == 4


@given(schedule=multi_agent_trajectories(done=False), steps=st.integers(0, 6))
def test_as_many_environment_steps_as_are_said_hold_so_many_steps_of_every_agent(schedule, steps):
    episode = schedule.stepped()

    chunk = episode.cut(episode.env_steps_back(steps))

    for agent, single in chunk.agent_episodes.items():
        made = len(episode.agent_episodes[agent])
        assert single.observations.lookback >= min(steps, made)
        past = {"indices": slice(-min(steps, made), 0), "neg_index_as_lookback": True}
        assert equal(single.get_actions(**past), episode.agent_episodes[agent].get_actions()[made - min(steps, made) :])


def test_looking_back_nothing_needs_nothing():
    assert turns(5).env_steps_back(0) == 0
    with pytest.raises(EpisodeError, match=r"'game': found `agent_steps=-1`, expected a number of steps"):
        turns(5).env_steps_back(-1)


# --- slice --------------------------------------------------------------------------------------------------------


@both_forms
@pytest.mark.parametrize("bounds", [(0, 5), (0, 2), (1, 3), (2, 5), (3, 3), (-2, None), (2, 99), (4, 1)], ids=str)
def test_a_slice_has_the_environment_steps_that_a_list_would_have(form, bounds):
    steps = list(range(5))[slice(*bounds)]
    part = form(turns(5))[slice(*bounds)]

    assert len(part) == len(steps)
    if steps:
        assert (part.env_t_started, part.env_t) == (steps[0], steps[-1] + 1)
        shown = turns(5).get_observations([*steps, steps[-1] + 1], return_list=True)
        assert part.get_observations(return_list=True) == shown
        assert part.get_actions(return_list=True) == turns(5).get_actions(steps, return_list=True)


def test_a_slice_takes_as_much_of_the_past_as_is_asked_for():
    chunk = turns(4).cut(2)
    play(chunk, 3)

    assert chunk[1:].env_lookback == 2  # as the episode has
    assert chunk.slice(slice(1, None), len_lookback_buffer=0).env_lookback == 0
    longest = chunk.slice(slice(1, None), len_lookback_buffer=99)
    assert longest.env_lookback == 3
    assert longest.get_observations(slice(-3, 0), neg_index_as_lookback=True) == {"a": ["a2", "a4"], "b": ["b3"]}


def test_a_slice_has_the_agents_that_have_come_by_its_end():
    episode = turns(3)
    episode.add_env_step({"late": 0}, {}, {})

    assert episode[0:0].agent_ids == {"a"}
    assert episode[1:2].agent_ids == {"a", "b"}
    assert episode[3:3].agent_ids == {"a", "b"}  # a waits there
    assert episode[3:4].agent_ids == {"a", "b", "late"}


def test_a_slice_before_the_end_of_an_agent_has_it_alive():
    episode = turns(3)
    play(episode, 1, terminateds={"b": True})
    episode.add_env_step({"a": "a5"}, {"a": "A4"}, {"a": 1.0}, extra_model_outputs={"a": {"x": "Xa4"}})

    assert episode[0:3].get_terminateds() == {"a": False, "b": False, "__all__": False}
    assert episode[0:4].get_terminateds()["b"]
    assert episode[4:].agent_ids == {"a"}


# --- concat_episode -----------------------------------------------------------------------------------------------


@both_forms
def test_chunks_are_joined_into_what_was_never_cut(form):
    chunks = [turns(2)]
    for _ in range(3):
        chunks.append(chunks[-1].cut(len_lookback_buffer=1))
        play(chunks[-1], 2)
    whole = form(chunks[0])
    for chunk in chunks[1:]:
        whole.concat_episode(form(chunk))

    assert len(whole) == 8
    assert as_lists(whole.get_rewards()) == turns(8).get_rewards()
    assert whole.get_infos(return_list=True) == turns(8).get_infos(return_list=True)
    assert whole.env_t_to_agent_t == turns(8).env_t_to_agent_t


def test_joining_leaves_the_chunk_alone():
    first = turns(2)
    second = first.cut()
    play(second, 2)
    first.concat_episode(second)
    play(first, 1)

    assert (len(first), len(second)) == (5, 2)
    assert columns(second, "a") == (["a2", "a4"], ["A2"], [7.0])


def test_agents_that_came_and_went_within_a_chunk_keep_what_they_had():
    """A reward from before the first observation stays apart; it does not slip into the agent's last step."""
    first = turns(1)
    second = first.cut()
    second.add_env_step({"guest": 0}, {}, {"guest": 10.0})
    second.add_env_step({"guest": 1}, {"guest": 0}, {"guest": 1.0}, terminateds={"guest": True})
    first.concat_episode(second)

    assert columns(first, "guest") == ([0, 1], [0], [1.0])
    assert first._hanging_rewards_begin == {"b": 10.0, "guest": 10.0}


def test_a_reward_after_the_end_finds_its_step_in_the_chunk_before():
    first = turns(3, rewards_after_done="add")
    play(first, 1, terminateds={"a": True})
    second = first.cut()
    second.add_env_step({"b": "b5"}, {}, {"a": 100.0})
    assert second._hanging_rewards_begin == {"a": 100.0}
    first.concat_episode(second)

    assert columns(first, "a")[2] == [3.0, 107.0]
    assert first._hanging_rewards_begin == {"b": 10.0}


def test_what_was_not_acted_on_is_replaced_across_a_cut_too():
    first = turns(4)
    second = first.cut()
    second.add_env_step({"a": "a5!"}, {}, {"a": 1.0})
    second.add_env_step({"a": "a6"}, {"a": "A5"}, {"a": 1.0})
    first.concat_episode(second)

    assert columns(first, "a") == (["a0", "a2", "a5!", "a6"], ["A0", "A2", "A5"], [3.0, 7.0, 2.0])
    assert first.env_t_to_agent_t["a"].get() == [0, "S", 1, "S", "S", 2, 3]


# --- Copies and states --------------------------------------------------------------------------------------------


def by_copy(episode):
    return copy.copy(episode)


def by_pickle(episode):
    return pickle.loads(pickle.dumps(episode, protocol=5))


def by_state(episode):
    return MultiAgentEpisode.from_state(episode.get_state())


@both_forms
@pytest.mark.parametrize("again", [by_copy, by_pickle, by_state])
def test_a_copy_goes_on_like_the_original(form, again):
    original = form(turns(5, rewards_after_done="add", missing_final_observation="repeat").cut(2))
    original.custom_data["level"] = 3
    original.weights_version = 8
    twin = again(original)
    for episode in (original, twin):
        play(episode, 2)
        play(episode, 1, truncateds={"__all__": True})

    assert repr(twin) == repr(original)
    for name in ("observations", "infos", "actions", "rewards", "extra_model_outputs"):
        window = {"indices": slice(-2, 9), "neg_index_as_lookback": True, "return_list": True}
        assert getattr(twin, f"get_{name}")(**window) == getattr(original, f"get_{name}")(**window)
    assert twin.get_truncateds() == original.get_truncateds()
    assert (twin.custom_data, twin.weights_version) == ({"level": 3}, 8)
    assert twin.module_for("newcomer") == "mod_newcomer"


@pytest.mark.parametrize("again", [by_copy, by_pickle, by_state])
def test_a_copy_has_a_life_of_its_own(again):
    original = turns(4)
    twin = again(original)
    play(twin, 3)
    twin.set_rewards(new_data={"a": 99.0}, at_indices=0)
    twin.module_for("newcomer")

    assert repr(original) == repr(turns(4))
    assert columns(original, "a") == columns(turns(4), "a")
    assert original._hanging_actions_end == {"b": "B3"}
    assert "newcomer" not in original._agent_to_module_mapping


def test_ids_of_any_kind_survive_a_state():
    episode = MultiAgentEpisode("mixed")
    episode.add_env_reset(observations={7: 0, ("arm", 1): 0, "cart": 0})
    episode.add_env_step({7: 1}, {7: 0, ("arm", 1): 0}, {7: 1.0, ("arm", 1): 1.0, "cart": 1.0})

    for twin in (by_state(episode), by_pickle(episode)):
        assert twin.agent_ids == {7, ("arm", 1), "cart"}
        assert twin._hanging_rewards_end == {("arm", 1): 1.0, "cart": 1.0}


# --- Form ---------------------------------------------------------------------------------------------------------


def test_finalizing_makes_arrays_of_every_agent_in_place():
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": np.zeros(3), "b": {"x": 0.5}})
    episode.add_env_step({"a": np.ones(3)}, {"a": 1, "b": 2}, {"a": 0.5, "b": 0.5})

    assert episode.finalize() is episode
    assert episode.is_finalized
    assert episode.get_observations()["a"].shape == (2, 3)
    assert episode.get_observations()["b"]["x"].shape == (1,)
    assert episode.get_actions()["b"].tolist() == [2]  # pending


def test_agents_that_join_a_finalized_episode_are_finalized():
    episode = turns(1).finalize()
    episode.add_env_step({"late": 0}, {}, {})

    assert all(single.is_finalized for single in episode.agent_episodes.values())
    assert episode.get_observations()["late"].tolist() == [0]
