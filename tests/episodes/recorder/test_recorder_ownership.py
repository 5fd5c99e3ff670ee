"""Law 8 for recorded episodes: nobody else's arrays are an episode's, and what was returned does not change."""

import copy
import weakref

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.columns import Columns
from episodia.episodes.recorder.blocks import LeafArray
from episodia.episodes.recorder.recorder import Recorder
from episodia.testing import SPACES, assert_same_episode
from hand_built import Twins, assert_same_episodes
from vandal import arrays_in, ruin

EXTRAS = {"logp": 1.0, "state": {"h": np.zeros(2), "c": (3,)}}
NAMES = ["box vector float32", "discrete", "deep", "dict with text", "sequence"]


def walked(name, steps=4, lanes=2, **options):
    twins = Twins(SPACES[name], SPACES[name], lanes, **options)
    twins.reset(list(range(lanes)), "vector")
    for step in range(steps):
        twins.step(list(range(lanes)), [0] if step == 1 else [], "dicts", ("logp", "state"), autoreset=True)
    return twins


def everything_of(episode):
    return [
        episode.get_observations(),
        episode.get_observations(-1),
        episode.get_actions(),
        episode.get_rewards(),
        episode.get_infos(),
        episode.get_extra_model_outputs("state"),
        episode.get_data_dict(),
        episode.observations.data,
    ]


@pytest.mark.parametrize("name", SPACES)
def test_ruining_what_was_passed_in_changes_nothing(name):
    twins = walked(name)
    for given_array in twins.given:
        ruin(given_array)

    twins.check_handles()
    assert_same_episodes(*twins.take())


@pytest.mark.parametrize("name", SPACES)
def test_ruining_what_came_out_changes_nothing(name):
    twins = walked(name)
    for lane in range(2):
        ruin(everything_of(twins.recorder.episode(lane)))
    for column in (Columns.OBS, Columns.INFOS):
        ruin(twins.recorder.latest(column))
    found, expected = twins.take()
    for episode in found:
        ruin(everything_of(episode))

    assert_same_episodes(found, expected)


@settings(max_examples=40)
@given(data=st.data(), name=st.sampled_from(NAMES), block_steps=st.integers(1, 5), lookback=st.integers(0, 3))
def test_what_was_returned_never_changes(data, name, block_steps, lookback):
    twins = walked(name, block_steps=block_steps, lookback=lookback)
    kept = []
    for _ in range(4):
        for _ in range(data.draw(st.integers(0, 4))):
            ends = data.draw(st.lists(st.integers(0, 1), max_size=1))
            twins.step([0, 1], ends, "vector", ("logp", "state"), autoreset=True)
        handed_out = (twins.take if data.draw(st.booleans()) else twins.take_finished)()[0]
        # Some are let go, so that their memory may be used again.
        kept += [(episode, copy.deepcopy(episode)) for episode in handed_out if data.draw(st.booleans())]

    for episode, before in kept:
        assert_same_episode(episode, before)


def test_returned_columns_are_read_only_slices_of_one_block():
    twins = walked("box vector float32", steps=4)
    finished, *running = twins.take()[0]

    columns = [episode.get_observations() for episode in (finished, *running)]
    assert len({id(column.base) for column in columns}) == 1
    assert columns[0].base is not None
    assert not any(array.flags.writeable for array in arrays_in(columns))


@pytest.mark.parametrize("name", NAMES)
def test_changing_one_returned_episode_changes_no_other(name):
    twins = walked(name, lookback=3)
    found, expected = twins.take()
    changed = found[1]
    changed.set_rewards(new_data=[9.0] * len(changed))
    changed.set_observations(new_data=changed.get_observations(-1), at_indices=0)
    changed.add_env_step(changed.get_observations(0), changed.get_actions(0), 7.0, extra_model_outputs=EXTRAS)

    assert changed.get_rewards([0, -1]).tolist() == [9.0, 7.0]
    for place in (0, *range(2, len(found))):
        assert_same_episode(found[place], expected[place], ignore=["times"])
    twins.check_handles()


def test_memory_is_free_only_without_readers():
    leaf = LeafArray(2, 5, (3,), np.dtype(np.float32))
    assert leaf.is_free

    part = leaf.alias[1, 2:4][1:]
    assert leaf.rows is leaf.rows
    assert not leaf.is_free
    del part
    assert leaf.is_free


def test_the_memory_of_episodes_that_were_let_go_is_used_again():
    twins = walked("box image uint8", lanes=3)
    blocks = []
    for _ in range(6):
        twins.take()
        twins.step([0, 1, 2], (), "none", ("logp",))
        blocks.append(id(twins.recorder._tape.block.leaves[twins.recorder._layout.observations][0].array))

    assert len(set(blocks)) < len(blocks)


def test_the_memory_of_finished_episodes_that_were_let_go_is_used_again():
    twins = walked("box vector float32", lanes=2, block_steps=3)
    for _ in range(20):
        twins.step([0, 1], (0, 1), "none", ("logp", "state"), autoreset=True)
        twins.step([0, 1], (), "none", ("logp", "state"), autoreset=True)
        twins.take_finished()
    tape = twins.recorder._tape

    assert len(tape._chained) + len(tape._spare) <= 3


def test_large_rows_are_there_once_however_many_blocks_they_fill():
    image = np.zeros((2, 32, 32), np.uint8)
    recorder = Recorder(spaces.Box(0, 255, (32, 32), np.uint8), spaces.Discrete(2), 2, block_steps=10, seed=0)
    recorder.reset(image)
    no, resets = np.zeros(2, bool), None
    for step in range(45):
        ends = np.array([step % 7 == 6, step % 4 == 3])
        recorder.step(image, np.zeros(2, np.int64), np.zeros(2), no | ends, no, resets=resets)
        resets = ends
    episodes = recorder.take()
    bases = {id(array): array for array in map(root_of, (episode.get_observations() for episode in episodes))}
    blocks = [weakref.ref(array) for block in recorder._tape._spare for array in block.arrays()]
    del recorder

    rows = sum(map(len, episodes)) + len(episodes) + sum(episodes.lookbacks)
    assert sum(array.nbytes for array in bases.values()) == rows * 32 * 32
    assert blocks
    assert not any(block() is not None for block in blocks)  # the list does not hold them


def root_of(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
