"""Spaces that somebody changes: episodes that come later go by what they are then."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia import SingleAgentEpisode
from episodia.errors import SpaceError


def box(size):
    return spaces.Box(-1.0, 1.0, (size,), np.float32)


def zeros(**sizes):
    return {key: np.zeros(size, np.float32) for key, size in sizes.items()}


def reset(space, observation):
    episode = SingleAgentEpisode(observation_space=space)
    episode.add_env_reset(observation)
    return episode


@pytest.mark.parametrize("wrap", [lambda space: space, lambda space: spaces.Tuple([space, spaces.Discrete(2)])])
def test_a_new_episode_goes_by_the_parts_that_its_space_has_now(wrap):
    inner = spaces.Dict({"a": box(2)})
    space = wrap(inner)
    item = (lambda part: part) if space is inner else (lambda part: (part, 1))
    reset(space, item(zeros(a=2)))

    inner["b"] = box(3)

    assert len(reset(space, item(zeros(a=2, b=3))).observations) == 1
    with pytest.raises(SpaceError, match=r"expected a dict with the keys \['a', 'b'\]"):
        reset(space, item(zeros(a=2)))


def test_a_new_episode_goes_by_the_shape_that_a_part_has_now():
    space = spaces.Dict({"a": box(2)})
    reset(space, zeros(a=2))

    space["a"] = box(3)

    with pytest.raises(SpaceError, match="the shape"):
        reset(space, zeros(a=2))
    assert reset(space, zeros(a=3)).finalize().get_observations()["a"].shape == (1, 3)


def test_an_older_episode_rejects_what_a_changed_space_has():
    space = spaces.Dict({"a": box(2)})
    episode = SingleAgentEpisode(observation_space=space)

    space["b"] = box(3)

    with pytest.raises(SpaceError, match=r"expected a dict with the keys \['a'\]"):
        episode.add_env_reset(zeros(a=2, b=3))


def test_a_pickle_has_the_parts_that_a_space_has_now():
    space = spaces.Dict({"a": box(2)})
    pickle.dumps(reset(space, zeros(a=2)))

    space["b"] = box(3)
    restored = pickle.loads(pickle.dumps(reset(space, zeros(a=2, b=3))))

    assert restored.observation_space == space


@pytest.mark.parametrize(
    "load", [pickle.loads, lambda dumped: SingleAgentEpisode.from_state(pickle.loads(dumped).get_state())]
)
def test_changing_the_space_of_a_restored_episode_does_not_show_in_later_ones(load):
    space = spaces.Dict({"a": box(2)})
    dumped = pickle.dumps(reset(space, zeros(a=2)))

    load(dumped).observation_space["b"] = box(3)

    assert load(dumped).observation_space == space


@pytest.mark.parametrize("space", [box(2), spaces.MultiDiscrete([3, 3]), spaces.MultiDiscrete([3, 4])])
def test_the_bounds_of_a_restored_space_are_read_only(space):
    restored = pickle.loads(pickle.dumps(SingleAgentEpisode(observation_space=space))).observation_space

    assert restored == space
    for name in ("low", "high", "nvec", "start"):
        bounds = getattr(restored, name, None)
        assert bounds is None or not bounds.flags.writeable


def test_bounds_are_compared_in_the_dtype_of_the_space():
    episode = SingleAgentEpisode(observation_space=spaces.Box(0.1, 0.7, (), np.float32))
    episode.add_env_reset(0.7)
    episode.add_env_step(0.1, 0, 1.0)

    assert episode.finalize().get_observations().tolist() == [0.7, 0.1]


@pytest.mark.parametrize("value", [0.7001, -0.0001, 1e300])
def test_numbers_outside_of_the_bounds_are_rejected_in_the_dtype_of_the_space_too(value):
    episode = SingleAgentEpisode(observation_space=spaces.Box(0, 0.7, (), np.float32))
    episode.add_env_reset(value)

    with pytest.raises(SpaceError, match="expected items inside"):
        episode.finalize()
