"""Every method of `SingleAgentEpisode`, in examples that can be checked by eye."""

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia import LookbackBuffer, SingleAgentEpisode
from walks import stepped, walk

# --- Creating ---------------------------------------------------------------------------------------------


def test_a_new_episode_is_empty_and_has_a_random_id():
    episode = SingleAgentEpisode()

    assert (len(episode), episode.t, episode.t_started) == (0, 0, 0)
    assert not episode.is_reset
    assert not episode.is_done
    assert not episode.is_finalized
    assert episode.get_observations() == episode.get_actions() == episode.get_rewards() == []
    assert episode.id_ != SingleAgentEpisode().id_


def test_an_episode_is_built_from_a_reset_and_steps():
    episode = SingleAgentEpisode("walk")
    episode.add_env_reset("start", {"seed": 3})
    episode.add_env_step("middle", "left", 1.0, {"lives": 2})
    episode.add_env_step("end", "right", -1.0, terminated=True)

    assert episode.get_observations() == ["start", "middle", "end"]
    assert episode.get_actions() == ["left", "right"]
    assert episode.get_rewards() == [1.0, -1.0]
    assert episode.get_infos() == [{"seed": 3}, {"lives": 2}, {}]
    assert (episode.is_terminated, episode.is_truncated, episode.is_done) == (True, False, True)


def test_the_constructor_makes_the_episode_that_stepping_makes():
    assert stepped(4).get_state().keys() == walk().get_state().keys()
    assert stepped(4).get_observations() == walk().get_observations()
    assert stepped(4).get_infos() == walk().get_infos()
    assert stepped(4).t == walk().t == 4


def test_auto_takes_all_given_data_for_the_past():
    episode = walk(len_lookback_buffer="auto", t_started=20)

    assert len(episode) == 0
    assert (episode.t_started, episode.t) == (20, 20)
    assert episode.get_observations() == [4]
    assert episode.get_actions() == []
    assert episode.get_actions(slice(-2, None)) == [12, 13]
    episode.add_env_step(5, 14, 4.5, extra_model_outputs={"logp": -0.5})
    assert (len(episode), episode.get_actions(), episode.get_return()) == (1, [14], 4.5)


@pytest.mark.parametrize(("lookback", "length"), [(0, 4), (1, 3), (4, 0), (99, 0)])
def test_a_lookback_is_cut_to_the_steps_there_are(lookback, length):
    episode = walk(len_lookback_buffer=lookback)

    assert len(episode) == length
    assert episode.get_actions() == [10, 11, 12, 13][4 - length :]
    assert episode.get_observations() == [0, 1, 2, 3, 4][4 - length :]
    assert episode.get_infos(0) == {"t": 4 - length}


def test_data_may_be_given_as_buffers():
    actions = LookbackBuffer([10, 11, 12, 13], lookback=2)
    episode = SingleAgentEpisode(
        observations=LookbackBuffer([0, 1, 2, 3, 4], lookback=2),
        actions=actions,
        rewards=LookbackBuffer([0.5, 1.5, 2.5, 3.5], lookback=2),
    )
    actions[0] = 99

    assert len(episode) == 2
    assert episode.get_actions() == [12, 13]
    assert episode.get_infos() == [{}, {}, {}]


def test_given_arrays_make_a_finalized_episode():
    episode = walk(actions=np.array([10, 11, 12, 13]))

    assert episode.is_finalized
    assert episode.get_observations().tolist() == [0, 1, 2, 3, 4]
    assert episode.get_extra_model_outputs("logp").dtype == np.float64


def test_ids_and_flags_are_kept_as_given():
    episode = walk(agent_id=7, module_id="legs", multi_agent_episode_id="all", truncated=True, t_started=3)

    assert (episode.id_, episode.agent_id, episode.module_id) == ("walk", 7, "legs")
    assert episode.multi_agent_episode_id == "all"
    assert (episode.is_truncated, episode.is_terminated, episode.is_done) == (True, False, True)
    assert (episode.t_started, episode.t) == (3, 7)


