"""Standardised numbers have mean 0 and standard deviation 1 over what counts."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia.errors import ReturnsError
from episodia.returns import standardized

NUMBERS = st.lists(st.floats(-100.0, 100.0, width=32), max_size=30)


@given(numbers=NUMBERS, seed=st.integers(0, 99))
def test_it_is_the_distance_from_the_mean_in_standard_deviations(numbers, seed):
    mask = np.random.default_rng(seed).random(len(numbers)) < 0.7
    counted = [x for x, counts in zip(numbers, mask, strict=True) if counts]
    mean = statistics.fmean(counted) if counted else 0.0
    deviation = max(statistics.pstdev(counted), 1e-4) if counted else 1.0
    expected = [(x - mean) / deviation if counts else 0.0 for x, counts in zip(numbers, mask, strict=True)]

    np.testing.assert_allclose(standardized(numbers, mask), expected, rtol=1e-9, atol=1e-9)


@given(numbers=NUMBERS)
def test_without_a_mask_everything_counts(numbers):
    everything = np.ones(len(numbers), bool)

    np.testing.assert_array_equal(standardized(numbers), standardized(numbers, everything))


@pytest.mark.parametrize("shape", [(3,), (0,), (2, 3)], ids=str)
def test_masked_rows_are_zero_whatever_they_hold(shape):
    assert not standardized(np.full(shape, np.nan), np.zeros(shape, bool)).any()


def test_what_does_not_count_changes_nothing():
    clean, dirty = np.array([1.0, 2.0, 0.0]), np.array([1.0, 2.0, np.inf])
    mask = [True, True, False]

    np.testing.assert_array_equal(standardized(dirty, mask), standardized(clean, mask))


@given(number=st.floats(-1e300, 1e300), count=st.integers(1, 50))
def test_equal_numbers_become_exactly_zero(number, count):
    assert standardized(np.full(count, number)).tolist() == [0.0] * count


def test_nothing_stays_nothing():
    assert standardized([]).shape == (0,)
    assert standardized([], []).shape == (0,)


def test_padded_steps_do_not_change_the_others():
    padded = np.array([[1.0, 2.0, 3.0], [4.0, 9.0, 9.0]])
    mask = np.array([[True, True, True], [True, False, False]])

    found = standardized(padded, mask)

    np.testing.assert_allclose(found[mask], standardized([1.0, 2.0, 3.0, 4.0]))
    assert not found[~mask].any()


def test_a_large_common_part_does_not_cost_precision():
    small = np.array([1.0, 2.0, 3.0])

    np.testing.assert_allclose(standardized(small + 2.0**40), standardized(small), rtol=1e-12)


def test_differences_below_epsilon_are_not_blown_up():
    assert np.abs(standardized([1.0, 1.0 + 1e-9])).max() < 1e-4


@pytest.mark.parametrize("mask", [[True], [[True, True]], [1, 0], None], ids=["short", "shape", "integers", "epsilon"])
def test_masks_of_another_kind_and_epsilons_of_zero_are_rejected(mask):
    with pytest.raises(ReturnsError, match="expected"):
        standardized([1.0, 2.0], mask, epsilon=0.0 if mask is None else 1e-4)
