"""What a distribution cannot work with is rejected, with what was found and what to do."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from action_spaces import ACTION_SPACES, BOX, UNSUPPORTED
from episodia.errors import EpisodiaError, ModuleError
from episodia.modules import dist_for

every_space = pytest.mark.parametrize("space", ACTION_SPACES.values(), ids=ACTION_SPACES.keys())

WITH_INPUTS = {name: space for name, space in ACTION_SPACES.items() if dist_for(space).num_inputs}


def test_a_module_error_is_a_value_error():
    assert issubclass(ModuleError, EpisodiaError)
    assert issubclass(ModuleError, ValueError)


@pytest.mark.parametrize("space", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_an_unknown_space_is_rejected_with_what_is_supported(space):
    with pytest.raises(
        ModuleError, match=r"action_space: found .* expected Discrete, MultiDiscrete, MultiBinary, a Box of"
    ):
        dist_for(space)


def test_the_place_of_an_unknown_space_is_named():
    with pytest.raises(ModuleError, match=r"^action_space\['a'\]\[1\]: found Text"):
        dist_for(spaces.Dict(a=spaces.Tuple([spaces.Discrete(2), spaces.Text(3)])))


def test_a_box_of_integers_is_pointed_to_multi_discrete():
    with pytest.raises(ModuleError, match="use MultiDiscrete"):
        dist_for(UNSUPPORTED["box of integers"])


@pytest.mark.skipif(np.dtype(np.longdouble) == np.float64, reason="longdouble is float64 here")
def test_a_dtype_that_torch_does_not_have_is_rejected():
    with pytest.raises(ModuleError, match=r"action_space\['x'\]: found .* torch does not have"):
        dist_for(spaces.Dict(x=spaces.Box(0.0, 1.0, (2,), np.longdouble)))


@pytest.mark.parametrize("space", [BOX, spaces.Discrete(2)], ids=str)
@pytest.mark.parametrize("squashed", ["no", None, 1])
def test_an_invalid_flag_is_rejected(space, squashed):
    with pytest.raises(ModuleError, match=r"found `squashed=.*expected True or False"):
        dist_for(space, squashed=squashed)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("space", WITH_INPUTS.values(), ids=WITH_INPUTS.keys())
def test_inputs_that_are_not_finite_are_rejected(space, value):
    inputs = torch.zeros(3, 2, dist_for(space).num_inputs)
    inputs[1, 1, 0] = value

    with pytest.raises(ModuleError, match=rf"found {value} in the inputs .*expected finite"):
        dist_for(space).from_logits(inputs)


def test_the_place_of_a_nan_is_named():
    inputs = torch.zeros(4, 3)
    inputs[2, 1] = torch.nan

    with pytest.raises(ModuleError, match=r"float32\[4, 3\], first at \(2, 1\)"):
        dist_for(spaces.Discrete(3)).from_logits(inputs)


def test_large_finite_inputs_are_no_error():
    inputs = torch.tensor([[3e38, 3e38, 0.0, 0.0]])

    assert dist_for(BOX).from_logits(inputs).mode().tolist() == inputs[:, :2].tolist()


@pytest.mark.parametrize(
    "inputs", [torch.zeros(2, 4), torch.zeros(()), np.zeros((2, 3)), None], ids=["width", "scalar", "array", "None"]
)
def test_inputs_of_another_width_or_kind_are_rejected(inputs):
    with pytest.raises(ModuleError, match=r"expected a tensor \[\.\.\., 3\]"):
        dist_for(spaces.Discrete(3)).from_logits(inputs)


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.Discrete(3), torch.zeros(2, 1, dtype=torch.int64)),
        (spaces.Discrete(3), torch.zeros(1, dtype=torch.int64)),
        (spaces.Discrete(3), np.zeros(2, np.int64)),
        (spaces.MultiDiscrete([3, 2]), torch.zeros(2, dtype=torch.int64)),
        (spaces.Box(-1.0, 1.0, (1,)), torch.zeros(2)),
        (spaces.MultiBinary(3), torch.zeros(2, 1, dtype=torch.int8)),
    ],
)
def test_actions_that_would_only_broadcast_are_rejected(space, actions):
    distribution = dist_for(space).from_logits(torch.zeros(2, dist_for(space).num_inputs))

    with pytest.raises(ModuleError, match=r"expected a tensor \[2"):
        distribution.logp(actions)


@pytest.mark.parametrize(
    ("space", "actions"),
    [
        (spaces.Discrete(3), [0, 3]),
        (spaces.Discrete(3, start=1), [0, 1]),
        (spaces.MultiDiscrete([3, 2]), [[0, 0], [0, 2]]),
        (spaces.MultiDiscrete([3, 2], start=[1, 1]), [[1, 1], [0, 1]]),
        (spaces.MultiBinary(1), [[0], [2]]),
    ],
)
def test_actions_outside_of_the_space_are_rejected(space, actions):
    distribution = dist_for(space).from_logits(torch.zeros(2, dist_for(space).num_inputs))

    with pytest.raises(ModuleError, match="outside of the action space"):
        distribution.logp(torch.tensor(actions))


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([3]), spaces.MultiBinary(1)], ids=str)
def test_floats_are_no_discrete_actions(space):
    spec = dist_for(space)

    with pytest.raises(ModuleError, match="expected integers"):
        spec.from_logits(torch.zeros(2, spec.num_inputs)).logp(torch.zeros(2, *space.shape))


@pytest.mark.parametrize(
    "actions", [torch.zeros(2), {"a": torch.zeros(2)}, (torch.zeros(2),)], ids=["tensor", "dict", "tuple"]
)
def test_actions_nested_in_another_way_are_rejected(actions):
    spec = dist_for(spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2)))
    distribution = spec.from_logits(torch.zeros(2, 4))

    for asked in (distribution, distribution.to_deterministic()):
        with pytest.raises(ModuleError, match=r"found actions .*expected a dict with keys \['a', 'b'\]"):
            asked.logp(actions)


def test_a_deterministic_distribution_rejects_other_shapes():
    point = dist_for(spaces.Discrete(2)).from_logits(torch.zeros(2, 2)).to_deterministic()

    with pytest.raises(ModuleError, match=r"found actions int64\[1\], expected int64\[2\]"):
        point.logp(torch.zeros(1, dtype=torch.int64))


@every_space
def test_distributions_of_different_kinds_have_no_divergence(space):
    spec, other = dist_for(space), dist_for(spaces.Discrete(9))
    distribution = spec.from_logits(torch.zeros(2, spec.num_inputs))

    with pytest.raises(ModuleError, match="of the same kind"):
        distribution.kl(other.from_logits(torch.zeros(2, 9)))
