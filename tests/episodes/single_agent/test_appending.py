"""Appending to a finalized column costs amortised constant time, and never turns a value into another one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import EpisodiaError, LookbackBuffer, SingleAgentEpisode
from episodia.testing import SPACES, Trajectory
from plain_column import plain, rows
from vandal import arrays_in

COUNT = 10_000
# Doubling from 1 to 10,000 takes 14 moves.
MOST_MOVES = 30


def owner(array):
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def moves(steps):
    """How often the memory behind a column changes while it grows; `steps` yields one of its arrays after each step."""
    count, last = 0, None
    for array in steps:
        if owner(array) is not last:
            count, last = count + 1, owner(array)
    return count


ITEMS = {"number": 1.5, "vector": np.zeros(4, np.float32), "dict": {"x": np.zeros(2), "y": 1}, "string": "text"}


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_ten_thousand_appends_to_a_finalized_buffer_move_it_a_few_times(item):
    buffer = LookbackBuffer([item])
    buffer.finalize()

    def append():
        for _ in range(COUNT):
            buffer.append(item)
            yield next(arrays_in(buffer.lend()))

    assert moves(append()) < MOST_MOVES
    assert len(buffer) == COUNT + 1


def test_ten_thousand_steps_of_a_finalized_episode_move_its_columns_a_few_times():
    episode = Trajectory.sampled(SPACES["box vector float32"], SPACES["discrete"], 1).built().finalize()
    observation = np.zeros(3, np.float32)

    def step():
        for _ in range(COUNT):
            episode.add_env_step(observation, 1, 0.5)
            yield episode.get_observations()

    assert moves(step()) < MOST_MOVES


def test_a_slice_that_grows_is_copied_once_and_then_grows_as_cheaply():
    whole = LookbackBuffer(np.zeros(100))
    buffer = whole.share(slice(0, 50), 0)

    def append():
        for _ in range(COUNT):
            buffer.append(1.0)
            yield buffer.data

    assert moves(append()) < MOST_MOVES
    assert len(whole) == 100


def test_extending_by_one_moves_a_few_times():
    buffer = LookbackBuffer(np.zeros(1))

    def extend():
        for _ in range(COUNT // 10):
            buffer.extend([1.0])
            yield buffer.data

    assert moves(extend()) < MOST_MOVES


# --- No silent cast ---

BIG = 2**53 + 1  # the first integer that float64 cannot hold
CASTS = {
    "a float among integers": ([1, 2], 0.7),
    "300 among bytes": (np.array([1, 2], np.uint8), 300),
    "-1 among bytes": (np.array([1, 2], np.uint8), -1),
    "a long string after a short one": (["a", "b"], "a much longer string"),
    "a long string after an array of short ones": (np.array(["a", "b"]), "a much longer string"),
    "a string among numbers": ([1.0, 2.0], "text"),
    "a number among strings": (["a"], 5),
    "None among numbers": ([1.0], None),
    "a float64 among float32": (np.array([1.0], np.float32), np.float64(0.1)),
    "a Python float among float32": (np.array([1.0], np.float32), 0.1),
    "a Python float among float16": (np.array([1.0], np.float16), 1e6),
    "a big integer among floats": ([0.5], BIG),
    "a big integer among float32": (np.array([0.5], np.float32), 2**24 + 1),
    "a float among big integers": ([BIG], 0.5),
    "a big unsigned integer among integers": ([-1], np.uint64(2**63 + 1)),
    "an integer among big unsigned integers": (np.array([2**63 + 1], np.uint64), -1),
    "a big integer among unsigned integers": (np.array([1], np.uint64), np.int64(-BIG)),
    "the largest integer among floats": ([0.5], 2**63 - 1),
    "the largest unsigned integer among floats": ([0.5], np.uint64(2**64 - 1)),
    "a huge integer among integers": ([1], 2**70),
    "a boolean among integers": ([5], True),
    "an integer among booleans": ([True], 5),
    "a complex number among floats": ([0.5], 1j),
    "not a number among integers": ([5], float("inf")),
}
WAYS = {
    "append": lambda buffer, item: buffer.append(item),
    "extend": lambda buffer, item: buffer.extend([item]),
    "concat": lambda buffer, item: buffer.concat(LookbackBuffer([item])),
    "set": lambda buffer, item: (buffer.append(plain(buffer.get(0))), buffer.set(item, at_indices=-1)),
}


def finalized(items):
    buffer = LookbackBuffer(items)
    buffer.finalize()
    return buffer


def exactly(items):
    """Values for an exact comparison: Python compares integers and floats of any size without rounding."""
    return [plain(item) for item in items]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASTS)
def test_an_item_is_stored_exactly_or_rejected(name, way):
    items, item = CASTS[name]
    buffer = finalized(items)
    before = exactly(items)
    try:
        WAYS[way](buffer, item)
    except EpisodiaError:
        assert rows(buffer.data)[: len(before)] == before
    else:
        assert rows(buffer.data) == [*before, plain(item)]


@pytest.mark.parametrize("name", CASTS)
def test_items_are_finalized_exactly_or_rejected(name):
    items, item = CASTS[name]
    growing = LookbackBuffer([*items, item])
    try:
        growing.finalize()
    except EpisodiaError:
        assert not growing.finalized

    assert rows(growing.data) == [*exactly(items), plain(item)]


NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([BIG, -BIG, 2**63 - 1, -(2**63), 255, 256, 2**24 + 1, 65_505]),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(np.float32),
    st.floats(allow_nan=False, width=16).map(np.float16),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 255).map(np.uint8),
    st.booleans(),
)


@settings(max_examples=4 * settings.default.max_examples)
@given(items=st.lists(NUMBERS, min_size=1, max_size=3), more=st.lists(NUMBERS, min_size=1, max_size=3))
def test_numbers_of_any_kind_are_stored_exactly_or_rejected(items, more):
    buffer, expected = LookbackBuffer(items), exactly(items)
    try:
        buffer.finalize()
    except EpisodiaError:
        assert rows(buffer.data) == expected
        return
    for item in more:
        try:
            buffer.append(item)
        except EpisodiaError:
            pass
        else:
            expected.append(plain(item))

        assert rows(buffer.data) == expected


@settings(max_examples=3 * settings.default.max_examples)
@given(items=st.lists(NUMBERS, min_size=2, max_size=4), new=st.lists(NUMBERS, min_size=1, max_size=2))
def test_numbers_of_any_kind_are_set_exactly_or_rejected(items, new):
    buffer, expected = LookbackBuffer(items), exactly(items)
    try:
        buffer.finalize()
        buffer.set(new, at_indices=list(range(len(new))))
    except EpisodiaError:
        pass
    else:
        expected[: len(new)] = exactly(new)

    assert rows(buffer.data) == expected


@pytest.mark.parametrize("reward", [0.7, np.float32(0.5), True, 3], ids=repr)
def test_a_reward_after_integers_is_stored_exactly(reward):
    episode = SingleAgentEpisode(
        observations=np.zeros(3), actions=np.zeros(2), rewards=np.array([1, 2]), len_lookback_buffer=0
    )

    episode.add_env_step(0.0, 0.0, reward)

    assert episode.get_rewards().tolist() == [1, 2, plain(reward)]


def test_a_reward_beside_which_integers_cannot_be_kept_is_rejected_and_nothing_is_stored():
    episode = SingleAgentEpisode(
        observations=np.zeros(2), actions=np.zeros(1), rewards=np.array([BIG]), len_lookback_buffer=0
    )

    with pytest.raises(EpisodiaError):
        episode.add_env_step(0.0, 0.0, 0.5)

    assert len(episode) == 1
    assert episode.get_rewards().tolist() == [BIG]
    assert len(episode.get_observations()) == 2
