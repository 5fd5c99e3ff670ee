"""Merged statistics, against exact sums of all numbers together."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia.connectors.env_to_module.mean_std_filter import Moments, merged_tables
from episodia.errors import ShapeError

SHARDS = st.lists(st.integers(0, 40), min_size=1, max_size=12)


def exact(column):
    """Return mean and standard deviation of a list of numbers, without rounding on the way."""
    numbers = [Fraction(float(number)) for number in column]
    mean = sum(numbers) / len(numbers)
    spread = sum((number - mean) ** 2 for number in numbers)
    return float(mean), float(spread / (len(numbers) - 1)) ** 0.5


def rows_of(sizes, seed, offset, scale, dtype):
    rng = np.random.default_rng(seed)
    return [(offset + scale * rng.normal(size=(size, 3))).astype(dtype) for size in sizes]


@given(
    SHARDS.filter(lambda sizes: sum(sizes) > 1),
    st.integers(0, 2**16),
    st.sampled_from([0.0, -3.0, 1e4, 1e8]),
    st.sampled_from([1.0, 1e-2, 1e3]),
    st.sampled_from([np.float64, np.float32]),
    st.randoms(use_true_random=False),
)
def test_shards_in_any_order_give_what_one_would_have_seen(sizes, seed, offset, scale, dtype, random):
    shards = rows_of(sizes, seed, offset, scale, dtype)
    random.shuffle(shards)

    found = merged_tables([{"x": Moments.of(shard)} for shard in shards])["x"]

    whole = np.concatenate(shards)
    expected = [exact(column) for column in whole.T.tolist()]
    assert found.count == len(whole)
    np.testing.assert_allclose(found.mean, [mean for mean, _ in expected], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found.std(), [std for _, std in expected], rtol=1e-6, atol=1e-12)


def test_small_noise_far_from_zero_is_not_lost():
    rng = np.random.default_rng(0)
    shards = [1e8 + 1e-2 * rng.normal(size=(size, 1)) for size in (1, 2, 3, 1000, 7, 50_000)]

    found = merged_tables([{"x": Moments.of(shard)} for shard in shards])["x"]

    expected = exact(np.concatenate(shards)[:, 0].tolist())
    assert abs(found.std()[0] / expected[1] - 1) < 1e-6


def test_rows_one_by_one_are_as_good_as_all_at_once():
    rows = np.random.default_rng(1).normal(5.0, 3.0, (200, 2))

    found = merged_tables([{"x": Moments.of(rows[i : i + 1])} for i in range(200)])["x"]

    np.testing.assert_allclose(found.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.std(), rows.std(0, ddof=1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_, np.float16])
def test_numbers_of_any_type_are_counted_without_overflow(dtype):
    rows = np.array([[200], [100], [255]]).astype(dtype)

    assert Moments.of(rows).mean.tolist() == [float(np.mean(rows.astype(float)))]
    assert Moments.of(rows).std().dtype == np.float64


def test_fewer_than_two_rows_have_a_deviation_of_one():
    assert Moments.of(np.empty((0, 2))).std().tolist() == [1.0, 1.0]
    assert Moments.of(np.full((1, 2), 5.0)).std().tolist() == [1.0, 1.0]


def test_no_rows_change_nothing():
    some = Moments.of(np.array([[1.0], [4.0]]))

    assert some.merged(Moments.of(np.empty((0, 1)))) == some
    assert Moments.of(np.empty((0, 1))).merged(some) == some


def test_statistics_of_different_shapes_do_not_merge():
    with pytest.raises(ShapeError, match=r"the shapes \[2\] and \[3\]"):
        Moments.of(np.zeros((1, 2))).merged(Moments.of(np.zeros((1, 3))))


def test_merging_leaves_all_tables_unchanged():
    first, second = (
        {"x": Moments.of(np.ones((2, 1)))},
        {"x": Moments.of(np.zeros((2, 1))), "y": Moments.of(np.ones((1, 1)))},
    )

    merged = merged_tables([first, second])

    assert (first["x"].count, second["x"].count, merged["x"].count) == (2, 2, 4)
    assert first.keys() == {"x"}
    assert merged.keys() == {"x", "y"}
