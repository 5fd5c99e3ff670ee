"""Where cutting, slicing and joining multi-agent episodes of RLlib 2.60 goes wrong, named after what is right.

The docstrings cite as in `test_rllib_defects.py`.
"""

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from turn_taking import columns, play, turns


def assert_same(left, right):
    """Check that two episodes say the same, by environment steps and by the agents' own."""
    for episode in (left, right):
        episode.validate()
    assert left.agent_ids == right.agent_ids
    for name in ("observations", "infos", "actions", "rewards", "extra_model_outputs"):
        for mode in ({}, {"env_steps": False}, {"return_list": True}):
            assert getattr(left, f"get_{name}")(**mode) == getattr(right, f"get_{name}")(**mode)
    for name in ("_hanging_actions_end", "_hanging_rewards_end", "_hanging_rewards_begin"):
        assert getattr(left, name) == getattr(right, name)
    assert left.get_return(include_hanging_rewards=True) == right.get_return(include_hanging_rewards=True)
    assert left.get_agents_to_act() == right.get_agents_to_act()


# --- Slices -------------------------------------------------------------------------------------------------------


def test_a_slice_keeps_infos_custom_data_and_ids():
    """Silent 6: `slice` drops all infos and the custom data."""
    episode = turns()
    episode.custom_data["level"] = {"name": "maze"}

    part = episode[1:4]
    assert part.get_infos() == {"a": [{"i": "a2"}, {"i": "a4"}], "b": [{"i": "b1"}, {"i": "b3"}]}
    assert part.custom_data == {"level": {"name": "maze"}}
    assert part.id_ == "game"
    assert part.agent_episode_ids == episode.agent_episode_ids
    single = part.agent_episodes["b"]
    assert (single.agent_id, single.module_id, single.multi_agent_episode_id) == ("b", "mod_b", "game")


def test_parts_have_a_mapping_of_their_own():
    """Silent 11: slices share the dict that maps agents to modules with their parent."""
    episode = turns()
    for part in (episode[1:3], episode.cut(1)):
        part.module_for("newcomer")

        assert part._agent_to_module_mapping == {"a": "mod_a", "b": "mod_b", "newcomer": "mod_newcomer"}
        assert episode._agent_to_module_mapping == {"a": "mod_a", "b": "mod_b"}


def test_a_slice_that_reaches_the_end_has_the_flags_of_all_agents_and_of_the_episode():
    """Measured: the agent whose own end is in the slice keeps its flag, the episode and the other agents do not."""
    episode = turns(4)
    play(episode, 1, terminateds={"__all__": True})

    for part in (episode[2:5], episode[2:], episode[2:99]):
        assert part.get_terminateds() == {"a": True, "b": True, "__all__": True}
        assert columns(part, "a") == (["a2", "a4", "a4"], ["A2", "A4"], [7.0, 5.0])
    assert episode[2:4].get_terminateds() == {"a": False, "b": False, "__all__": False}
    assert episode[2:4]._hanging_actions_end == {"b": "B3"}


def test_a_numpyized_slice_has_one_form_although_an_agent_has_no_step_in_it():
    """Measured: `is_numpy` raises, since that agent's episode stays a list."""
    part = turns(5).to_numpy()[:1]

    assert part.is_numpy
    assert len(part.agent_episodes["b"]) == 0
    assert part.get_actions()["a"].tolist() == ["A0"]
    assert "b" not in part.get_actions(env_steps=False)


def test_a_chunk_can_be_sliced_whatever_the_agents_have_in_their_lookback():
    """Measured: "Can only slice if all lookback buffers in this episode have the exact same size"."""
    chunk = turns(5).cut(2)
    play(chunk, 3)

    part = chunk[1:3]
    assert part.get_observations(return_list=True) == [{"a": "a6"}, {"b": "b7"}, {"a": "a8"}]
    assert part.get_observations(-2, neg_index_as_lookback=True) == {"a": "a4"}


