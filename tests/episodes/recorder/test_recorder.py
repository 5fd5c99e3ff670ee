"""What a recorder gives back, on small examples."""

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia.columns import Columns
from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import EpisodeIndexError, EpisodeKeyError
from hand_built import Twins, assert_same_episodes

NUMBERS, CHOICES = spaces.Box(-1e3, 1e3, (), np.float64), spaces.Discrete(9)
QUIET = np.zeros(2, bool)


def walked(steps, *, lanes=2, **options):
    """A recorder after some steps: lane k observes 100 k + t, acts t, is rewarded with 0.5."""
    recorder = Recorder(NUMBERS, CHOICES, lanes, **{"seed": 1, **options})
    recorder.reset(100.0 * np.arange(lanes))
    walk_on(recorder, range(steps))
    return recorder


def walk_on(recorder, times, **given):
    lanes = recorder.num_lanes
    for t in times:
        flags = np.zeros(lanes, bool)
        data = (100.0 * np.arange(lanes) + t + 1, np.full(lanes, t % 9), np.full(lanes, 0.5))
        recorder.step(*data, flags, flags, **given)


def test_ids_are_derived_from_seed_lane_and_number():
    recorder = walked(2, seed=42)
    recorder.reset(np.zeros(2))
    walk_on(recorder, range(1))

    assert [episode.id_ for episode in recorder.take()] == ["42-0-0", "42-1-0", "42-0-1", "42-1-1"]


def test_recorders_without_a_seed_make_different_ids():
    first, second = (walked(1, seed=None).take()[0].id_ for _ in range(2))

    assert first != second


def test_a_return_without_steps_is_empty_and_loses_nothing():
    recorder = walked(0)

    assert len(recorder.take()) == 0
    walk_on(recorder, range(1))
    assert recorder.take()[1].get_observations().tolist() == [100.0, 101.0]


def test_a_reset_in_the_middle_returns_what_was_recorded_as_it_is():
    recorder = walked(2)
    recorder.reset(np.array([7.0]), lanes=[1])
    interrupted, other = recorder.take()

    assert (interrupted.id_, len(interrupted), interrupted.is_done) == ("1-1-0", 2, False)
    assert other.id_ == "1-0-0"
    assert recorder.episode(1).get_observations() == [7.0]


def test_a_reset_of_no_lane_changes_nothing():
    recorder = walked(2)
    recorder.reset(np.zeros(0), lanes=np.zeros(2, bool))
    walk_on(recorder, [2])

    assert [episode.get_observations(-1) for episode in recorder.take()] == [3.0, 103.0]
    assert recorder._tape.cursor is not None


def test_the_next_chunk_looks_back_into_the_one_before():
    recorder = walked(3, lookback=2)
    recorder.take()
    walk_on(recorder, range(3, 5))
    chunk = recorder.take()[0]

    assert (chunk.t_started, chunk.t, chunk.rewards.lookback) == (3, 5, 2)
    assert chunk.observations.data.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert chunk.get_actions([-2, -1], neg_index_as_lookback=True).tolist() == [1, 2]


@pytest.mark.parametrize("block_steps", [1, 2, 3, 50])
def test_an_episode_of_many_blocks_is_returned_in_one_piece(block_steps):
    recorder = walked(20, block_steps=block_steps)
    episode = recorder.take()[1]

    assert episode.get_observations().tolist() == [100.0 + t for t in range(21)]
    assert episode.get_observations().flags.c_contiguous
    assert episode.get_actions().tolist() == [t % 9 for t in range(20)]