# --- Reading ----------------------------------------------------------------------------------------------


def test_getters_take_an_index_a_list_or_a_slice():
    episode = walk()

    assert episode.get_observations(1) == 1
    assert episode.get_observations(-1) == 4
    assert episode.get_actions([0, -1]) == [10, 13]
    assert episode.get_rewards(slice(1, 3)) == [1.5, 2.5]
    assert episode.get_infos(-2) == {"t": 3}
    assert episode.get_extra_model_outputs("logp", slice(None, None, 2)) == [-0.1, -0.3]


def test_getters_of_a_finalized_episode_return_arrays():
    episode = walk().finalize()

    assert episode.get_observations(1) == 1
    assert episode.get_actions([0, -1]).tolist() == [10, 13]
    assert episode.get_rewards(slice(1, 3)).tolist() == [1.5, 2.5]
    assert episode.get_infos(slice(0, 2)) == [{"t": 0}, {"t": 1}]
    assert episode.get_extra_model_outputs("logp").tolist() == [-0.1, -0.2, -0.3, -0.4]


def test_negative_indices_count_from_the_end_or_into_the_lookback():
    episode = walk(len_lookback_buffer=2)

    assert episode.get_actions() == [12, 13]
    assert episode.get_actions(-3) == 11
    assert episode.get_actions(-1, neg_index_as_lookback=True) == 11
    assert episode.get_actions(slice(-2, 1), neg_index_as_lookback=True) == [10, 11, 12]
    assert episode.get_infos([-1, 0], neg_index_as_lookback=True) == [{"t": 1}, {"t": 2}]


def test_fill_stands_in_for_what_is_not_there():
    episode = walk(len_lookback_buffer=1)

    assert episode.get_rewards(slice(-3, 1), neg_index_as_lookback=True, fill=0.0) == [0.0, 0.0, 0.5, 1.5]
    assert episode.get_actions([2, 3], fill=-1) == [13, -1]
    assert episode.get_infos(9, fill={}) == {}
    assert episode.get_extra_model_outputs("logp", slice(2, 5), fill=0.0) == [-0.4, 0.0, 0.0]
    assert episode.get_observations(slice(2, 6), fill=0) == [3, 4, 0, 0]


def test_discrete_columns_are_read_as_one_hot_vectors():
    episode = SingleAgentEpisode(action_space=spaces.Discrete(3), observation_space=spaces.MultiDiscrete([2, 3]))
    episode.add_env_reset(np.array([0, 2]))
    episode.add_env_step(np.array([1, 0]), 2, 0.0)

    assert episode.get_actions(0, one_hot_discrete=True).tolist() == [0, 0, 1]
    assert episode.get_observations(-1, one_hot_discrete=True).tolist() == [0, 1, 1, 0, 0]
    assert episode.finalize().get_actions(slice(-2, None), fill=0, one_hot_discrete=True).tolist() == [
        [0, 0, 0],
        [0, 0, 1],
    ]


def test_what_getters_return_is_the_callers():
    episode = SingleAgentEpisode(observations=[{"x": np.zeros(2)}], infos=[{"list": [1]}])
    episode.get_observations(0)["x"] = None
    episode.get_observations().append(None)
    episode.get_infos(0)["list"].append(2)

    assert episode.get_observations(0)["x"].tolist() == [0, 0]
    assert episode.get_infos() == [{"list": [1]}]


def test_the_data_dict_has_a_row_for_each_transition():
    episode = walk(terminated=True, t_started=5)
    data = episode.get_data_dict()

    assert data["obs"] == [0, 1, 2, 3]
    assert data["actions"] == [10, 11, 12, 13]
    assert data["infos"] == [{"t": 0}, {"t": 1}, {"t": 2}, {"t": 3}]
    assert data["logp"] == [-0.1, -0.2, -0.3, -0.4]
    assert list(data["t"]) == [5, 6, 7, 8]
    assert list(data["terminateds"]) == [False, False, False, True]
    assert list(data["truncateds"]) == [False] * 4
    assert set(data["eps_id"]) == {"walk"}
    assert episode.finalize().get_data_dict()["obs"].tolist() == [0, 1, 2, 3]