@pytest.mark.parametrize("lookback", [1, 3, 5])
def test_a_numpyized_dict_episode_looks_back_further_than_it_has_keys(lookback):
    """Hard 1: `slice` and `cut` fail, because the lookback is computed with the number of keys."""
    space = spaces.Dict(x=spaces.Box(-99.0, 99.0, (2,), np.float32))
    episode = MultiAgentEpisode(observation_space={"a": space})
    episode.add_env_reset(observations={"a": {"x": np.zeros(2, np.float32)}})
    for t in range(1, 9):
        episode.add_env_step({"a": {"x": np.full(2, t, np.float32)}}, {"a": 0}, {"a": 0.0})
    episode.to_numpy()

    cut, part = episode.cut(lookback), episode.slice(slice(6, 8), len_lookback_buffer=lookback)
    seen = cut.get_observations(slice(-lookback - 1, None))["a"]["x"][:, 0]
    assert seen.tolist() == list(range(8 - lookback, 9))
    assert part.get_observations(-lookback, neg_index_as_lookback=True)["a"]["x"].tolist() == [6 - lookback] * 2


# --- Cuts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [4, 5])
@pytest.mark.parametrize("lookback", [0, 1, 2, 10])
def test_a_cut_keeps_every_pending_action_and_its_clock(steps, lookback):
    """Measured: `cut(0)` loses the pending action of the agent that was seen first, which restarts at t = 0."""
    whole, first = turns(steps + 2), turns(steps)
    second = first.cut(lookback)
    assert second._hanging_actions_end == first._hanging_actions_end
    play(second, 2)

    assert second.env_t_to_agent_t["a"].get() == whole.env_t_to_agent_t["a"].get(slice(steps, None))
    for agent in "ab":
        assert second.agent_episodes[agent].t == whole.agent_episodes[agent].t


@pytest.mark.parametrize("lookback", [0, 2])
def test_a_pending_reward_is_counted_once_after_a_cut(lookback):
    """Measured: it is in `_hanging_rewards_end` and in `_hanging_rewards_begin`."""
    chunk = turns(5).cut(lookback)

    assert chunk._hanging_rewards_end == {"a": 5.0}
    assert chunk._hanging_rewards_begin == {}
    assert chunk.get_return(include_hanging_rewards=True) == 5.0


def test_an_agent_without_a_pending_step_has_no_pending_reward():
    """Measured: `_hanging_rewards_end` has zeros for others after a cut."""
    assert turns(5).cut()._hanging_rewards_end == {"a": 5.0}
    assert turns(4).cut(1)._hanging_rewards_end == {"b": 40.0}


def test_a_lookback_is_no_longer_than_the_past():
    """Measured: `cut(10)` after five steps puts ten entries in front of the mapping."""
    chunk = turns(5).cut(10)

    assert chunk.env_t_to_agent_t["a"].get(slice(-5, 1), neg_index_as_lookback=True) == [0, "S", 1, "S", 2, "S"]
    assert chunk.env_t_to_agent_t["a"].lookback == 5


def test_actions_in_the_lookback_are_read_at_their_environment_steps():
    """Measured: after a cut `get_actions(-2)` is empty, although the list shows that action."""
    chunk = turns(5).cut(2)

    assert chunk.get_actions(-2) == {"b": "B3"}
    assert chunk.get_actions(-1) == {"a": "A4"}
    window = {"indices": slice(-2, 0), "neg_index_as_lookback": True}
    assert chunk.get_actions(**window) == {"a": ["A4"], "b": ["B3"]}
    assert chunk.get_actions(**window, return_list=True) == [{"b": "B3"}, {"a": "A4"}]


def test_what_a_recurrent_module_needs_is_there_at_the_start_of_every_chunk():
    """#60205: with a high-level agent that waits, reading `state_out` from the lookback is an IndexError."""
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"high": 0})
    episode.add_env_step({"low": 0}, {"high": 1}, {"high": 0.0}, extra_model_outputs={"high": {"state_out": 0.5}})
    for t in (1, 2, 3):
        episode = episode.cut()
        episode.add_env_step({"low": t}, {"low": 0}, {"low": 0.0}, extra_model_outputs={"low": {"state_out": t}})
        state = episode.get_extra_model_outputs("state_out", -1, env_steps=False)
        assert state == {"high": 0.5, "low": t}

    episode.add_env_step({"high": 4}, {"low": 0}, {"low": 0.0}, extra_model_outputs={"low": {"state_out": 4}})
    assert episode.agent_episodes["high"].get_extra_model_outputs("state_out") == [0.5]


