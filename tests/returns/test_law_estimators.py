"""On many episodes at once, estimators give what plain Python gives for each episode alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import returns
from ragged_batches import (
    FRACTIONS,
    batch_of,
    batches,
    plain_advantages,
    plain_n_step,
    plain_returns,
    plain_v_trace,
)

PRECISIONS = [(np.float32, 1e-6), (np.float64, 1e-12)]
CHUNKS = st.sampled_from([1, 2, 3, 7, 16, 8192])


def joined(parts):
    return np.array([x for part in parts for x in part], np.float64)


def agree(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@given(data=st.data(), discount=FRACTIONS)
def test_h5_returns_to_go_are_those_of_each_episode(dtype, tolerance, data, discount):
    batch = data.draw(batches(dtype))
    expected = joined(plain_returns(one.rewards, discount, one.bootstrap[0]) for one in batch.episodes())

    agree(returns.returns_to_go(batch.rewards, batch.offsets, discount, batch.bootstrap), expected, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@given(data=st.data(), discount=FRACTIONS, lambda_=FRACTIONS)
def test_h5_advantages_are_those_of_each_episode(dtype, tolerance, data, discount, lambda_):
    batch = data.draw(batches(dtype))
    expected = joined(
        plain_advantages(one.rewards, one.values, 0.0 if one.terminated[0] else one.bootstrap[0], discount, lambda_)
        for one in batch.episodes()
    )

    found, targets = returns.advantages(*batch, discount=discount, lambda_=lambda_)

    agree(found, expected, tolerance)
    agree(targets, expected + batch.values, tolerance)


LIMITS = st.sampled_from([1.0, 0.5, 2.0])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-9)])
@given(data=st.data(), discount=FRACTIONS, lambda_=FRACTIONS, clip_ratio=LIMITS, clip_trace=FRACTIONS)
def test_h5_v_trace_is_that_of_each_episode(dtype, tolerance, data, discount, lambda_, clip_ratio, clip_trace):
    batch = data.draw(batches(dtype))
    logs = np.random.default_rng(len(batch.rewards)).normal(size=len(batch.rewards)).astype(dtype)
    numbers = {"discount": discount, "lambda_": lambda_, "clip_ratio": clip_ratio, "clip_trace": clip_trace}
    expected = [
        plain_v_trace(one, logs[first:last], **numbers)
        for one, first, last in zip(batch.episodes(), batch.offsets[:-1], batch.offsets[1:], strict=True)
    ]

    found, targets = returns.v_trace(*batch[:4], logs, batch.offsets, **numbers)

    agree(found, joined(part[0] for part in expected), tolerance)
    agree(targets, joined(part[1] for part in expected), tolerance)


@given(batch=batches(), discount=FRACTIONS)
def test_v_trace_of_the_policy_that_acted_is_gae_with_lambda_1(batch, discount):
    found, targets = returns.v_trace(*batch[:4], np.zeros(len(batch.rewards)), batch.offsets, discount=discount)
    advantages, values = returns.advantages(*batch, discount=discount, lambda_=1.0)

    agree(found, advantages, 1e-9)
    agree(targets, values, 1e-9)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@given(data=st.data(), n=st.integers(1, 50), discount=FRACTIONS)
def test_h5_n_step_returns_are_those_of_each_episode(dtype, tolerance, data, n, discount):
    batch = data.draw(batches(dtype))
    expected = joined(plain_n_step(one.rewards, n, discount)[0] for one in batch.episodes())

    found = returns.n_step_returns(batch.rewards, batch.offsets, batch.terminated, n=n, discount=discount)

    agree(found.returns, expected, tolerance)


@given(batch=batches(), n=st.integers(1, 50), discount=FRACTIONS)
def test_n_step_discounts_have_the_real_width_and_are_0_at_terminal_states(batch, n, discount):
    expected = [
        0.0 if one.terminated[0] and t + width == len(one.rewards) else discount**width
        for one in batch.episodes()
        for t, width in enumerate(plain_n_step(one.rewards, n, discount)[1])
    ]

    found = returns.n_step_returns(batch.rewards, batch.offsets, batch.terminated, n=n, discount=discount)

    agree(found.discounts, np.array(expected), 1e-12)


@given(batch=batches(), n=st.integers(1, 50))
def test_n_step_rows_point_at_the_observation_after_the_window(batch, n):
    # A track of (episode, t), one row longer than each episode.
    track = [(i, t) for i, one in enumerate(batch.episodes()) for t in range(len(one.rewards) + 1)]
    expected = [
        (i, t + width)
        for i, one in enumerate(batch.episodes())
        for t, width in enumerate(plain_n_step(one.rewards, n, 1.0)[1])
    ]

    found = returns.n_step_returns(batch.rewards, batch.offsets, batch.terminated, n=n, discount=1.0)

    assert [track[row] for row in found.next_rows] == expected


@given(batch=batches(), seed=st.integers(0, 99))
def test_discounts_may_differ_from_row_to_row(batch, seed):
    discounts = np.random.default_rng(seed).random(len(batch.rewards))
    expected = []
    for i, one in enumerate(batch.episodes()):
        following, sums = one.bootstrap[0], []
        for t in reversed(range(len(one.rewards))):
            following = one.rewards[t] + discounts[batch.offsets[i] + t] * following
            sums.append(following)
        expected += sums[::-1]

    found = returns.discounted_sums(batch.rewards, discounts, batch.offsets, batch.bootstrap)

    agree(found, np.array(expected), 1e-12)


@given(batch=batches(), chunk=CHUNKS, discount=FRACTIONS)
def test_where_a_batch_is_cut_into_chunks_changes_nothing(batch, chunk, discount):
    expected = joined(plain_returns(one.rewards, discount, one.bootstrap[0]) for one in batch.episodes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(returns, "_CHUNK", chunk)
        found = returns.returns_to_go(batch.rewards, batch.offsets, discount, batch.bootstrap)

    agree(found, expected, 1e-12)


@given(batch=batches(), discount=FRACTIONS, lambda_=FRACTIONS)
def test_truncated_and_terminated_differ_only_in_the_bootstrap(batch, discount, lambda_):
    terminated = batch._replace(terminated=np.ones_like(batch.terminated))
    worthless = batch._replace(terminated=~terminated.terminated, bootstrap=np.zeros_like(batch.bootstrap))

    found = returns.advantages(*terminated, discount=discount, lambda_=lambda_)
    expected = returns.advantages(*worthless, discount=discount, lambda_=lambda_)

    np.testing.assert_array_equal(found, expected)


@given(batch=batches(), discount=FRACTIONS)
def test_with_lambda_1_value_targets_are_returns_to_go(batch, discount):
    bootstrap = np.where(batch.terminated, 0.0, batch.bootstrap)

    _, targets = returns.advantages(*batch, discount=discount, lambda_=1.0)

    agree(targets, returns.returns_to_go(batch.rewards, batch.offsets, discount, bootstrap), 1e-12)


@given(batch=batches(), discount=FRACTIONS)
def test_with_lambda_0_value_targets_are_one_step_targets(batch, discount):
    one_step = returns.n_step_returns(batch.rewards, batch.offsets, batch.terminated, n=1, discount=discount)
    track = joined([*one.values, one.bootstrap[0]] for one in batch.episodes())

    _, targets = returns.advantages(*batch, discount=discount, lambda_=0.0)

    agree(targets, one_step.returns + one_step.discounts * track[one_step.next_rows], 1e-12)


def test_a_batch_as_long_as_many_chunks_is_scanned_like_a_short_one():
    batch = batch_of([20_000, 0, 1, 8_191, 8_192, 3])
    expected = joined(plain_returns(one.rewards, 0.99, one.bootstrap[0]) for one in batch.episodes())

    agree(returns.returns_to_go(batch.rewards, batch.offsets, 0.99, batch.bootstrap), expected, 1e-12)
