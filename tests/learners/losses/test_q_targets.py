"""Targets of values and of distributions of returns, compared with plain loops."""

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from episodia.learners.losses.q_targets import (
    best_actions,
    chosen,
    projected,
    quantile_errors,
    squashed,
    unsquashed,
)

FLOATS = st.floats(-5.0, 5.0, width=32)


def projected_by_hand(returns, shifted, probabilities):
    """Share each probability between the two neighbours of its return."""
    result = np.zeros(len(returns))
    step = returns[1] - returns[0]
    for place, probability in zip(shifted, probabilities, strict=True):
        where = min(max((place - returns[0]) / step, 0.0), len(returns) - 1.0)
        left = int(where)
        result[left] += probability * (1.0 - (where - left))
        if left + 1 < len(returns):
            result[left + 1] += probability * (where - left)
    return result


@given(shifted=st.lists(FLOATS, min_size=5, max_size=5), weights=st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5))
@example(shifted=[-2.0, -1.0, 0.0, 1.0, 2.0], weights=[1.0] * 5)
@example(shifted=[-9.0, 9.0, 2.0, -2.0, 0.5], weights=[1.0] * 5)
def test_a_projection_shares_each_probability_between_two_neighbours(shifted, weights):
    returns = np.linspace(-2.0, 2.0, 5)
    probabilities = np.array(weights) / sum(weights)

    found = projected(
        torch.tensor(returns), torch.tensor([shifted], dtype=torch.float64), torch.tensor(probabilities)[None]
    )

    np.testing.assert_allclose(found[0], projected_by_hand(returns, shifted, probabilities), atol=1e-6)


@given(probabilities=st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5), reward=st.floats(-0.5, 0.5))
def test_a_projection_keeps_the_mean_of_returns_within_range(probabilities, reward):
    returns = torch.linspace(-2.0, 2.0, 5, dtype=torch.float64)
    shares = torch.tensor([probabilities], dtype=torch.float64) / sum(probabilities)
    shifted = reward + 0.5 * returns[None]

    found = projected(returns, shifted, shares)

    torch.testing.assert_close((found * returns).sum(), (shares * shifted).sum())


@given(
    quantiles=st.lists(FLOATS, min_size=1, max_size=4),
    targets=st.lists(FLOATS, min_size=1, max_size=4),
)
def test_quantile_errors_are_those_of_the_book(quantiles, targets):
    expected = 0.0
    for index, quantile in enumerate(quantiles):
        level = (index + 0.5) / len(quantiles)
        of_one = []
        for target in targets:
            difference = target - quantile
            huber = 0.5 * difference**2 if abs(difference) <= 1.0 else abs(difference) - 0.5
            of_one.append(abs(level - (difference < 0.0)) * huber)
        expected += np.mean(of_one)

    found = quantile_errors(torch.tensor([quantiles]), torch.tensor([targets]))

    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


@given(st.floats(-1e4, 1e4))
def test_unsquashing_undoes_squashing(value):
    number = torch.tensor(value, dtype=torch.float64)

    torch.testing.assert_close(unsquashed(squashed(number)), number, rtol=1e-6, atol=1e-6)


def test_chosen_values_and_atoms_are_those_of_the_actions():
    values = torch.arange(24.0).reshape(2, 3, 4)
    actions = torch.tensor([2, 0])

    assert chosen(values, actions).tolist() == [values[0, 2].tolist(), values[1, 0].tolist()]
    assert chosen(values[..., 1], actions).tolist() == [9.0, 13.0]


def test_masked_actions_are_never_best():
    assert best_actions(torch.tensor([[1.0, 5.0, 3.0]]), torch.tensor([[1, 0, 1]])).tolist() == [2]
