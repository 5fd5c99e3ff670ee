"""Observations in float64 for a space that says float32: they are cast, and one warning says so."""

import itertools
import warnings

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import SpaceError

_NUMBERS = itertools.count(1000)
LARGE = 2.5e300


def new_box():
    """Return a space that no other test has, because a warning comes once for each space."""
    return spaces.Box(-np.float32(next(_NUMBERS)), np.inf, (2,), np.float32)


def played(space, observations):
    episode = SingleAgentEpisode("walk", observation_space=space)
    episode.add_env_reset(observations[0])
    for observation in observations[1:]:
        episode.add_env_step(observation, 0, 0.0)
    return episode


@given(st.lists(st.tuples(*[st.floats(-3e38, 3e38)] * 2), min_size=1, max_size=5), st.booleans())
@pytest.mark.filterwarnings("ignore:observations")
def test_float64_is_rounded_as_numpy_does(rows, finalizes):
    box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    episode = played(box, [np.array(row) for row in rows])

    found = episode.finalize().get_observations() if finalizes else np.stack(episode.get_observations())
    assert found.dtype == np.float32
    assert found.tolist() == np.array(rows).astype(np.float32).tolist()


def test_there_is_one_warning_for_each_space():
    box = new_box()

    with pytest.warns(UserWarning, match=r"found float64, expected the dtype float32.*recorded as float32") as caught:
        assert [len(played(box, [np.zeros(2)] * 4)) for _ in range(2)] == [3, 3]

    assert len(caught) == 1


@pytest.mark.filterwarnings("ignore:observations")
@pytest.mark.parametrize("dtype", [">f8", "<f8"])
def test_parts_of_nested_spaces_are_cast(dtype):
    space = spaces.Dict(
        {"arm": spaces.Tuple([new_box(), spaces.Discrete(3)]), "wide": spaces.Box(0, 1, (1,), np.float64)}
    )
    item = {"arm": (np.array([0.5, 2.0], dtype), 1), "wide": np.array([0.1])}

    found = played(space, [item, item]).finalize().get_observations()

    assert [found["arm"][0].dtype, found["wide"].dtype] == [np.float32, np.float64]
    assert [found["arm"][0].tolist(), found["wide"].tolist()] == [[[0.5, 2.0]] * 2, [[0.1]] * 2]


def test_a_number_that_becomes_infinite_is_rejected():
    with pytest.raises(SpaceError, match=r"t=0, observation of the reset: .*some become infinite"):
        played(new_box(), [np.array([LARGE, 0.0])])


@pytest.mark.filterwarnings("ignore:observations")
def test_infinite_and_nan_stay_what_they_are():
    episode = played(new_box(), [np.array([np.inf, np.nan])])

    assert str(episode.get_observations(0).tolist()) == "[inf, nan]"


def test_no_other_dtype_and_no_action_is_cast():
    box = new_box()
    episode = SingleAgentEpisode(observation_space=box, action_space=box)
    episode.add_env_reset(np.zeros(2, np.float32))

    with pytest.raises(SpaceError, match=r"action: .*the dtype float32"):
        episode.add_env_step(np.zeros(2, np.float32), np.zeros(2), 0.0)
    with pytest.raises(SpaceError, match=r"observation: .*the dtype float32"):
        episode.add_env_step(np.zeros(2, np.int64), np.zeros(2, np.float32), 0.0)


def test_observations_of_many_agents_are_cast_with_one_warning():
    box = new_box()
    spaces_of_agents = {"a": box, "b": box}
    observations = [{"a": np.array([0.1, 1.0]), "b": np.zeros(2)}, {"a": np.array([0.3, 1.0])}]
    actions, rewards = [{"a": 0, "b": 0}], [{"a": 0.0}]

    with pytest.warns(UserWarning, match="recorded as float32") as caught:
        episode = MultiAgentEpisode(
            observations=observations,
            observation_space=spaces_of_agents,
            actions=actions,
            rewards=rewards,
            len_lookback_buffer=0,
        )

    assert len(caught) == 1
    found = episode.agent_episodes["a"].get_observations()
    assert [row.tolist() for row in found] == [[np.float32(0.1), 1.0], [np.float32(0.3), 1.0]]


def recorded(*rows):
    """Return a recorder of one lane that was given these observations."""
    recorder = Recorder(new_box(), spaces.Discrete(2), 1)
    recorder.reset(np.array([rows[0]]))
    for row in rows[1:]:
        recorder.step(np.array([row]), np.array([0]), np.array([1.0]), np.array([False]), np.array([False]))
    return recorder


def test_a_recorder_casts_every_batch():
    rows = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]

    with pytest.warns(UserWarning, match="recorded as float32") as caught:
        recorder = recorded(*rows)

    assert len(caught) == 1
    assert recorder.episode(0).finalize().get_observations().tolist() == np.float32(rows).tolist()


@pytest.mark.filterwarnings("ignore:observations")
@pytest.mark.parametrize("rows", [[[LARGE, 0.0]], [[0.0, 0.0], [0.0, LARGE]]], ids=["the first", "a later one"])
def test_a_recorder_rejects_numbers_that_become_infinite(rows):
    with pytest.raises(SpaceError, match="become infinite"):
        recorded(*rows)


def test_float32_never_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        played(new_box(), [np.zeros(2, np.float32), np.zeros(2, np.float32)])


@pytest.mark.filterwarnings("ignore:observations")
@pytest.mark.parametrize("as_given", [list, np.array])
def test_data_of_the_constructor_is_cast_like_steps(as_given):
    box, rows = new_box(), [np.array([0.1, t]) for t in range(4)]
    rest = {"actions": [0] * 3, "rewards": [0.0] * 3, "len_lookback_buffer": 0}

    episode = SingleAgentEpisode(observation_space=box, observations=as_given(rows), **rest)

    expected = played(box, rows).finalize().get_observations()
    found = episode.finalize().get_observations()
    assert found.dtype == expected.dtype == np.float32
    assert np.array_equal(found, expected)
    with pytest.raises(SpaceError, match=r"observations: .*some become infinite"):
        SingleAgentEpisode(observation_space=box, observations=as_given([np.array([LARGE, 0.0]), *rows[1:]]), **rest)
