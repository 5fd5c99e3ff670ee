"""Data that is not what it should be: tensors that are no arrays, flags that are none, damaged states."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia import EpisodiaError, SingleAgentEpisode
from episodia.errors import EpisodeError, IndexTypeError

VECTORS = spaces.Box(-np.inf, np.inf, (4,), np.float32)

TENSORS = [torch.zeros(4, requires_grad=True), torch.zeros(4, dtype=torch.bfloat16)]


@pytest.mark.parametrize("tensor", TENSORS, ids=["grad", "bfloat16"])
@pytest.mark.parametrize(
    ("space", "item"),
    [
        (VECTORS, lambda tensor: tensor),
        (spaces.Dict({"a": VECTORS}), lambda tensor: {"a": tensor}),
        (VECTORS, list),
        (None, lambda tensor: tensor),
    ],
    ids=["box", "dict", "list", "no space"],
)
def test_a_tensor_that_is_not_array_is_rejected_with_our_error(tensor, space, item):
    episode = SingleAgentEpisode(observation_space=space)

    try:
        episode.add_env_reset(item(tensor))
    except EpisodeError:
        assert not episode.is_reset
    else:  # NumPy makes an array of a list of some tensors
        assert episode.get_observations(0).shape == (4,)


@pytest.mark.parametrize("tensor", TENSORS, ids=["grad", "bfloat16"])
def test_a_column_of_a_tensor_that_is_not_array_is_rejected_with_our_error(tensor):
    with pytest.raises(EpisodeError, match="cannot be converted to an array"):
        SingleAgentEpisode(observations=tensor)
    with pytest.raises(EpisodeError, match="cannot be converted to an array"):
        SingleAgentEpisode.from_arrays({"obs": tensor})
    with pytest.raises(EpisodeError, match="does not become an array"):
        SingleAgentEpisode.from_arrays({"obs": [tensor]})


class NoArray:
    def __array__(self, *args, **kwargs):
        raise ValueError("no")


def test_an_index_that_does_not_become_an_array_is_no_index():
    episode = SingleAgentEpisode(observations=[1])

    with pytest.raises(IndexTypeError):
        episode.get_observations(NoArray())
    with pytest.raises(IndexTypeError):
        episode.set_observations(new_data=2, at_indices=NoArray())


@pytest.mark.parametrize("flags", [np.array(["False"]), [float("nan")], [7], [0.5], [object()], [None], np.array([-1])])
@pytest.mark.parametrize("name", ["terminateds", "truncateds"])
def test_logged_flags_are_booleans_or_zeros_and_ones(flags, name):
    with pytest.raises(EpisodeError, match=f"{name}.*expected flags"):
        SingleAgentEpisode.from_arrays({"obs": [0, 1], "actions": [0], "rewards": [1.0], name: flags})


@pytest.mark.parametrize("kind", [bool, np.bool_, int, float, np.uint8, np.float32])
@pytest.mark.parametrize("flag", [0, 1])
def test_logged_flags_may_be_of_any_kind_of_number(kind, flag):
    arrays = {"obs": [0, 1], "actions": [0], "rewards": [1.0], "terminateds": [kind(flag)]}

    assert SingleAgentEpisode.from_arrays(arrays).is_terminated is bool(flag)


@pytest.mark.parametrize(
    ("space", "damage"),
    [
        (spaces.Discrete(2), {"n": "x"}),
        (spaces.Discrete(2), {"n": -1}),
        (spaces.Discrete(2), {"dtype": "x"}),
        (spaces.Discrete(2), {"start": "x"}),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"spaces": [1]}),
        (spaces.Tuple([spaces.Discrete(2)]), {"spaces": 1}),
        (spaces.Box(0, 1, (2,)), {"shape": "x"}),
        (spaces.MultiDiscrete([2, 2]), {"nvec": None}),
    ],
)
def test_a_state_with_a_damaged_space_is_rejected_with_our_error(space, damage):
    state = SingleAgentEpisode(action_space=space).get_state()
    state["_action_space"].update(damage)

    with pytest.raises(EpisodiaError, match="damaged"):
        SingleAgentEpisode.from_state(state)


def test_a_state_whose_space_lacks_a_field_is_rejected_with_our_error():
    state = SingleAgentEpisode(action_space=spaces.Discrete(2)).get_state()
    del state["_action_space"]["n"]

    with pytest.raises(EpisodeError, match="damaged"):
        SingleAgentEpisode.from_state(state)


def test_the_return_of_narrow_rewards_is_that_of_floats():
    episode = SingleAgentEpisode(
        observations=[0, 1, 2], actions=[0, 0], rewards=[np.int8(100), np.int8(100)], len_lookback_buffer=0
    )

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert episode.get_return() == 200.0


@pytest.mark.parametrize("column", ["observations", "actions", "rewards"])
def test_an_episode_is_finalized_when_all_its_columns_are(column):
    episode = SingleAgentEpisode(
        observations=[0, 1], actions=[0], rewards=[1.0], extra_model_outputs={"x": [2]}, len_lookback_buffer=0
    )

    getattr(episode, column).finalize()
    assert not episode.is_finalized
    episode.add_env_step(5, 6, 7.0, extra_model_outputs={"x": 8})
    episode.finalize()

    assert episode.is_finalized
    for found in (episode.get_observations(), episode.get_actions(), episode.get_extra_model_outputs("x")):
        assert isinstance(found, np.ndarray)
    assert episode.get_rewards().tolist() == [1.0, 7.0]