def test_counts_and_the_return_are_those_of_the_chunk():
    episode = walk(len_lookback_buffer=1)

    assert episode.get_return() == 1.5 + 2.5 + 3.5
    assert len(episode) == episode.env_steps() == episode.agent_steps() == 3


def test_the_duration_goes_from_the_reset_to_the_last_step():
    episode = SingleAgentEpisode()
    assert episode.get_duration_s() == 0.0
    episode.add_env_reset(0)
    assert episode.get_duration_s() == 0.0

    episode.add_env_step(1, 0, 0.0)

    assert episode.get_duration_s() == episode._last_step_time - episode._start_time > 0.0
    assert episode.cut()._start_time == episode._last_step_time
    assert episode.cut().get_duration_s() == 0.0


# --- Writing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finalize", [False, True])
def test_setters_overwrite_an_item_some_items_or_all(finalize):
    episode = walk(len_lookback_buffer=1)
    if finalize:
        episode.finalize()

    episode.set_observations(new_data=40, at_indices=-1)
    episode.set_actions(new_data=[21, 22, 23])
    episode.set_rewards(new_data=[-1.0, -2.0], at_indices=[0, 2])
    episode.set_rewards(new_data=9.5, at_indices=-1, neg_index_as_lookback=True)
    episode.set_extra_model_outputs(key="logp", new_data=np.array([0.0, 1.0]), at_indices=slice(0, 2))

    assert list(episode.get_observations()) == [1, 2, 3, 40]
    assert list(episode.get_actions(slice(-4, None))) == [10, 21, 22, 23]
    assert list(episode.get_rewards(slice(-4, None))) == [9.5, -1.0, 2.5, -2.0]
    assert list(episode.get_extra_model_outputs("logp")) == [0.0, 1.0, -0.4]


def test_a_whole_column_may_get_another_shape():
    episode = walk().finalize()

    episode.set_observations(new_data=np.zeros((5, 2, 2), np.float32))

    assert episode.get_observations().shape == (5, 2, 2)
    episode.validate()


def test_setting_one_episode_leaves_those_that_share_its_data_alone():
    episode = walk().finalize()
    part, chunk, fork = episode[1:3], episode.cut(2), copy.copy(episode)

    episode.set_actions(new_data=99, at_indices=2)
    part.set_rewards(new_data=[7.0, 8.0])

    assert [part.get_actions(1), chunk.get_actions(-2), fork.get_actions(2)] == [12, 12, 12]
    assert episode.get_rewards().tolist() == [0.5, 1.5, 2.5, 3.5]


def test_custom_data_is_copied_with_chunks_and_merged_when_they_are_joined():
    episode = stepped(2)
    episode.custom_data["visits"] = [1]
    chunk = episode.cut()
    chunk.custom_data["visits"].append(2)
    chunk.custom_data["new"] = True

    assert episode.custom_data == {"visits": [1]}
    episode.concat_episode(chunk)
    assert episode.custom_data == {"visits": [1, 2], "new": True}
    assert episode[0:1].custom_data == episode.custom_data


# --- Chunks -----------------------------------------------------------------------------------------------


def test_a_cut_continues_at_the_last_observation():
    chunk = stepped(4).cut()

    assert (len(chunk), chunk.id_, chunk.t_started, chunk.t) == (0, "walk", 4, 4)
    assert chunk.get_observations() == [4]
    assert chunk.get_infos() == [{"t": 4}]
    assert chunk.is_reset
    chunk.add_env_step(5, 14, 4.5, extra_model_outputs={"logp": -4})
    assert (chunk.t, chunk.get_observations(), chunk.get_return()) == (5, [4, 5], 4.5)