def test_a_chunk_may_have_other_extra_outputs_than_the_one_before():
    """Hard 6: going from a policy to random actions fails in `validate()`."""
    both, pays = {"a": 0, "b": 0}, {"a": 1.0, "b": 1.0}
    first = MultiAgentEpisode()
    first.add_env_reset(observations=both)
    first.add_env_step(both, both, pays, extra_model_outputs={"a": {"x": 0.5}, "b": {"x": 0.5}})
    second = first.cut()
    second.add_env_step(both, both, pays)
    first.concat_episode(second)

    first.validate()
    assert first.get_extra_model_outputs("x") == {"a": [0.5, 0.0], "b": [0.5, 0.0]}
    assert first.get_extra_model_outputs("x_mask") == {"a": [True, False], "b": [True, False]}


# --- Joining ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lookback", [0, 1, 3])
@pytest.mark.parametrize("at", range(7))
def test_joining_undoes_a_cut_in_a_game_with_turns(at, lookback):
    """Measured: a completed action stays pending after joining. PR #60319, #59895, #49191: fixed again and again."""
    whole, first = turns(6), turns(at)
    second = first.cut(lookback)
    play(second, 6 - at)
    first.concat_episode(second)

    assert_same(first, whole)
    assert first.env_t_to_agent_t == whole.env_t_to_agent_t


def test_agents_may_leave_at_the_boundary_of_a_chunk():
    """#61602, #56709: a KeyError for an agent that ended with the last step before the cut."""
    first = MultiAgentEpisode("guests")
    first.add_env_reset(observations={"host": 0, "guest": 0})
    acts, pays = {"host": 0, "guest": 0}, {"host": 1.0, "guest": 1.0}
    first.add_env_step({"host": 1, "guest": 1}, acts, pays, terminateds={"guest": True})
    second = first.cut(len_lookback_buffer=1)
    assert second.agent_ids == second.get_agents_to_act() == {"host"}
    second.add_env_step({"host": 2, "new": 2}, {"host": 1}, {"host": 1.0})

    with pytest.raises(EpisodeError, match=r"agent 'guest', .* found reward after its end"):
        second.add_env_step({}, {}, {"guest": 1.0})
    first.concat_episode(second)
    assert columns(first, "guest") == ([0, 1], [0], [1.0])
    assert first.get_terminateds() == {"host": False, "guest": True, "new": False, "__all__": False}


def test_an_agent_that_left_counts_when_the_last_one_ends():
    """Who terminated in an earlier chunk still decides how the episode ended."""
    first = MultiAgentEpisode()
    first.add_env_reset(observations={"a": 0, "b": 0})
    first.add_env_step({"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": 0.0, "b": 0.0}, terminateds={"a": True})
    second = first.cut()
    second.add_env_step({"b": 2}, {"b": 0}, {"b": 0.0}, truncateds={"b": True})

    assert second.get_terminateds() == {"b": False, "__all__": True}
    first.concat_episode(second)
    assert first.get_terminateds() == {"a": True, "b": False, "__all__": True}


@pytest.mark.parametrize("lookback", [0, 3])
def test_chunks_without_steps_are_ordinary_episodes(lookback):
    """#47542, #46721, #41730: episodes of no steps, or with a lookback only, crash."""
    whole = turns(5)
    empty = whole.cut(lookback)

    for chunk in (empty, turns(5).cut(lookback).to_numpy(), turns(0), MultiAgentEpisode("game")):
        chunk.validate()
        assert (len(chunk), chunk.agent_steps(), chunk.get_return()) == (0, 0, 0.0)
        assert len(chunk[0:0]) == len(chunk.cut(1)) == 0
        assert len(pickle.loads(pickle.dumps(chunk)).to_numpy()) == 0
    whole.concat_episode(empty)
    assert_same(whole, turns(5))


def test_the_whole_episode_can_be_had_at_its_end():
    """PR #52252: when an episode ends, only its last chunk is at hand."""
    chunks = [turns(3)]
    for length in (1, 4, 2):
        chunks.append(chunks[-1].cut(len_lookback_buffer=1))
        play(chunks[-1], length)
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole.concat_episode(chunk)

    assert_same(whole, turns(10))
