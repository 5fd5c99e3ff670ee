"""Slices: who is in them, what came in them, and which of them can be stepped on from."""

import copy
import pickle

import pytest

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing import assert_same_multi_agent_episode, pictured
from turn_taking import play, turns

COPIES = {
    "from a state": lambda episode: MultiAgentEpisode.from_state(episode.get_state()),
    "unpickled": lambda episode: pickle.loads(pickle.dumps(episode)),
    "fork": copy.copy,
    "cut": lambda episode: episode.cut(),
    "sliced again": lambda episode: episode[1:],
}


def waits():
    """
    environment step   0   1   2   3   4   5
    scout              O   AR  .   .   R   O      one step, from 0 to 5
    guard              O   AO  AO  AO  AO  AO
    """
    return pictured("scout: O AR . . R OR", "guard: O AOR AOR AOR AOR AOR")


# --- Who is in a slice ---


def test_an_agent_that_was_seen_in_the_lookback_is_in_the_slice():
    episode = waits().stepped()

    part = episode.slice(slice(2, 4), len_lookback_buffer=2)

    assert part.agent_ids == {"scout", "guard"}
    assert part.get_observations(-2, neg_index_as_lookback=True) == episode.get_observations(0)
    assert part.get_actions(-2, neg_index_as_lookback=True) == episode.get_actions(0)
    assert len(part.agent_episodes["scout"]) == 0


@pytest.mark.parametrize("lookback", [0, 1])
def test_an_agent_that_waits_is_in_the_slice_also_if_it_was_seen_before_the_lookback(lookback):
    part = waits().stepped().slice(slice(2, 4), len_lookback_buffer=lookback)

    assert part.agent_ids == {"scout", "guard"}
    assert part.get_observations(slice(-2, None), agent_ids="scout") == {}
    assert part.agent_episodes["scout"].get_observations() == [waits().entry(0)["observations"]["scout"]]


@pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])
@pytest.mark.parametrize("start", [0, 1], ids=["whole", "carried over a cut"])
def test_a_step_belongs_to_the_slice_in_which_it_is_complete(start, finalized):
    """The scout's one step begins at 0, before the cut and before every slice but the first, and is complete at 5."""
    schedule = waits()
    episode = schedule.until(start).stepped().cut() if start else schedule.until(0).stepped()
    for t in range(start + 1, 6):
        episode.add_env_step(**schedule.entry(t))
    episode = episode.finalize() if finalized else episode
    whole = schedule.stepped().agent_episodes["scout"]

    for place in range(5 - start):
        waiting, answered = episode[:place], episode[place:]
        assert len(waiting.agent_episodes["scout"]) == 0
        assert bool(waiting._hanging_actions_end.get("scout")) == (place + start > 0)
        assert list(answered.agent_episodes["scout"].get_observations()) == whole.get_observations()
        assert list(answered.agent_episodes["scout"].get_actions()) == whole.get_actions()
        assert list(answered.agent_episodes["scout"].get_rewards()) == whole.get_rewards()
        waiting.concat_episode(answered)
        assert_same_multi_agent_episode(waiting, episode, ignore=["times"])


def test_an_agent_that_ended_in_the_slice_unseen_is_done_there():
    """
    environment step   0   1   2   3
    sheep              O   A   T         its step stands at 0
    wolf               O   AO  AO  AO
    """
    episode = pictured("sheep: O AR RT .", "wolf: O AOR AOR AOR").stepped()

    part = episode.slice(slice(1, 3), len_lookback_buffer=1)

    assert part.get_terminateds() == {"sheep": True, "wolf": False, "__all__": False}
    assert part.get_rewards(-1, neg_index_as_lookback=True) == episode.get_rewards(0)
    assert part.agent_episodes["sheep"].get_rewards() == episode.agent_episodes["sheep"].get_rewards()
    assert episode.slice(slice(2, 3), len_lookback_buffer=2).agent_ids == {"wolf"}
    part.validate()


def test_an_agent_that_ended_before_the_slice_is_not_in_it():
    episode = pictured("sheep: O AORT . .", "wolf: O AOR AOR AOR").stepped()

    assert episode.slice(slice(2, 3), len_lookback_buffer=2).agent_ids == {"wolf"}


@pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])
def test_an_agent_whose_observation_at_a_cut_was_replaced_later_is_in_the_slice_with_the_one_before(finalized):
    """
    environment step   0   1 ┊ 2   3
    sensor             O   AO┊ .   O     the observation at 1 is replaced by the one at 3
    robot              O   AO┊ AO  AO
    """
    schedule = pictured("sensor: O AOR . O", "robot: O AOR AOR AOR", extras=("logp",))
    chunk = schedule.until(1).stepped().cut(len_lookback_buffer=1)
    for t in (2, 3):
        chunk.add_env_step(**schedule.entry(t))
    part = (chunk.finalize() if finalized else chunk)[:1]

    sensor = part.agent_episodes["sensor"]
    assert (sensor.t_started, len(sensor), sensor.observations.lookback) == (0, 0, 0)
    assert part.get_observations(-1, neg_index_as_lookback=True) == schedule.entry(0)["observations"]
    assert part.get_actions(-1, neg_index_as_lookback=True) == schedule.entry(1)["actions"]
    part.validate()


@pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])
@pytest.mark.parametrize("lookback", [0, 2])
def test_a_chunk_from_its_start_to_its_end_is_all_of_it(finalized, lookback):
    """
    environment step   0   1 ┊ 2   3   4
    scout              O   AR┊ .   O   AO    its first step is pending at the cut
    sheep              O   AR┊ RT  .   .     so is its last, and it ends without being shown anything
    guard              O   AO┊ AO  AO  AO
    """
    schedule = pictured("scout: O AR . OR AOR", "sheep: O AR RT . .", "guard: O AOR AOR AOR AOR")
    chunk = schedule.until(1).stepped().cut(len_lookback_buffer=lookback)
    for t in (2, 3, 4):
        chunk.add_env_step(**schedule.entry(t))
    chunk = chunk.finalize() if finalized else chunk

    assert_same_multi_agent_episode(chunk[:], chunk)
    assert chunk[:].get_return() == chunk[:3].get_return() == chunk.get_return()
    whole = schedule.until(1).stepped()
    whole.concat_episode(chunk[:])
    assert whole.get_return() == schedule.stepped().get_return()


# --- Rewards that belong to no step ---


def test_a_reward_from_before_its_agent_came_is_in_the_slice_in_which_it_came():
    schedule = pictured("late: . R . R OR AOR", "walker: O AOR AOR AOR AOR AOR")
    rewards = [schedule.entry(t)["rewards"].get("late", 0) for t in range(6)]
    episode = schedule.stepped()

    early = [episode[t : t + 1]._hanging_rewards_begin.get("late", 0) for t in range(5)]

    assert early == [*rewards[1:5], 0]
    assert episode._hanging_rewards_begin == {"late": sum(rewards[:5])}


def test_a_reward_in_the_lookback_is_not_of_this_chunk():
    rewards = [{"late": 1.0}, {"late": 2.0}, {"late": 4.0}]
    observations, actions = [{"a": 0}, {"a": 1}, {"a": 2}, {"a": 3, "late": 0}], [{"a": 0}] * 3
    rewards = [{"a": 0.0, **entry} for entry in rewards]

    episode = MultiAgentEpisode(observations=observations, actions=actions, rewards=rewards, len_lookback_buffer=2)

    assert episode._hanging_rewards_begin == {"late": 4.0}


# --- Stepping on ---


@pytest.mark.parametrize("lookback", [0, 2])
def test_a_slice_to_the_end_goes_on_as_the_episode_does(lookback):
    schedule = waits()
    part = schedule.until(4).stepped().slice(slice(2, None), len_lookback_buffer=lookback)

    part.add_env_step(**schedule.entry(5))

    whole = schedule.stepped().agent_episodes["scout"]
    assert part.agent_episodes["scout"].get_rewards() == whole.get_rewards()
    assert part.agent_episodes["scout"].get_observations() == whole.get_observations()


def test_a_slice_at_which_no_agent_waits_can_be_continued():
    schedule = pictured("a: O AOR AOR AOR", "b: O AOR AOR AOR")
    part = schedule.stepped()[:2]

    part.add_env_step(**schedule.entry(3))

    assert_same_multi_agent_episode(part, schedule.stepped(), ignore=["times"])


def test_a_slice_that_ends_while_an_agent_waits_is_not_stepped_on_from():
    """The pending reward has what came after the slice: adding it again would count it twice."""
    part = turns(5)[:3]
    assert part._hanging_rewards_end == {"a": 3.0 + 4.0}

    with pytest.raises(EpisodeError, match=r"'game': found a step after a slice in which the agents \['a'\] wait"):
        play(part, 1)


@pytest.mark.parametrize("moment", range(5))
def test_a_copy_of_a_moment_goes_on_with_all_waiting_agents(moment):
    def pay_and_end(episode):
        episode.add_env_step({"a": "end", "b": "end"}, {}, {"a": 100.0, "b": 100.0}, terminateds={"__all__": True})

    episode = turns(moment)
    other = copy.copy(episode)
    play(episode, 5 - moment)
    pay_and_end(other)

    expected = turns(moment)
    pay_and_end(expected)
    assert_same_multi_agent_episode(other, expected, ignore=["times"])
    assert_same_multi_agent_episode(episode, turns(5), ignore=["times"])


@pytest.mark.parametrize("way", COPIES.values(), ids=COPIES)
def test_what_is_made_of_such_a_slice_is_not_stepped_on_from_either(way):
    with pytest.raises(EpisodeError, match="would count twice"):
        play(way(turns(5)[:3]), 1)
