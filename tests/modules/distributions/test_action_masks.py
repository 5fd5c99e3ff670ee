"""Masked actions have probability 0, and everything else is as if they did not exist."""

import math

import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.errors import ModuleError
from episodia.modules import dist_for


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def logits_with_masks(sizes):
    """Return a strategy for one row of logits and a mask that allows something in each choice."""
    choice = [
        st.tuples(
            st.lists(st.floats(-5, 5, width=32), min_size=size, max_size=size),
            st.lists(st.booleans(), min_size=size, max_size=size).filter(any),
        )
        for size in sizes
    ]
    return st.tuples(*choice)


@settings(max_examples=50)
@given(row=logits_with_masks([4]), start=st.integers(-2, 2))
def test_a_masked_choice_is_a_choice_among_what_is_allowed(row, start):
    ((logits, mask),) = row
    spec = dist_for(spaces.Discrete(4, start=start))
    distribution = spec.from_logits(torch.tensor([logits]), torch.tensor([mask]))
    total = sum(math.exp(value) for value, allowed in zip(logits, mask, strict=True) if allowed)

    for index in range(4):
        probability = distribution.logp(torch.tensor([start + index])).exp().item()
        assert probability == pytest.approx(math.exp(logits[index]) / total if mask[index] else 0.0, abs=1e-5)


@settings(max_examples=50)
@given(row=logits_with_masks([2, 4, 3]))
def test_each_choice_of_a_multi_discrete_space_has_its_part_of_the_mask(row):
    logits = torch.tensor([[value for values, _ in row for value in values]])
    mask = torch.tensor([[allowed for _, part in row for allowed in part]])
    joint = dist_for(spaces.MultiDiscrete([2, 4, 3])).from_logits(logits, mask)
    single = [
        dist_for(spaces.Discrete(len(values))).from_logits(torch.tensor([values]), torch.tensor([part]))
        for values, part in row
    ]

    action = joint.sample(seeded())

    expected = sum(part.logp(action[:, index]) for index, part in enumerate(single))
    assert torch.allclose(joint.logp(action), expected, atol=1e-5)
    assert torch.allclose(joint.entropy(), sum(part.entropy() for part in single), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.float32])
def test_masked_actions_are_never_drawn(dtype):
    mask = torch.tensor([0, 1, 0, 1]).to(dtype).expand(5000, 4)
    distribution = dist_for(spaces.Discrete(4, start=1)).from_logits(torch.tensor([[9.0, 0.0, 9.0, 0.0]] * 5000), mask)

    assert set(distribution.sample(seeded()).tolist()) == {2, 4}
    assert set(distribution.mode().tolist()) == {2}


def test_the_mask_of_a_sequence_has_a_time_axis():
    mask = torch.tensor([[[1, 0], [0, 1], [0, 1]]])

    actions = dist_for(spaces.Discrete(2)).from_logits(torch.zeros(1, 3, 2), mask).sample()

    assert actions.tolist() == [[0, 1, 1]]


def test_allowing_everything_changes_nothing():
    logits = torch.randn(6, 4, generator=seeded())
    spec = dist_for(spaces.Discrete(4))

    assert torch.equal(
        spec.from_logits(logits, torch.ones(6, 4)).log_probabilities, spec.from_logits(logits).log_probabilities
    )


def test_logits_of_minus_infinity_are_a_mask_too():
    distribution = dist_for(spaces.Discrete(3)).from_logits(torch.tensor([[0.0, -torch.inf, 0.0]]))

    assert distribution.entropy().item() == pytest.approx(math.log(2))
    assert distribution.logp(torch.tensor([1])).item() == -math.inf


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 1])], ids=str)
def test_masked_actions_get_no_gradient_and_spoil_none(space):
    logits = torch.tensor([[0.3, 0.1, -0.2]], requires_grad=True)
    mask = torch.tensor([[1, 0, 1]])
    distribution = dist_for(space).from_logits(logits, mask)
    other = dist_for(space).from_logits(torch.zeros(1, 3), mask)

    (distribution.logp(distribution.mode()) + distribution.entropy() + distribution.kl(other)).sum().backward()

    assert bool(torch.isfinite(logits.grad).all())
    assert logits.grad[0, 1] == 0.0


def test_kl_is_infinite_where_the_other_forbids_what_is_possible():
    spec = dist_for(spaces.Discrete(2))
    free, bound = spec.from_logits(torch.zeros(1, 2)), spec.from_logits(torch.zeros(1, 2), torch.tensor([[1, 0]]))

    assert free.kl(bound).item() == math.inf
    assert bound.kl(free).item() == pytest.approx(math.log(2))


NESTED = spaces.Dict(arm=spaces.Box(-1.0, 1.0, (1,)), move=spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]))


@pytest.mark.parametrize(
    "mask",
    [
        {"move": (None, torch.tensor([[0, 0, 1]]))},
        {"arm": None, "move": (torch.tensor([[1, 1]]), torch.tensor([[0, 0, 1]]))},
    ],
    ids=["parts left out", "all parts"],
)
def test_nested_masks_follow_the_nesting_of_the_actions(mask):
    distribution = dist_for(NESTED).from_logits(torch.zeros(1, 7), mask)

    assert distribution.sample()["move"][1].item() == 2


def test_a_row_without_any_allowed_action_is_named():
    mask = torch.ones(2, 3, 4)
    mask[1, 2] = 0

    with pytest.raises(ModuleError, match=r"no allowed action in row \(1, 2\).*padding, allow all"):
        dist_for(spaces.Discrete(4)).from_logits(torch.zeros(2, 3, 4), mask)


def test_a_choice_without_any_allowed_class_is_named():
    with pytest.raises(ModuleError, match=r"no allowed action in row \(0, 1\)"):
        dist_for(spaces.MultiDiscrete([2, 3])).from_logits(torch.zeros(1, 5), torch.tensor([[1, 1, 0, 0, 0]]))


@pytest.mark.parametrize(
    ("space", "mask", "words"),
    [
        (spaces.Discrete(3), torch.ones(3), r"int|float32\[3\], expected a tensor \[2, 3\]"),
        (spaces.Discrete(3), torch.ones(2, 4), r"float32\[2, 4\], expected a tensor \[2, 3\]"),
        (spaces.Discrete(3), [[1, 1, 1]] * 2, "list, expected a tensor"),
        (spaces.Box(-1.0, 1.0, (2,)), torch.ones(2, 4), "only Discrete and MultiDiscrete"),
        (spaces.MultiBinary(2), torch.ones(2, 2), "only Discrete and MultiDiscrete"),
        (NESTED, torch.ones(2, 7), r"action mask as float32\[2, 7\], expected a dict"),
        (NESTED, {"leg": None}, r"keys \['leg'\], expected a dict with keys \['arm', 'move'\]"),
        (NESTED, {"move": (None,)}, "expected a tuple of 2 parts"),
    ],
)
def test_a_mask_that_does_not_fit_is_rejected(space, mask, words):
    spec = dist_for(space)

    with pytest.raises(ModuleError, match=words):
        spec.from_logits(torch.zeros(2, spec.num_inputs), mask)
