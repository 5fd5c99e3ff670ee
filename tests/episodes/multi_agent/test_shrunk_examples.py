"""What the state machine and the laws have found, each in its smallest form."""

import copy

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing import assert_same_multi_agent_episode, pictured


def walk_on(episode, schedule, start):
    for step in range(start + 1, len(schedule) + 1):
        episode.add_env_step(**schedule.entry(step))
    return episode


def joined(schedule, cut, lookback=0):
    """The episode of a schedule, cut at an environment step and joined again."""
    first = schedule.until(cut).stepped()
    first.concat_episode(walk_on(first.cut(lookback), schedule, cut))
    return first


def test_an_agent_that_is_flagged_before_it_comes_has_not_ended():
    """
    environment step   0   1   2   3
    walker             O   AO  AO  AO
    late               .   T   O   AOT   flagged at 1, but it ends at 3
    """
    episode = pictured("walker: O AOR AOR AOR", "late: . RT O AORT").stepped()

    assert episode[:2].get_terminateds() == {"walker": False, "late": False, "__all__": False}
    assert episode.get_terminateds()["late"]
    assert not episode.is_done


def test_a_reward_of_an_agent_that_is_flagged_before_it_comes_stays_in_the_chunk_in_which_it_came():
    schedule = pictured("walker: O AOR AOR", "late: . RT O")
    reward = schedule.entry(1)["rewards"]["late"]
    first = schedule.until(1).stepped()
    chunk = walk_on(first.cut(), schedule, 1)
    assert (first._hanging_rewards_begin, chunk._hanging_rewards_begin) == ({"late": reward}, {})

    first.concat_episode(chunk)
    assert first._hanging_rewards_begin == {"late": reward}


def test_a_slice_remembers_who_ended_before_it_or_in_it_without_having_observed_in_it():
    """
    environment step   0   1   2   3
    white              O   A   .   T     it ends in [2:3]
    grey               O   A   T   .     and this one before it
    black              O   AO  AO  AO
    """
    part = pictured("white: O A . T", "grey: O A T .", "black: O AOR AOR AOR").stepped()[2:]

    assert part.agent_ids == {"white", "black"}
    assert part.get_terminateds()["white"]
    with pytest.raises(EpisodeError, match="after its end"):
        part.add_env_step({"grey": 5}, {}, {})
    with pytest.raises(EpisodeError, match="after its end"):
        part.add_env_step({"white": 5}, {}, {})


def test_joining_a_chunk_without_steps_does_not_forget_who_observed_last():
    schedule = pictured("walker: O AOR", "flyer: O AORT")

    assert joined(schedule, 1).get_agents_that_stepped() == {"walker", "flyer"}


def test_a_delayed_reward_joined_to_its_step_keeps_its_type():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"walker": 0})
    episode.add_env_step({"walker": 1}, {"walker": 5}, {"walker": 7})
    chunk = episode.cut()
    chunk.add_env_step({}, {}, {"walker": -3}, terminateds={"walker": True})

    episode.concat_episode(chunk)

    assert [(reward, type(reward)) for reward in episode.get_rewards()["walker"]] == [(4, int)]


def test_a_reward_before_an_agent_comes_is_not_added_to_its_last_step_by_joining():
    schedule = pictured("walker: O AOR AOR AOR", "late: . R O AORT")

    assert_same_multi_agent_episode(joined(schedule, 0), schedule.stepped(), ignore=["times"])


def test_infos_alone_are_no_hanging_reward():
    episode = pictured("walker: O I", "flyer: O AOR").stepped()

    assert episode._hanging_rewards_end == {}


@pytest.mark.parametrize("index", [None, slice(0, 5), [0, 1]])
def test_a_list_of_no_extra_outputs_has_a_row_for_each_environment_step(index):
    episode = pictured("walker: O AOR AOR").stepped()

    assert episode.get_extra_model_outputs(indices=index, return_list=True) == [{}, {}]
    assert episode.get_extra_model_outputs(indices=0, return_list=True) == {}


def test_a_pending_step_may_lack_an_extra_output_that_the_lookback_has():
    """
    environment step   0   1 | 2
    walker             O   AO| A     with "logp" before the cut, without after it
    """
    episode = pictured("walker: O AOR", extras=("logp",)).stepped().cut(1)
    episode.add_env_step({}, {"walker": 7}, {})

    past = episode.get_extra_model_outputs("logp", slice(-1, None), neg_index_as_lookback=True)

    assert past == {"walker": [-1.0]}
    assert episode.get_extra_model_outputs("logp", 0) == {}


@pytest.mark.parametrize("finalized", [False, True])
def test_what_is_pending_tells_what_a_missing_item_is_filled_like(finalized):
    episode = pictured("walker: O AOR AOR", "late: . O A", kind="vectors").stepped()
    if finalized:
        episode.finalize()

    filled = episode.get_actions(0, fill=0)["late"]

    assert np.asarray(filled).tolist() == [0.0, 0.0]


def test_what_hangs_is_returned_in_containers_of_its_own():
    episode = pictured("walker: O A", kind="nested", extras=("state",)).stepped()
    expected = copy.deepcopy(episode)

    episode._hanging_actions_end["walker"].clear()
    episode._hanging_extra_model_outputs_end["walker"]["state"].clear()

    assert_same_multi_agent_episode(episode, expected)


@pytest.mark.parametrize("finalized", ["first", "second"])
def test_an_agent_that_comes_in_a_chunk_of_the_other_form_takes_the_form_of_the_whole(finalized):
    schedule = pictured("walker: O AOR AOR", "late: . O AORI", extras=("logp", "state"), kind="nested")
    first = schedule.until(0).stepped()
    second = first.cut()
    (first if finalized == "first" else second).finalize()
    walk_on(second, schedule, 0)

    first.concat_episode(second)

    late = first.agent_episodes["late"]
    assert late.is_finalized == first.is_finalized == (finalized == "first")
    expected = schedule.stepped().finalize()
    assert_same_multi_agent_episode(first.finalize(), expected, ignore=["times"])


def test_what_is_pending_since_before_the_lookback_stands_at_no_environment_step_of_the_chunk():
    """
    environment step   0   1 | 2
    walker             O   A | .      lookback 1: the action answers the observation at 0
    """
    chunk = pictured("walker: O AR R").stepped().cut(1)

    assert chunk.get_actions(slice(-1, None), neg_index_as_lookback=True) == {}
    assert chunk.get_actions(env_steps=False) == {"walker": [50_008]}
