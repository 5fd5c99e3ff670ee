"""One-hot observations, against a plain list of zeros and a one."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodeList, SingleAgentEpisode
from episodia.connectors.env_to_module.one_hot_observations import OneHotObservations
from episodia.errors import PipelineError
from episodia.testing import assert_same_items
from piece_calls import acted, built, called, from_birth, trained, without_spaces


def one_hot_item(space, item):
    if isinstance(space, spaces.Dict):
        return {key: one_hot_item(child, item[key]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one_hot_item(child, part) for child, part in zip(space.spaces, item, strict=True))
    if isinstance(space, spaces.Discrete):
        return np.array([float(c == item - space.start) for c in range(space.n)], np.float32)
    if isinstance(space, spaces.MultiDiscrete):
        parts = zip((np.asarray(item) - space.start).ravel().tolist(), space.nvec.ravel().tolist(), strict=True)
        return np.array([float(c == value) for value, size in parts for c in range(size)], np.float32)
    return item


@given(from_birth(), st.booleans(), st.booleans())
def test_classes_become_vectors_and_all_else_stays(trajectory, finalized, gives_space):
    space = trajectory.observation_space
    piece = OneHotObservations(space) if gives_space else OneHotObservations()
    episode = built(without_spaces(trajectory) if gives_space else trajectory, finalized)

    expected = [one_hot_item(space, item) for item in trajectory.observations]
    assert_same_items(trained(piece, episode), expected)
    assert_same_items(acted(piece, episode), expected[-1:])


@given(from_birth())
def test_what_comes_out_lies_in_the_output_space(trajectory):
    piece = OneHotObservations(trajectory.observation_space)

    for item in trajectory.observations:
        assert piece.observation_space.contains(one_hot_item(trajectory.observation_space, item))


def test_objects_stay_as_they_are():
    space = spaces.Dict({"goal": spaces.Text(6), "kind": spaces.Discrete(2)})
    walk = SingleAgentEpisode(observations=[{"goal": "north", "kind": 1}], observation_space=space)

    (row,) = acted(OneHotObservations(), walk)

    assert row["goal"] == "north"
    assert row["kind"].tolist() == [0.0, 1.0]


def test_no_space_at_all_is_an_error():
    with pytest.raises(PipelineError, match="OneHotObservations: found no space"):
        called(OneHotObservations(), EpisodeList([SingleAgentEpisode(observations=[1])]))


def test_each_agent_has_its_space():
    piece = OneHotObservations(spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiBinary(2)}), multi_agent=True)

    assert piece.observation_space["a"] == spaces.Box(0.0, 1.0, (2,), np.float32)
    assert piece.observation_space["b"] == spaces.MultiBinary(2)
