"""Infos in vector form, taken apart when somebody asks."""

import numpy as np
from gymnasium import spaces

from episodia.episodes.recorder.recorder import Recorder
from episodia.episodes.recorder.vector_infos import InfoEntry, LazyInfos

NO = np.zeros(2, bool)


def taken(*infos):
    recorder = Recorder(spaces.Discrete(9), spaces.Discrete(9), 2, seed=0)
    zeros = np.zeros(2, np.int64)
    recorder.reset(zeros)
    for entry in infos:
        recorder.step(zeros, zeros, np.zeros(2), NO, NO, entry)
    return recorder.take()


def test_masks_tell_which_lanes_have_a_key():
    entry = InfoEntry.of({"a": np.array([1, 2]), "_a": np.array([True, False]), "b": np.array([3, 4])}, range(2))

    assert [entry.info(lane) for lane in range(2)] == [{"a": 1, "b": 3}, {"b": 4}]


def test_nested_infos_are_taken_apart_at_every_depth():
    inner = {"r": np.array([0.5, 1.5]), "_r": np.array([False, True])}
    entry = InfoEntry.of({"episode": inner, "_episode": np.array([True, True])}, range(2))

    assert [entry.info(lane) for lane in range(2)] == [{"episode": {}}, {"episode": {"r": 1.5}}]


def test_objects_stay_what_they_are():
    words = np.empty(2, object)
    words[:] = [["a", "b"], None]
    entry = InfoEntry.of({"words": words, "_words": np.array([True, True])}, range(2))

    assert [entry.info(lane) for lane in range(2)] == [{"words": ["a", "b"]}, {"words": None}]


def test_rows_belong_to_the_lanes_that_were_named():
    entry = InfoEntry.of({"a": np.array([10, 11])}, [5, 3])

    assert (entry.info(5), entry.info(3)) == ({"a": 10}, {"a": 11})


def test_what_is_not_one_value_for_each_lane_is_for_all():
    entry = InfoEntry.of({"seed": 7, "_hidden": 1, "bounds": np.zeros(3)}, range(2))

    assert entry.info(1)["seed"] == 7
    assert entry.info(1)["_hidden"] == 1
    assert entry.info(0)["bounds"].tolist() == [0.0, 0.0, 0.0]


def test_infos_are_not_made_before_they_are_read():
    episode = taken({"a": np.array([1, 2])}, None)[1]
    storage = episode.infos.storage
    assert isinstance(storage, LazyInfos)
    episode.get_rewards()
    assert (len(episode.infos), storage.is_made) == (3, False)

    assert episode.get_infos() == [{}, {"a": 2}, {}]
    assert storage.is_made


def test_parts_of_unmade_infos_are_made_by_each_for_itself():
    episode = taken({"a": np.array([1, 2])}, {"a": np.array([3, 4])})[0]
    part, rest = episode[1:], episode[:1]
    episode.infos.set({"b": 0}, at_indices=2)

    assert part.get_infos() == [{"a": 1}, {"a": 3}]
    assert rest.get_infos() == [{}, {"a": 1}]
    assert episode.get_infos() == [{}, {"a": 1}, {"b": 0}]


def test_infos_that_were_read_go_on_with_the_episode():
    recorder = Recorder(spaces.Discrete(9), spaces.Discrete(9), 2, seed=0, block_steps=2)
    zeros = np.zeros(2, np.int64)
    recorder.reset(zeros, {"t": np.array([0, 0])})
    for t in range(1, 6):
        assert recorder.episode(0).get_infos(-1) == {"t": t - 1}
        recorder.step(zeros, zeros, np.zeros(2), NO, NO, {"t": np.array([t, 9])})

    assert recorder.take()[0].get_infos() == [{"t": t} for t in range(6)]
