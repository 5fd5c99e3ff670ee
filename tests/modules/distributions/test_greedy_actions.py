"""Greedy actions are the best ones, as tensors and as arrays; rows without a best one are rejected."""

import math

import numpy as np
import pytest
import torch

from episodia.errors import ModuleError
from episodia.modules.distributions.categorical import CategoricalSpec
from episodia.modules.distributions.point import GreedySpec

SPEC = GreedySpec(CategoricalSpec(3, start=5))


@pytest.mark.parametrize("batch", [(4,), (2, 3), (0,), ()], ids=str)
def test_arrays_of_greedy_actions_equal_their_tensors(batch):
    values = torch.randn(*batch, 3, generator=torch.Generator().manual_seed(0))
    expected = SPEC.from_logits(values).mode().numpy()
    actions, logp = SPEC.sampled_arrays(values)

    np.testing.assert_array_equal(actions, expected, strict=True)
    np.testing.assert_array_equal(logp, np.zeros(batch, np.float32), strict=True)


def test_the_first_of_several_best_actions_is_taken_also_of_huge_values():
    values = torch.tensor([[1.0, 2.0, 2.0], [0.0, 3e38, 3e38], [-math.inf, 3e38, 0.0]])

    assert SPEC.sampled_arrays(values)[0].tolist() == [6, 6, 6]


@pytest.mark.parametrize("row", [[0.0, math.nan, 1.0], [math.inf, 0.0, 1.0], [-math.inf] * 3], ids=str)
def test_arrays_need_a_finite_best_value_in_each_row(row):
    with pytest.raises(ModuleError, match="found"):
        SPEC.sampled_arrays(torch.tensor([[0.0, 1.0, 2.0], row]))
