"""Observations become the flat vectors that gymnasium makes of them."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from episodia.errors import ModuleError
from episodia.modules.networks.encoders import flat_features
from episodia.spaces import map_space
from episodia.stacking import stack
from episodia.testing import SPACES

ARRAY_LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def leaf_spaces(space):
    found = []
    map_space(found.append, space)
    return found


SIZED = {name: s for name, s in SPACES.items() if all(isinstance(leaf, ARRAY_LEAVES) for leaf in leaf_spaces(s))}
OTHERS = {name: space for name, space in SPACES.items() if name not in SIZED}
FLAT = {name: space for name, space in SIZED.items() if spaces.flatdim(space)}


def observations(space, *batch):
    """Return a list of items, and the same items as nested tensors `[*batch, ...]`."""
    space.seed(3)
    items = [space.sample() for _ in range(int(np.prod(batch)))]
    return items, tensors(stack([plain(space, item) for item in items]), batch)


def plain(space, item):
    if isinstance(space, spaces.Dict):
        return {key: plain(child, item[key]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(plain, space.spaces, item))
    return np.asarray(item)


def tensors(tree, batch):
    if isinstance(tree, dict):
        return {key: tensors(value, batch) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(tensors(value, batch) for value in tree)
    return torch.tensor(tree).reshape((*batch, *tree.shape[1:]))


@pytest.mark.parametrize("batch", [(6,), (2, 3)], ids=str)
@pytest.mark.parametrize("space", FLAT.values(), ids=FLAT.keys())
def test_features_are_what_gymnasium_flattens_to(space, batch):
    items, nested = observations(space, *batch)

    features = flat_features(space)(nested)

    expected = np.stack([spaces.flatten(space, item) for item in items])
    assert features.dtype == torch.float32
    assert features.shape == (*batch, flat_features(space).num_features)
    assert np.allclose(features.reshape(expected.shape).numpy(), expected.astype(np.float32))


@pytest.mark.parametrize("space", [*OTHERS.values(), None], ids=[*OTHERS.keys(), "none"])
def test_spaces_without_a_fixed_size_are_rejected(space):
    with pytest.raises(ModuleError, match=r"^observation_space.*expected Box, Discrete"):
        flat_features(space)


def test_a_part_without_elements_adds_nothing():
    space = spaces.Dict(a=spaces.Box(0.0, 1.0, (0,)), b=spaces.Box(0.0, 1.0, (2,)))

    assert flat_features(space)({"a": torch.zeros(1, 0), "b": torch.ones(1, 2)}).tolist() == [[1.0, 1.0]]


def test_padding_outside_of_a_discrete_space_gives_zeros():
    assert flat_features(spaces.Discrete(3, start=5))(torch.tensor([0, 5])).tolist() == [[0, 0, 0], [1, 0, 0]]


def test_one_hot_vectors_in_place_of_classes_are_rejected():
    with pytest.raises(ModuleError, match="observation space of the pipeline"):
        flat_features(spaces.Discrete(3))(torch.zeros(2, 3))


@pytest.mark.parametrize("shape", [(2, 4), (3,), ()], ids=str)
def test_observations_of_another_shape_are_rejected(shape):
    with pytest.raises(ModuleError, match=r"expected a tensor \[\.\.\., 2, 3\]"):
        flat_features(spaces.Box(-1.0, 1.0, (2, 3)))(torch.zeros(shape))


NO_TENSORS = {
    "an array": np.zeros((2, 3), np.float32),
    "None": None,
    "a list": [0.0],
    "a dict": {"a": 1},
    "a word": "x",
}


@pytest.mark.parametrize("found", NO_TENSORS.values(), ids=NO_TENSORS)
@pytest.mark.parametrize(
    "space", [spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-1.0, 1.0, (2, 3)), spaces.Discrete(3)], ids=str
)
def test_observations_that_are_not_tensors_are_rejected(space, found):
    with pytest.raises(
        ModuleError, match=r"^observation_space\['x'\]: found observations .*, expected a tensor \[\.\.\., "
    ):
        flat_features(spaces.Dict(x=space))({"x": found})


PAIR = spaces.Tuple([spaces.Box(-1.0, 1.0, (3,)), spaces.Box(-1.0, 1.0, (3,))])


@pytest.mark.parametrize(
    ("space", "found", "keys"),
    [
        (spaces.Dict(a=PAIR), {"b": ()}, r"\['a'\]"),
        (spaces.Dict(a=PAIR), torch.zeros(2, 3), r"\['a'\]"),
        (spaces.Dict(a=PAIR), None, r"\['a'\]"),
        (PAIR, (torch.zeros(2, 3),), r"\[0, 1\]"),
        (PAIR, torch.zeros(2, 3), r"\[0, 1\]"),
        (PAIR, {"a": torch.zeros(2, 3)}, r"\[0, 1\]"),
    ],
    ids=["another key", "a tensor", "None", "too few parts", "a tensor of as many rows", "a dict"],
)
def test_observations_nested_in_another_way_are_rejected(space, found, keys):
    with pytest.raises(ModuleError, match=rf"^observation_space\['x'\]: .*expected a dict or a tuple with {keys}"):
        flat_features(spaces.Dict(x=space))({"x": found})


def test_index_buffers_are_no_weights():
    features = flat_features(spaces.Discrete(3))

    assert list(features.parameters()) == []
    assert features.state_dict() == {}


def test_index_buffers_say_which_choice_and_which_value_each_feature_stands_for():
    features = flat_features(spaces.MultiDiscrete([2, 1, 3], start=[5, 0, -1]))

    assert features.sources.tolist() == [0, 0, 1, 2, 2, 2]
    assert features.values.tolist() == [5, 6, 0, -1, 0, 1]


def test_index_buffers_need_no_memory_where_weights_need_none():
    with torch.device("meta"):
        features = flat_features(spaces.MultiDiscrete([3, 2**20]))

    assert all(buffer.is_meta and buffer.shape == (3 + 2**20,) for buffer in features.buffers())
