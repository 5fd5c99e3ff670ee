"""A pickled episode is little more than its arrays, and protocol 5 moves those out of band without a copy."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia import LookbackBuffer, SingleAgentEpisode
from episodia.testing import SPACES, Trajectory
from vandal import arrays_in

# At most 2 % and 2 kB more than the arrays.
SHARE, CONSTANT = 1.02, 2_000


def image_episode():
    pixels = np.random.default_rng(0).integers(0, 256, (21, 84, 84, 4), np.uint8)
    return SingleAgentEpisode(
        observations=pixels,
        actions=np.zeros(20, np.int64),
        rewards=np.zeros(20),
        observation_space=spaces.Box(0, 255, (84, 84, 4), np.uint8),
        action_space=spaces.Discrete(6),
        len_lookback_buffer=0,
    )


EPISODES = {
    "images": image_episode,
    "cart pole": lambda: (
        Trajectory.sampled(
            spaces.Box(-np.inf, np.inf, (4,)),
            spaces.Discrete(2),
            200,
            extra_model_outputs={"action_logp": [-0.7] * 200},
        )
        .built()
        .finalize()
    ),
    "nested": lambda: Trajectory.sampled(SPACES["deep"], SPACES["dict"], 100).built().finalize(),
    "chunk": lambda: image_episode().slice(slice(5, 10), len_lookback_buffer=2),
    "with gaps": lambda: image_episode()[::3],
    "one step": lambda: Trajectory.sampled(SPACES["box vector float32"], SPACES["discrete"], 1).built().finalize(),
}
NAMED = pytest.mark.parametrize("name", EPISODES)


def columns_of(episode):
    return [episode.observations, episode.actions, episode.rewards, *episode.extra_model_outputs.values()]


def arrays_of(episode):
    return [array for column in columns_of(episode) for array in arrays_in(column.data)]


def dumped(value):
    buffers = []
    return pickle.dumps(value, protocol=5, buffer_callback=buffers.append), buffers


@NAMED
@pytest.mark.parametrize("protocol", [4, 5])
def test_a_pickle_is_little_more_than_the_arrays(name, protocol):
    episode = EPISODES[name]()

    size = len(pickle.dumps(episode, protocol))

    assert size <= SHARE * sum(array.nbytes for array in arrays_of(episode)) + CONSTANT


@NAMED
def test_all_columns_leave_the_pickle_out_of_band(name):
    episode = EPISODES[name]()

    data, buffers = dumped(episode)

    assert len(data) <= CONSTANT
    assert sum(buffer.raw().nbytes for buffer in buffers) == sum(array.nbytes for array in arrays_of(episode))


@NAMED
def test_the_buffers_of_a_contiguous_episode_are_its_own_memory(name):
    episode = EPISODES[name]()
    _, buffers = dumped(episode)

    lent = [np.frombuffer(buffer, np.uint8) for buffer in buffers]

    for array in arrays_of(episode):
        if array.flags.c_contiguous:
            assert any(np.shares_memory(array, memory) for memory in lent)


@NAMED
def test_loading_uses_the_buffers_that_it_is_given(name):
    data, buffers = dumped(EPISODES[name]())
    given = [bytes(buffer) for buffer in buffers]

    loaded = pickle.loads(data, buffers=given)

    memories = [np.frombuffer(memory, np.uint8) for memory in given]
    for array in arrays_of(loaded):
        assert any(np.shares_memory(array, memory) for memory in memories)
        assert not array.flags.writeable


def test_an_episode_on_borrowed_memory_copies_a_column_before_it_is_changed():
    data, buffers = dumped(image_episode())
    given = [bytearray(buffer) for buffer in buffers]
    loaded = pickle.loads(data, buffers=given)
    before = [bytes(memory) for memory in given]

    loaded.set_rewards(new_data=1.0, at_indices=0)
    loaded.add_env_step(loaded.get_observations(0), 1, 2.0)

    assert loaded.get_rewards([0, -1]).tolist() == [1.0, 2.0]
    assert [bytes(memory) for memory in given] == before


def test_a_space_with_constant_bounds_adds_less_than_a_kilobyte():
    space = spaces.Box(0, 255, (84, 84, 4), np.uint8)

    size = len(pickle.dumps(SingleAgentEpisode(observation_space=space)))

    assert len(pickle.dumps(space)) > 50_000
    assert size - len(pickle.dumps(SingleAgentEpisode())) < 1_000


def test_a_finalized_buffer_leaves_its_pickle_out_of_band():
    data, buffers = dumped(LookbackBuffer(np.zeros((1_000, 4))))

    assert len(data) < CONSTANT
    assert sum(buffer.raw().nbytes for buffer in buffers) == 32_000


@pytest.mark.parametrize("start", [0, 5])
def test_classes_that_are_as_many_everywhere_take_no_more_space_in_a_pickle_than_one(start):
    nvec = np.full((40, 40), 7)
    episode = SingleAgentEpisode(action_space=spaces.MultiDiscrete(nvec, start=np.full((40, 40), start)))

    dumped = pickle.dumps(episode)

    assert len(dumped) < CONSTANT
    assert pickle.loads(dumped).action_space == episode.action_space