@pytest.mark.parametrize("block_steps", [2, 50])
def test_an_episode_in_view_grows_with_each_look(block_steps):
    recorder = walked(1, block_steps=block_steps)
    episode = recorder.episode(0)
    walk_on(recorder, range(1, 7))

    assert recorder.episode(0) is episode
    assert (episode.t, len(episode), episode.get_observations()) == (7, 7, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    assert (episode.get_actions(-1), episode.get_rewards(slice(-2, None))) == (6, [0.5, 0.5])


def test_between_two_looks_an_episode_stays_in_itself_consistent():
    recorder = walked(2)
    episode = recorder.episode(0)
    walk_on(recorder, range(2, 4))

    episode.validate()
    assert (episode.t, len(episode.get_observations()), len(episode.get_rewards())) == (2, 3, 2)


def test_the_object_in_view_is_the_one_that_is_returned():
    recorder = walked(2)
    episode = recorder.episode(0)
    episode.custom_data["note"] = [1]
    taken = recorder.take()[0]

    assert taken is episode
    assert taken.is_finalized
    assert recorder.episode(0) is not episode
    assert recorder.episode(0).custom_data == {"note": [1]}


def test_an_episode_that_has_ended_stays_in_view_until_the_next_reset():
    recorder = walked(1)
    recorder.step(np.zeros(2), np.zeros(2, int), np.zeros(2), np.array([True, False]), QUIET)
    before = recorder.episodes()[0]
    recorder.take()

    assert recorder.episodes()[0] is before
    assert (before.is_terminated, recorder.idle_lanes) == (True, [0])


def test_an_episode_in_view_rejects_steps_that_are_not_recorded():
    episode = walked(1).episode(0)

    with pytest.raises(ValueError, match="being recorded"):
        episode.add_env_step(5.0, 1, 0.5)
    assert (len(episode), episode.get_observations()) == (1, [0.0, 1.0])


def test_copies_cuts_and_pickles_of_an_episode_in_view_are_their_own():
    recorder = walked(2)
    episode = recorder.episode(0)
    others = [copy.copy(episode), pickle.loads(pickle.dumps(episode)), episode.slice(slice(0, 2))]
    following = episode.cut(1)
    walk_on(recorder, range(2, 4))
    for other in others:
        other.add_env_step(9.0, 1, 1.0)
        assert other.get_observations() == [0.0, 1.0, 2.0, 9.0]

    assert following.get_observations(-2) == 1.0
    assert recorder.episode(0).get_observations() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_the_latest_items_are_one_batch():
    recorder = walked(3)
    recorder.take()
    walk_on(recorder, [3], extras={"logp": np.array([0.25, 0.5])})

    assert recorder.latest(Columns.OBS).tolist() == [4.0, 104.0]
    assert recorder.latest(Columns.ACTIONS).tolist() == [3, 3]
    assert recorder.latest("logp").tolist() == [0.25, 0.5]
    assert recorder.latest(Columns.INFOS).tolist() == [{}, {}]


def test_the_latest_items_of_lanes_that_drifted_apart_are_one_batch():
    recorder = walked(3)
    recorder.reset(np.array([7.0]), lanes=[1])
    walk_on(recorder, [3])

    assert recorder.latest(Columns.OBS).tolist() == [4.0, 104.0]
    assert not recorder.latest(Columns.OBS).flags.writeable


def test_there_is_no_latest_action_before_the_first_step():
    recorder = walked(3)
    recorder.reset(np.array([7.0]), lanes=[1])

    with pytest.raises(EpisodeIndexError, match="no item"):
        recorder.latest(Columns.ACTIONS)


def test_an_unknown_column_is_rejected():
    with pytest.raises(EpisodeKeyError, match="'logits'"):
        walked(1).latest("logits")


@pytest.mark.parametrize("lookback", [0, 2])
def test_extra_columns_may_change_with_a_return(lookback):
    recorder = walked(0, lookback=lookback)
    walk_on(recorder, range(3), extras={"logp": np.array([0.25, 0.5])})
    recorder.take()
    walk_on(recorder, range(3, 4), extras={"value": np.array([1, 2])})
    chunk = recorder.take()[0]
    walk_on(recorder, range(4, 6), extras={"value": np.array([1, 2])})
    last = recorder.take()[0]

    assert list(chunk.extra_model_outputs) == ["value"]
    assert (chunk.extra_model_outputs["value"].lookback, chunk.rewards.lookback) == (0, lookback)
    assert last.extra_model_outputs["value"].lookback == min(lookback, 1)
    assert last.get_extra_model_outputs("value").tolist() == [1, 1]


def test_duration_is_from_the_reset_to_the_last_step():
    recorder = walked(3)
    first = recorder.take()[0]
    walk_on(recorder, range(3, 5))
    second = recorder.take()[0]

    assert first.get_duration_s() > 0.0
    assert second._start_time == first._last_step_time < second._last_step_time


def test_finished_episodes_can_be_had_without_cutting_the_others():
    twins = Twins(NUMBERS, CHOICES, 2)
    twins.reset([0, 1])
    twins.step([0, 1])
    twins.step([0, 1], ends=[1])
    twins.step([0])
    assert_same_episodes(*twins.take_finished())
    twins.step([0])
    found, expected = twins.take()

    assert_same_episodes(found, expected)
    assert [len(episode) for episode in found] == [4]


def test_data_without_spaces_is_recorded_as_it_comes():
    recorder = Recorder(None, None, 2, seed=0)
    recorder.reset({"x": np.zeros((2, 3)), "y": (np.array(["a", "b"]),)})
    recorder.step({"x": np.ones((2, 3)), "y": (np.array(["c", "longer"]),)}, np.ones((2, 1)), np.zeros(2), QUIET, QUIET)
    episode = recorder.take()[1]

    assert episode.get_observations()["y"][0].tolist() == ["b", "longer"]
    assert episode.get_observations(1)["x"].tolist() == [1.0, 1.0, 1.0]