@pytest.mark.parametrize("lookback", range(7))
def test_a_cut_looks_back_as_far_as_it_is_told_and_there_are_steps(lookback):
    chunk = stepped(4).cut(lookback)
    kept = min(lookback, 4)

    assert chunk.get_actions(slice(-kept, None) if kept else None) == [10, 11, 12, 13][4 - kept :]
    assert chunk.get_observations(slice(-kept - 1, None)) == [0, 1, 2, 3, 4][4 - kept :]
    assert (
        chunk.get_extra_model_outputs("logp", slice(-9, 0), neg_index_as_lookback=True) == [0, -1, -2, -3][4 - kept :]
    )


def test_a_slice_is_an_episode_of_some_of_the_steps():
    part = walk(t_started=10, terminated=True)[1:3]

    assert part.get_observations() == [1, 2, 3]
    assert part.get_actions() == [11, 12]
    assert part.get_infos() == [{"t": 1}, {"t": 2}, {"t": 3}]
    assert part.get_extra_model_outputs("logp") == [-0.2, -0.3]
    assert (part.t_started, part.t, part.id_, part.is_done) == (11, 13, "walk", False)


def test_a_slice_keeps_the_lookback_it_is_told_to():
    episode = walk(len_lookback_buffer=1)

    assert episode[1:].get_actions(slice(-3, None)) == [11, 12, 13]
    assert episode[1:].rewards.lookback == 1
    assert episode.slice(slice(1, None), len_lookback_buffer=0).rewards.lookback == 0
    assert episode.slice(slice(1, None), len_lookback_buffer=9).get_actions(-4) == 10


def test_every_second_step_can_be_sliced_out():
    part = walk()[::2]

    assert part.get_actions() == [10, 12]
    assert part.get_observations() == [0, 2, 4]
    assert walk()[:3:2].get_observations() == [0, 2, 3]


@pytest.mark.parametrize("cut_at", range(5))
def test_concatenating_undoes_a_cut(cut_at):
    whole, first = stepped(4), stepped(cut_at)
    second = first.cut(2)
    for t in range(cut_at, 4):
        second.add_env_step(t + 1, 10 + t, t + 0.5, {"t": t + 1}, extra_model_outputs={"logp": -t})

    first.concat_episode(second)

    assert first.get_data_dict() == whole.get_data_dict()
    assert first.get_observations() == whole.get_observations()
    assert first.get_infos() == whole.get_infos()
    assert list(first.extra_model_outputs) == list(whole.extra_model_outputs)
    assert (first.t_started, first.t) == (0, 4)


def test_concatenating_takes_over_the_end_and_leaves_the_other_chunk_alone():
    first = stepped(1)
    second = first.cut()
    second.add_env_step(2, 11, 1.5, {"t": 2}, truncated=True, extra_model_outputs={"logp": -1})

    first.concat_episode(second.finalize())

    assert first.is_truncated
    assert first.get_actions() == [10, 11]
    assert not first.is_finalized
    assert second.get_actions().tolist() == [11]


def test_weights_versions_are_kept_for_each_range_of_steps():
    first = SingleAgentEpisode("walk")
    first.weights_version = 1
    first.add_env_reset(0)
    for t in range(2):
        first.add_env_step(t + 1, 0, 0.0)
    second = first.cut(1)
    second.weights_version = 2
    second.add_env_step(3, 0, 0.0)
    first.concat_episode(second)

    assert [first.weights_version_at(t) for t in range(3)] == [1, 1, 2]
    assert (first.weights_version, first[:2].weights_version_at(1), first[2:].weights_version_at(2)) == (
        2,
        1,
        2,
    )
    assert second.weights_version_at(1) == 1
    assert [pickle.loads(pickle.dumps(first)).weights_version_at(t) for t in range(3)] == [1, 1, 2]


def test_an_episode_of_unknown_weights_has_no_version():
    assert walk().weights_version is None
    assert walk().weights_version_at(2) is None
