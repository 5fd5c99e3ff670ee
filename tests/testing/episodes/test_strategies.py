"""What the strategies draw is what they say."""

import numpy as np
import pytest
from gymnasium import spaces as gym_spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.testing import (
    OPTIONAL_FIELDS,
    SPACES,
    Trajectory,
    assert_same_episode,
    chunked_episodes,
    cut_points,
    episodes,
    indices,
    items,
    spaces,
    trajectories,
)

QUICKLY = settings(max_examples=30)


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=10)
@given(data=st.data())
def test_items_lie_in_their_space(name, data):
    assert SPACES[name].contains(data.draw(items(SPACES[name])))


@QUICKLY
@given(data=st.data(), space=spaces())
def test_items_lie_in_drawn_spaces(data, space):
    assert space.contains(data.draw(items(space)))


@QUICKLY
@given(space=spaces(kinds=[gym_spaces.Discrete, gym_spaces.Tuple]))
def test_only_the_kinds_of_spaces_that_were_asked_for_are_drawn(space):
    leaves = space.spaces if isinstance(space, gym_spaces.Tuple) else [space]

    assert all(isinstance(leaf, (gym_spaces.Discrete, gym_spaces.Tuple)) for leaf in leaves)


@QUICKLY
@given(episode=episodes(finalized=True, done=True, lengths=st.integers(1, 3), lookbacks=st.just(2)))
def test_episodes_are_drawn_as_they_were_asked_for(episode):
    assert episode.is_finalized
    assert episode.is_done
    assert 1 <= len(episode) <= 3
    assert episode.rewards.lookback == 2


@QUICKLY
@given(trajectory=trajectories(fields=[]))
def test_fields_that_were_not_asked_for_keep_their_defaults(trajectory):
    assert (trajectory.infos, trajectory.extra_model_outputs, trajectory.custom_data) == (None, {}, {})
    assert (trajectory.id_, trajectory.agent_id, trajectory.weights_versions) == ("trajectory", None, {})


def test_an_unknown_field_is_rejected():
    with pytest.raises(ValueError, match="custom_data"):
        trajectories(fields=["colour"])


@QUICKLY
@given(episode=episodes(fields=OPTIONAL_FIELDS))
def test_drawn_episodes_are_valid(episode):
    episode.validate()


@QUICKLY
@given(drawn=chunked_episodes(done=False))
def test_drawn_chunks_follow_each_other(drawn):
    whole, chunks = drawn

    assert [chunk.t_started for chunk in chunks] == [whole.t_started, *(chunk.t for chunk in chunks[:-1])]
    assert chunks[-1].t == whole.t
    assert {chunk.id_ for chunk in chunks} == {whole.id_}


@QUICKLY
@given(cuts=cut_points(4))
def test_cut_points_are_in_order_and_inside(cuts):
    assert cuts == sorted(cuts)
    assert all(0 <= cut <= 4 for cut in cuts)


@QUICKLY
@given(index=indices(3, 2, reach=0))
def test_indices_without_reach_point_to_items_that_are_there(index):
    if isinstance(index, (int, np.integer)):
        assert -5 <= index < 3
    elif isinstance(index, (list, tuple, range, np.ndarray)):
        assert all(-5 <= entry < 3 for entry in index)


@pytest.mark.parametrize("wrong", [{"actions": [1]}, {"rewards": [0.5]}, {"infos": []}, {"lookback": 1}])
def test_a_trajectory_with_lists_of_different_lengths_is_rejected(wrong):
    with pytest.raises(ValueError, match="expected T"):
        Trajectory(observations=[0], **wrong)


def test_sampling_a_trajectory_does_not_touch_the_spaces():
    space = gym_spaces.Discrete(1_000, seed=7)
    expected = gym_spaces.Discrete(1_000, seed=7).sample()

    first, second = (Trajectory.sampled(space, space, 3, seed=1).built() for _ in range(2))

    assert_same_episode(first, second)
    assert space.sample() == expected
