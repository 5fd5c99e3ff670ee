"""What plugins write into running episodes is what later readers see."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia.columns import Columns
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import ShapeError
from episodia.testing import SPACES, assert_same_episode
from hand_built import Twins, assert_same_episodes

BOX = spaces.Box(-1e3, 1e3, (2,), np.float32)


def step(recorder, value, ends=(False, False)):
    data = (np.full((2, 2), value, np.float32), np.zeros(2, int), np.full(2, value))
    recorder.step(*data, np.array(ends), np.zeros(2, bool))


def preprocess(recorder):
    """Write the sum of each last observation in its place, as an integer."""
    for episode in recorder.episodes():
        if not episode.is_finalized:
            episode.set_observations(new_data=int(np.sum(episode.get_observations(-1))), at_indices=-1)


def preprocessed(steps, **options):
    recorder = Recorder(BOX, spaces.Discrete(2), 2, seed=0, **options)
    recorder.reset(np.zeros((2, 2), np.float32))
    preprocess(recorder)
    for value in range(1, steps + 1):
        step(recorder, value)
        preprocess(recorder)
    return recorder


@pytest.mark.parametrize("block_steps", [1, 2, 50])
def test_items_of_another_shape_and_dtype_replace_the_recorded_ones(block_steps):
    recorder = preprocessed(3, block_steps=block_steps)

    assert recorder.latest(Columns.OBS).tolist() == [6, 6]
    assert recorder.episode(0).get_observations() == [0, 2, 4, 6]
    episode = recorder.take()[0]
    assert episode.get_observations().tolist() == [0, 2, 4, 6]
    assert episode.get_observations().dtype == np.int64


def test_what_was_written_is_the_lookback_of_the_next_chunk():
    recorder = preprocessed(3, lookback=2)
    recorder.take()
    step(recorder, 4)
    preprocess(recorder)
    chunk = recorder.take()[1]

    assert chunk.observations.data.tolist() == [2, 4, 6, 8]
    assert chunk.observations.lookback == 2


def test_the_next_episode_of_the_lane_is_read_from_the_block_again():
    recorder = preprocessed(1)
    step(recorder, 2, ends=(True, True))
    recorder.reset(np.full((2, 2), 5, np.float32))

    assert recorder.latest(Columns.OBS).tolist() == [[5.0, 5.0], [5.0, 5.0]]


def test_the_latest_items_are_those_written_in_one_lane_only():
    recorder = Recorder(BOX, spaces.Discrete(2), 2, seed=0)
    recorder.reset(np.zeros((2, 2), np.float32))
    recorder.episode(1).set_observations(new_data=np.ones(2, np.float32), at_indices=-1)

    assert recorder.latest(Columns.OBS).tolist() == [[0.0, 0.0], [1.0, 1.0]]
    step(recorder, 3.0)
    assert recorder.latest(Columns.OBS).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert recorder.take()[1].get_observations().tolist() == [[1.0, 1.0], [3.0, 3.0]]


def test_items_that_do_not_fit_together_are_rejected_and_nothing_is_returned():
    recorder = preprocessed(2)
    step(recorder, 3)

    with pytest.raises(ShapeError, match="'0-0-0'"):
        recorder.take()
    preprocess(recorder)
    assert recorder.take()[1].get_observations().tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("name", SPACES)
def test_writing_into_every_column_equals_writing_into_a_hand_built_episode(name):
    twins = Twins(SPACES[name], SPACES[name], 2, lookback=2, block_steps=2)
    twins.reset([0, 1], "vector")
    for turn in range(6):
        twins.step([0, 1], [1] if turn == 3 else [], "vector", ("logp", "state"), autoreset=True)
        for episode in (twins.recorder.episode(0), twins.episodes[0]):
            episode.set_observations(new_data=episode.get_observations(0), at_indices=-1)
            episode.set_actions(new_data=episode.get_actions(0), at_indices=-1)
            episode.set_rewards(new_data=float(turn), at_indices=-1)
            episode.set_extra_model_outputs(key="logp", new_data=np.float32(turn), at_indices=-1)
            episode.custom_data["turn"] = turn
        twins.check_handles()
        twins.check_latest()
        if turn in (1, 2):
            assert_same_episodes(*twins.take())

    assert_same_episodes(*twins.take())


def test_a_viewed_episode_that_was_finalized_goes_on_in_that_form():
    twins = Twins(BOX, spaces.Discrete(2), 2)
    twins.reset([0, 1])
    twins.step([0, 1])
    for episode in (twins.recorder.episode(0), twins.episodes[0]):
        episode.finalize()
        episode.set_rewards(new_data=[5.0])
    twins.step([0, 1])

    assert_same_episode(twins.recorder.episode(0), twins.episodes[0], ignore=["times"])
    assert_same_episodes(*twins.take())


@pytest.mark.parametrize("block_steps", [1, 2, 50])
def test_single_items_and_infos_are_those_of_the_whole_column_at_every_step(block_steps):
    recorder = Recorder(BOX, spaces.Discrete(2), 2, seed=0, block_steps=block_steps)
    recorder.reset(np.zeros((2, 2), np.float32), {"t": np.array([0, 0])})
    for t in range(1, 6):
        values = np.full((2, 2), t, np.float32)
        recorder.step(values, np.zeros(2, int), np.full(2, t), *np.zeros((2, 2), bool), {"t": np.array([t, t])})
        episode = recorder.episode(0)

        assert [episode.get_observations(at).tolist() for at in range(t + 1)] == [[at, at] for at in range(t + 1)]
        assert [episode.get_rewards(at) for at in range(t)] == list(range(1, t + 1))
        assert (
            [episode.get_infos(at) for at in range(t + 1)] == episode.get_infos() == [{"t": at} for at in range(t + 1)]
        )


def test_a_live_list_keeps_its_episodes_from_one_step_to_the_next():
    recorder = preprocessed(1)
    live = LiveEpisodes(recorder)
    before = list(live)
    step(recorder, 2)
    live.refresh()

    assert all(now is then for now, then in zip(live, before, strict=True))
    assert [(len(episode), episode.get_observations(-1).tolist()) for episode in live] == [(2, [2, 2])] * 2


def test_what_a_reader_got_stays_when_the_item_is_overwritten():
    recorder = preprocessed(0)
    step(recorder, 3)
    episode = recorder.episode(0)
    read = episode.get_observations(-1)
    episode.set_observations(new_data=read * 2, at_indices=-1)

    assert (read.tolist(), episode.get_observations(-1).tolist()) == ([3, 3], [6, 6])
    assert recorder.episode(1).get_observations(-1).tolist() == [3, 3]
