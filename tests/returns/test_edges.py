"""Estimators at their edges: nothing to do, very long episodes, fading discounts, numbers that are not finite."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import returns
from ragged_batches import batch_of, batches, plain_advantages, plain_n_step, plain_returns

LONG = 100_000


def all_estimates(batch):
    """Return what each estimator makes of the batch, per row."""
    n_step = returns.n_step_returns(batch.rewards, batch.offsets, batch.terminated, n=3, discount=0.9)
    return [
        returns.returns_to_go(batch.rewards, batch.offsets, 0.9, batch.bootstrap),
        *returns.advantages(*batch, discount=0.9, lambda_=0.8),
        n_step.returns,
        n_step.discounts,
    ]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]], ids=str)
def test_without_rows_there_are_no_estimates(lengths):
    assert [estimate.shape for estimate in all_estimates(batch_of(lengths))] == [(0,)] * 5


def test_n_step_rows_are_integers_also_without_rows():
    assert returns.n_step_returns([], [0], [], n=1, discount=1.0).next_rows.dtype == np.int64


@given(batch=batches())
def test_empty_episodes_leave_no_trace(batch):
    count = len(batch.terminated)
    bounds = np.repeat(batch.offsets, 2)[:-1]
    padded = batch._replace(
        bootstrap=np.insert(batch.bootstrap, np.arange(count), np.nan),
        terminated=np.insert(batch.terminated, np.arange(count), False),
        offsets=bounds,
    )

    for found, expected in zip(all_estimates(padded), all_estimates(batch), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.999, 1.0])
def test_very_long_episodes_keep_their_precision(discount):
    batch = batch_of([LONG, 3])
    expected = [x for one in batch.episodes() for x in plain_returns(one.rewards, discount, one.bootstrap[0])]

    found = returns.returns_to_go(batch.rewards, batch.offsets, discount, batch.bootstrap)

    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize(("discount", "lambda_"), [(0.0, 1.0), (1.0, 0.0), (0.99, 0.95), (1.0, 1.0)])
def test_very_long_episodes_have_exact_advantages(discount, lambda_):
    batch = batch_of([LONG])
    bootstrap = 0.0 if batch.terminated[0] else batch.bootstrap[0]
    expected = plain_advantages(batch.rewards, batch.values, bootstrap, discount, lambda_)

    found, _ = returns.advantages(*batch, discount=discount, lambda_=lambda_)

    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("n", [1000, LONG, 10**30], ids=str)
def test_windows_may_be_as_long_as_the_episode_or_longer(n):
    batch = batch_of([2000, 5])
    expected = [x for one in batch.episodes() for x in plain_n_step(one.rewards, n, 0.99)[0]]

    found = returns.n_step_returns(batch.rewards, batch.offsets, batch.terminated, n=n, discount=0.99)

    np.testing.assert_allclose(found.returns, expected, rtol=1e-12, atol=1e-12)


def test_a_discount_that_fades_to_nothing_raises_no_floating_point_error():
    with np.errstate(all="raise"):
        found = returns.returns_to_go(np.ones(5000), [0, 5000], 0.01)
        n_step = returns.n_step_returns(np.ones(5000), [0, 5000], [False], n=4000, discount=0.01)

    np.testing.assert_allclose(found[:-10], 1 / 0.99, rtol=1e-12)
    assert n_step.discounts[0] == 0.0


@given(
    batch=batches().filter(lambda batch: len(batch.rewards)),
    bad=st.sampled_from([np.nan, np.inf, -np.inf, 1.7e308]),
    data=st.data(),
)
def test_what_is_not_finite_reaches_only_earlier_rows_of_its_episode(batch, bad, data):
    row = data.draw(st.integers(0, len(batch.rewards) - 1))
    first = max(start for start in batch.offsets[:-1] if start <= row)
    spoiled = batch.rewards.copy()
    # Twice in a row, so that the largest number overflows.
    spoiled[max(first, row - 1) : row + 1] = bad
    elsewhere = np.ones(len(spoiled), bool)
    elsewhere[first : row + 1] = False

    for found, expected in zip(all_estimates(batch._replace(rewards=spoiled)), all_estimates(batch), strict=True):
        np.testing.assert_allclose(found[elsewhere], expected[elsewhere], rtol=1e-12, atol=1e-12)


def test_a_value_that_is_not_finite_shows_in_all_rows_before_it():
    found = returns.returns_to_go([1.0, 1.0, np.inf, 1.0, 1.0], [0, 4, 5], 0.5)

    assert found.tolist() == [np.inf, np.inf, np.inf, 1.0, 1.0]


@pytest.mark.parametrize("chunk", [2, 3, 8192])
def test_a_spoiled_episode_spoils_no_other_wherever_chunks_begin(chunk, monkeypatch):
    monkeypatch.setattr(returns, "_CHUNK", chunk)

    found = returns.returns_to_go([1.0, 1.0, 1.0, 1.0, np.nan, 1.0, 1.0], [0, 2, 6, 7], 1.0)

    np.testing.assert_array_equal(found, [2.0, 1.0, np.nan, np.nan, np.nan, 1.0, 1.0])


def test_the_bootstrap_value_of_a_terminated_episode_is_not_read():
    found, targets = returns.advantages(
        [1.0, 2.0], [0.0, 0.0], [np.nan, 4.0], [True, False], [0, 1, 2], discount=0.5, lambda_=0.9
    )

    assert found.tolist() == [1.0, 4.0]
    assert targets.tolist() == [1.0, 4.0]


@given(batch=batches())
def test_what_was_given_is_left_as_it_was(batch):
    before = [array.copy() for array in batch]

    all_estimates(batch)

    for array, copy in zip(batch, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.int32, bool])
def test_results_are_float64_whatever_was_given(dtype):
    batch = batch_of([3, 2])
    batch = batch._replace(rewards=np.ones(5, dtype), values=np.ones(5, dtype), bootstrap=np.ones(2, dtype))

    assert {estimate.dtype for estimate in all_estimates(batch)} == {np.dtype(np.float64)}
