"""Law 3, second part: an episode that is stored and restored is the same, in every field."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import LookbackBuffer, SingleAgentEpisode
from episodia.space_codec import decode_space, encode_space
from episodia.testing import EPISODES, SPACES, Trajectory, assert_same_episode, episodes, spaces


def out_of_band(value):
    buffers = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytearray(buffer) for buffer in buffers])


RESTORE = {
    "state": lambda episode: SingleAgentEpisode.from_state(episode.get_state()),
    "pickled state": lambda episode: SingleAgentEpisode.from_state(pickle.loads(pickle.dumps(episode.get_state()))),
    **{
        f"pickle {protocol}": lambda episode, protocol=protocol: pickle.loads(pickle.dumps(episode, protocol))
        for protocol in range(2, 6)
    },
    "pickle out of band": out_of_band,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
WAYS = pytest.mark.parametrize("way", RESTORE)


@WAYS
@pytest.mark.parametrize("name", EPISODES)
def test_every_named_episode_is_restored(name, way):
    episode = EPISODES[name]()

    assert_same_episode(RESTORE[way](episode), episode)


@given(episode=episodes(), way=st.sampled_from(sorted(RESTORE)))
def test_every_drawn_episode_is_restored(episode, way):
    assert_same_episode(RESTORE[way](episode), episode)


@WAYS
@pytest.mark.parametrize("name", SPACES)
def test_episodes_in_every_space_are_restored(name, way):
    episode = Trajectory.sampled(SPACES[name], SPACES[name], 3, lookback=1).built()

    assert_same_episode(RESTORE[way](episode), episode)
    assert_same_episode(RESTORE[way](episode.finalize()), episode)


@given(episode=episodes(), start=st.integers(0, 3), step=st.integers(1, 3), way=st.sampled_from(sorted(RESTORE)))
def test_slices_are_restored(episode, start, step, way):
    part = episode[start::step]

    assert_same_episode(RESTORE[way](part), part)


@WAYS
@pytest.mark.parametrize("name", [name for name, make in EPISODES.items() if make().is_reset and not make().is_done])
def test_a_restored_episode_goes_on_as_the_original_does(name, way):
    episode = EPISODES[name]()
    restored = RESTORE[way](episode)
    other = copy.deepcopy(episode)
    observation, action = episode.get_observations(-1), _any_action(episode)

    for copied in (other, restored):
        extras = {key: column.get(-1) for key, column in episode.extra_model_outputs.items()}
        copied.add_env_step(observation, action, 2.5, {"new": True}, truncated=True, extra_model_outputs=extras)

    assert_same_episode(restored, other, ignore=["times"])


def _any_action(episode):
    return 0 if episode.action_space is None else episode.action_space.sample()


@WAYS
@pytest.mark.parametrize("name", ["with custom data", "finalized with custom data"])
def test_custom_data_can_still_be_changed_after_restoring(name, way):
    restored = RESTORE[way](EPISODES[name]())

    restored.custom_data["counts"] += 1
    restored.custom_data["notes"].append("b")

    assert restored.custom_data["counts"].tolist() == [1, 2, 3]
    assert restored.custom_data["notes"] == ["a", "b"]


@pytest.mark.parametrize("name", ["with infos", "finalized with infos"])
def test_the_column_of_infos_is_restored_on_its_own(name):
    infos = EPISODES[name]().infos

    restored = pickle.loads(pickle.dumps(infos))

    assert restored == infos
    assert [type(info.get("history")) for info in restored] == [type(info.get("history")) for info in infos]


@pytest.mark.parametrize("name", ["running", "finalized running", "finalized with extra outputs"])
def test_a_state_is_not_changed_by_what_happens_to_the_episode_afterwards(name):
    episode, expected = EPISODES[name](), EPISODES[name]()
    state = episode.get_state()

    episode.set_rewards(new_data=[9.0, 9.0], at_indices=[0, 1])
    episode.set_observations(new_data=episode.get_observations(0), at_indices=-1)
    episode.add_env_step(
        episode.get_observations(0),
        episode.get_actions(0),
        1.0,
        extra_model_outputs={key: column.get(0) for key, column in episode.extra_model_outputs.items()},
    )

    assert_same_episode(SingleAgentEpisode.from_state(state), expected)


@pytest.mark.parametrize("name", SPACES)
def test_every_named_space_is_restored_from_plain_data(name):
    restored = decode_space(encode_space(SPACES[name]))

    assert restored == SPACES[name]
    assert restored.dtype == SPACES[name].dtype
    assert restored.contains(SPACES[name].sample())


@given(space=spaces())
def test_every_drawn_space_is_restored_from_json(space):
    restored = decode_space(json.loads(json.dumps(encode_space(space))))

    assert restored == space


@given(count=st.integers(0, 4), lookback=st.integers(0, 4), finalized=st.booleans(), space=spaces())
def test_a_buffer_of_samples_is_restored(count, lookback, finalized, space):
    buffer = LookbackBuffer([space.sample() for _ in range(count)], lookback, space)
    if finalized:
        buffer.finalize()

    restored = LookbackBuffer.from_state(pickle.loads(pickle.dumps(buffer.get_state())))

    assert restored == buffer
    assert restored.space == space
    assert np.shape(restored.data) == np.shape(buffer.data) if isinstance(buffer.data, np.ndarray) else True
