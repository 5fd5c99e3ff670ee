"""Estimators over many episodes at once: discounted sums, returns-to-go, n-step returns, GAE, standardisation.

All of them take a *ragged batch*: flat arrays `[N]` of the steps of `B` episodes, one after another, and `offsets` `[B + 1]`,
so that episode `i` is the rows `offsets[i]:offsets[i + 1]`. Episodes and the batch may be empty. Episodes do not
affect each other, not even by NaN, and there is no Python loop over steps.

Inputs may have any real dtype. Results are computed and returned in float64; callers cast once, at the end.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from episodia.arguments import is_number
from episodia.errors import ReturnsError
from episodia.trees import describe

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

# The number of rows that are scanned together. Fewer rows cost more calls; more rows do not fit into the processor's cache.
_CHUNK = 8192

# The exponential of this is finite, and larger than any limit.
_LARGEST_LOG = 700.0


class NStepTargets(NamedTuple):
    """One n-step target per row: `returns + discounts * V(track[next_rows])`."""

    returns: Floats
    discounts: Floats
    next_rows: Ints


# --- Estimators -----------------------------------------------------------------------------------------------------


def discounted_sums(values: ArrayLike, discounts: ArrayLike, offsets: ArrayLike, bootstrap: ArrayLike = 0.0) -> Floats:
    """Return `x` with `x[t] = values[t] + discounts[t] * x[t + 1]`, where `x` after an episode's last row is its bootstrap.

    All estimators here use this scan. V-trace is the same scan with clipped ratios in `discounts`.

    Args:
        values: The values to sum, `[N]`.
        discounts: One factor in [0, 1] for all rows, or one for each, `[N]`.
        offsets: Where the episodes begin and end, `[B + 1]`.
        bootstrap: The value after each episode's last row, `[B]` or one number for all.

    Returns:
        The sums, `[N]`. A value that is not finite affects only its own row and the earlier rows of its episode.

    Raises:
        ReturnsError: Lengths do not fit together, or a discount lies outside [0, 1].

    >>> discounted_sums([1.0, 1.0, 5.0], 0.5, offsets=[0, 2, 3], bootstrap=[4.0, 0.0]).tolist()
    [2.5, 3.0, 5.0]
    """
    flat = _flat("values", values)
    bounds = _bounds(offsets, flat.size)
    factors = _per("discounts", discounts, flat.size, "row")
    if factors.size and not (factors.min() >= 0.0 and factors.max() <= 1.0):
        raise ReturnsError(
            f"`discounts`: found values from {factors.min()} to {factors.max()}, expected all of them in [0, 1]. "
            f"Clip them, or move the larger factors into `values`."
        )
    return _scan(flat, factors, bounds, _per("bootstrap", bootstrap, bounds.size - 1, "episode"))


def returns_to_go(rewards: ArrayLike, offsets: ArrayLike, discount: float, bootstrap: ArrayLike = 0.0) -> Floats:
    """Return the discounted sum of the rewards from each row to the end of its episode.

    Args:
        rewards: The rewards, `[N]`.
        offsets: Where the episodes begin and end, `[B + 1]`.
        discount: The factor per step, in [0, 1].
        bootstrap: The return after each episode's last row, `[B]` or one number: 0 for terminated episodes, an estimate for
            truncated ones.

    Returns:
        The returns, `[N]`.

    Raises:
        ReturnsError: Lengths do not fit together, or the discount lies outside [0, 1].

    >>> returns_to_go([1.0, 1.0, 1.0, 7.0], offsets=[0, 3, 4], discount=0.5).tolist()
    [1.75, 1.5, 1.0, 7.0]
    """
    flat = _flat("rewards", rewards)
    bounds = _bounds(offsets, flat.size)
    factors = np.full(flat.size, _fraction("discount", discount))
    return _scan(flat, factors, bounds, _per("bootstrap", bootstrap, bounds.size - 1, "episode"))


def n_step_returns(
    rewards: ArrayLike, offsets: ArrayLike, terminated: ArrayLike, *, n: int, discount: float
) -> NStepTargets:
    """Return for each row the discounted rewards of its next `k` steps, and where and how much to bootstrap after them.

    `k` is `n`, or the number of steps until the end of the episode if that is smaller.

    Args:
        rewards: The rewards, `[N]`.
        offsets: Where the episodes begin and end, `[B + 1]`.
        terminated: Which episodes ended in a terminal state, `[B]`.
        n: The largest number of steps to look ahead.
        discount: The factor per step, in [0, 1].

    Returns:
        `returns`, `[N]`; `discounts`, `[N]`, which are `discount ** k`, or 0 where the window ends in a terminal state; and
        `next_rows`, `[N]`, the row of the observation after the window in a track that has one row more for each episode.

    Raises:
        ReturnsError: Lengths do not fit together, `n` is less than 1, or the discount lies outside [0, 1].

    >>> found = n_step_returns([1.0, 2.0, 4.0, 8.0], [0, 3, 4], [True, False], n=2, discount=0.5)
    >>> found.returns.tolist(), found.discounts.tolist(), found.next_rows.tolist()
    ([2.0, 4.0, 4.0, 8.0], [0.25, 0.0, 0.0, 0.5], [2, 3, 3, 5])
    """
    flat = _flat("rewards", rewards)
    bounds = _bounds(offsets, flat.size)
    flags = _flags("terminated", terminated, (bounds.size - 1,), "episode")
    factor = _fraction("discount", discount)
    lengths = np.diff(bounds)
    left = _steps_left(bounds)
    widest = min(_count("n", n), int(lengths.max(initial=0)))
    widths = np.minimum(left, widest)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        returns = _windowed_sums(flat, factor, left, widest)
        discounts = np.power(factor, np.arange(widest + 1))[widths]
    discounts[np.repeat(flags, lengths) & (widths == left)] = 0.0
    next_rows = np.arange(flat.size) + widths + np.repeat(np.arange(lengths.size), lengths)
    return NStepTargets(returns, discounts, next_rows)


def advantages(
    rewards: ArrayLike,
    values: ArrayLike,
    bootstrap_values: ArrayLike,
    terminated: ArrayLike,
    offsets: ArrayLike,
    *,
    discount: float,
    lambda_: float,
) -> tuple[Floats, Floats]:
    """Return generalised advantage estimates (GAE) and the value targets that go with them.

    The value after a terminated episode is 0, even if it was truncated in the same step. After all other episodes, those that
    were only cut included, it is the bootstrap value.

    Args:
        rewards: The rewards, `[N]`.
        values: V(obs[t]) of each row, `[N]`.
        bootstrap_values: V(obs[T]) of each episode, `[B]`. Not read for terminated episodes.
        terminated: Which episodes ended in a terminal state, `[B]`.
        offsets: Where the episodes begin and end, `[B + 1]`.
        discount: The factor per step, in [0, 1].
        lambda_: Between one-step differences (0) and whole returns minus values (1).

    Returns:
        The advantages, `[N]`, and the value targets (advantages plus values), `[N]`.

    Raises:
        ReturnsError: Lengths do not fit together, or `discount` or `lambda_` lies outside [0, 1].

    >>> found, targets = advantages([1.0, 1.0], [0.5, 0.5], [8.0], [False], [0, 2], discount=0.5, lambda_=1.0)
    >>> found.tolist(), targets.tolist()
    ([3.0, 4.5], [3.5, 5.0])
    """
    rewards_t = _flat("rewards", rewards)
    bounds = _bounds(offsets, rewards_t.size)
    values_t = _flat("values", values, rewards_t.size)
    bootstraps = _flat("bootstrap_values", bootstrap_values, bounds.size - 1, "episode")
    flags = _flags("terminated", terminated, (bounds.size - 1,), "episode")
    gamma, decay = _fraction("discount", discount), _fraction("lambda_", lambda_)
    ends, filled = _ends(bounds)
    values_tp1 = np.empty_like(values_t)
    values_tp1[:-1] = values_t[1:]
    # Assigned, not multiplied: 0 × NaN would be NaN.
    values_tp1[ends] = np.where(flags, 0.0, bootstraps)[filled]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # In place: allocating memory costs more than the arithmetic.
        deltas_t = np.multiply(values_tp1, gamma, out=values_tp1)
        deltas_t += rewards_t
        deltas_t -= values_t
        factors = np.full(deltas_t.size, gamma * decay)
        found = _scan(deltas_t, factors, bounds, np.zeros(flags.size), out=deltas_t)
        return found, found + values_t


def v_trace(  # noqa: PLR0913  # the data of an episode, and the numbers of the method
    rewards: ArrayLike,
    values: ArrayLike,
    bootstrap_values: ArrayLike,
    terminated: ArrayLike,
    log_ratios: ArrayLike,
    offsets: ArrayLike,
    *,
    discount: float,
    lambda_: float = 1.0,
    clip_ratio: float = 1.0,
    clip_trace: float = 1.0,
) -> tuple[Floats, Floats]:
    """Return V-trace advantages and value targets: returns of the current policy, estimated from steps of an older one.

    With equal policies, these are the values and advantages of `advantages`, apart from the advantages with `lambda_` below 1.
    The value after an episode is as there: 0 if it terminated, and otherwise the bootstrap value.

    Args:
        rewards: The rewards, `[N]`.
        values: V(obs[t]) of each row, `[N]`.
        bootstrap_values: V(obs[T]) of each episode, `[B]`. Not read for terminated episodes.
        terminated: Which episodes ended in a terminal state, `[B]`.
        log_ratios: The log-probability of each action under the current policy, minus that under the policy that acted, `[N]`.
        offsets: Where the episodes begin and end, `[B + 1]`.
        discount: The factor per step, in [0, 1].
        lambda_: Between one-step targets (0) and targets that look to the end of the episode (1).
        clip_ratio: The largest ratio of probabilities with which the error of a step counts.
        clip_trace: The largest ratio, at most 1, with which errors of later steps count for earlier ones.

    Returns:
        The advantages of the actions, `[N]`, weighted with their clipped ratios, and the value targets, `[N]`.

    Raises:
        ReturnsError: Lengths do not fit together, or a number is out of its range.

    >>> found, targets = v_trace([1.0, 1.0], [0.5, 0.5], [8.0], [False], [0.0, 0.0], [0, 2], discount=0.5)
    >>> found.tolist(), targets.tolist()
    ([3.0, 4.5], [3.5, 5.0])
    """
    rewards_t = _flat("rewards", rewards)
    bounds = _bounds(offsets, rewards_t.size)
    values_t = _flat("values", values, rewards_t.size)
    bootstraps = _flat("bootstrap_values", bootstrap_values, bounds.size - 1, "episode")
    after = np.where(_flags("terminated", terminated, (bounds.size - 1,), "episode"), 0.0, bootstraps)
    ratios = np.exp(np.minimum(_flat("log_ratios", log_ratios, rewards_t.size), _LARGEST_LOG))
    gamma, decay = _fraction("discount", discount), _fraction("lambda_", lambda_)
    if not is_number(clip_ratio) or not clip_ratio > 0.0:
        raise ReturnsError(f"`clip_ratio`: found {clip_ratio!r}, expected a number above 0. Leave it out to get 1.")
    rhos, traces = np.minimum(ratios, clip_ratio), np.minimum(ratios, _fraction("clip_trace", clip_trace))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        deltas = rhos * (rewards_t + gamma * _next_rows(values_t, after, bounds) - values_t)
        targets = values_t + _scan(deltas, gamma * decay * traces, bounds, np.zeros(after.size))
        found = rhos * (rewards_t + gamma * _next_rows(targets, after, bounds) - values_t)
    return found, targets


def _next_rows(values: Floats, after: Floats, bounds: Ints) -> Floats:
    """Return the value of the next row of the same episode, or what comes `after` its last one."""
    ends, filled = _ends(bounds)
    following = np.empty_like(values)
    following[:-1] = values[1:]
    following[ends] = after[filled]
    return following


class ScalarMoments(NamedTuple):
    """The number of some values, their mean, and the sum of the squares of their differences to it.

    >>> parts = np.array([1.0, 3.0]), np.zeros(0), np.array([5.0])
    >>> ScalarMoments.joined([ScalarMoments.of(part) for part in parts])
    ScalarMoments(num=3, mean=3.0, squares=8.0)
    """

    num: int
    mean: float
    squares: float

    @classmethod
    def of(cls, numbers: Floats) -> Self:
        """Return the moments of `numbers`; equal numbers have exactly their value as mean."""
        if not numbers.size:
            return cls(0, 0.0, 0.0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            first = float(numbers.flat[0])
            mean = first + float((numbers - first).mean())
            return cls(numbers.size, mean, float(np.square(numbers - mean).sum()))

    @classmethod
    def joined(cls, parts: Sequence[ScalarMoments]) -> Self:
        """Return the moments of all values of several parts."""
        filled = [part for part in parts if part.num]
        count = sum(part.num for part in filled)
        if not count:
            return cls(0, 0.0, 0.0)
        first = filled[0].mean
        mean = first + sum(part.num * (part.mean - first) for part in filled) / count
        return cls(count, mean, sum(part.squares + part.num * (part.mean - mean) ** 2 for part in filled))


def standardized(
    values: ArrayLike, mask: ArrayLike | None = None, *, epsilon: float = 1e-4, moments: ScalarMoments | None = None
) -> Floats:
    """Return `values` with mean 0 and standard deviation 1 over the values that count, and 0 for all others.

    Args:
        values: Numbers in any shape.
        mask: True for values that count, in the same shape (a `loss_mask`); None if all values count. Other values are not
            read, so they may be NaN.
        epsilon: The smallest divisor, so that rounding errors are not amplified.
        moments: Those of all values, if these values are a part of them.

    Returns:
        An array in the shape of `values`. If all values that count are equal, the result is exactly 0.

    Raises:
        ReturnsError: The mask has another shape or is not boolean, or epsilon is not above 0.

    >>> standardized([1.0, 3.0, 99.0], mask=[True, True, False]).tolist()
    [-1.0, 1.0, 0.0]
    """
    numbers = _numbers("values", values)
    if not is_number(epsilon) or not epsilon > 0.0:
        raise ReturnsError(f"`epsilon`: found {epsilon!r}, expected a number above 0. Leave it out to get 1e-4.")
    if mask is None:
        return _standard_scores(numbers, epsilon, moments)
    counted = _flags("mask", mask, numbers.shape, "value, True where it counts")
    result = np.zeros(numbers.shape)
    result[counted] = _standard_scores(numbers[counted], epsilon, moments)
    return result


def _standard_scores(numbers: Floats, epsilon: float, moments: ScalarMoments | None) -> Floats:
    if not numbers.size:
        return numbers.copy()
    if moments is not None:
        deviation = math.sqrt(moments.squares / moments.num)
        return (numbers - moments.mean) / max(deviation, epsilon)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # The mean of equal numbers need not be that number; the mean of zeros is zero.
        centred = numbers - numbers.flat[0]
        centred -= centred.mean()
        result: Floats = centred / np.maximum(np.sqrt(np.mean(np.square(centred))), epsilon)
    return result


# --- The scan -------------------------------------------------------------------------------------------------------


def _scan(values: Floats, factors: Floats, bounds: Ints, bootstrap: Floats, out: Floats | None = None) -> Floats:
    """Return the solution of `x[t] = values[t] + factors[t] * x[t + 1]`, chunk by chunk from the last row to the first.

    `out` may be `values`: each chunk is read before it is written.
    """
    ends, filled = _ends(bounds)
    following = bootstrap[filled]
    longest = int((bounds[1:] - bounds[:-1]).max(initial=0))
    result = np.empty_like(values) if out is None else out
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for start in reversed(range(0, values.size, _CHUNK)):
            rows = slice(start, min(start + _CHUNK, values.size))
            first, last = ends.searchsorted(rows.start), ends.searchsorted(rows.stop)
            inner, after = ends[first:last] - start, following[first:last]
            if rows.stop < values.size and (first == last or ends[last - 1] != rows.stop - 1):
                # An episode continues after the chunk; its next sum is known already, like a bootstrap.
                inner, after = np.append(inner, rows.stop - start - 1), np.append(after, result[rows.stop])
            result[rows] = _chunk_sums(values[rows], factors[rows], inner, after, longest)
    return result


def _chunk_sums(values: Floats, factors: Floats, ends: Ints, after: Floats, longest: int) -> Floats:
    """Scan the rows of one chunk, where `after[i]` follows row `ends[i]`."""
    following = factors[ends] * after
    sums, closed = values.copy(), factors.copy()
    sums[ends] += following
    closed[ends] = 0.0
    found = _doubling_scan(sums, closed, min(longest, sums.size))
    # One number that is not finite makes the total not finite.
    if np.isfinite(found.sum()):
        return found
    # 0 × NaN is NaN: a factor of 0 at the ends does not stop NaN, a mask does.
    sums = values.copy()
    sums[ends] += following
    left = _steps_left(np.concatenate(([0], ends + 1)))
    return _masked_scan(sums, factors.copy(), left, min(longest, sums.size))


def _doubling_scan(sums: Floats, factors: Floats, longest: int) -> Floats:
    """Add the rows 1, 2, 4, … ahead to each row; `sums` and `factors` are overwritten, factors are 0 at the ends.

    Factors are only multiplied, never divided, so a small discount safely becomes 0.
    """
    scratch, spare = np.empty_like(sums), np.empty_like(sums)
    reach = 1
    while reach < longest:
        near = sums[:-reach]
        near += np.multiply(factors[:-reach], sums[reach:], out=scratch[reach:])
        if 2 * reach < longest:
            # The next round reads no factor of the last rows, so they need not be filled.
            np.multiply(factors[: -2 * reach], factors[reach:-reach], out=spare[: -2 * reach])
            factors, spare = spare, factors
        reach *= 2
    return sums


def _masked_scan(sums: Floats, factors: Floats, left: Ints, longest: int) -> Floats:
    """Return the result of `_doubling_scan` without reading rows after the end of an episode."""
    reach = 1
    while reach < longest:
        near = sums[:-reach]
        np.add(near, factors[:-reach] * sums[reach:], out=near, where=left[:-reach] > reach)
        factors[:-reach] *= factors[reach:]
        reach *= 2
    return sums


def _windowed_sums(rewards: Floats, discount: float, left: Ints, width: int) -> Floats:
    """Return the discounted sums of `width` rows, or of as many as are left, in log2(width) rounds.

    `power` holds the sums of `reach` rows; the powers in the binary form of `width` are added one after another.
    """
    sums, power = np.zeros_like(rewards), rewards.copy()
    done, reach = 0, 1
    while reach <= width:
        if width & reach:
            _add_ahead(sums, power, done, discount, left)
            done += reach
        if 2 * reach <= width:
            _add_ahead(power, power, reach, discount, left)
        reach *= 2
    return sums


def _add_ahead(sums: Floats, others: Floats, ahead: int, discount: float, left: Ints) -> None:
    """Add to each row the row of `others` that lies `ahead` rows later, if it belongs to the same episode."""
    near = sums[: sums.size - ahead]
    np.add(near, discount**ahead * others[ahead:], out=near, where=left[: near.size] > ahead)


def _ends(bounds: Ints) -> tuple[Ints, Bools]:
    """Return the last row of each episode that is not empty, and which episodes are not empty."""
    filled = bounds[1:] > bounds[:-1]
    return bounds[1:][filled] - 1, filled


def _steps_left(bounds: Ints) -> Ints:
    """Return for each row the number of remaining rows of its episode, itself included."""
    left: Ints = np.repeat(bounds[1:], np.diff(bounds)) - np.arange(bounds[-1])
    return left


# --- Checks of arguments -------------------------------------------------------------------------------------------------


def _array(name: str, given: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ReturnsError(
            f"`{name}`: found {describe(given)}, expected an array ({error}). Pass rows of one length."
        ) from error


def _numbers(name: str, given: ArrayLike) -> Floats:
    array = _array(name, given)
    if array.dtype.kind not in "fiub":
        raise ReturnsError(f"`{name}`: found dtype {array.dtype}, expected real numbers. Convert them first.")
    return array.astype(np.float64, copy=False)


def _flat(name: str, given: ArrayLike, size: int | None = None, unit: str = "row") -> Floats:
    array = _numbers(name, given)
    if array.ndim != 1 or size not in {None, array.size}:
        expected = "[N]" if size is None else f"({size},)"
        raise ReturnsError(
            f"`{name}`: found shape {array.shape}, expected {expected}. Pass a flat array with one number per {unit}."
        )
    return array


def _per(name: str, given: ArrayLike, size: int, unit: str) -> Floats:
    """Return one number per row or episode; one number is repeated."""
    array = _numbers(name, given)
    return np.broadcast_to(array, size) if array.ndim == 0 else _flat(name, array, size, unit)


def _bounds(offsets: ArrayLike, rows: int) -> Ints:
    array = _array("offsets", offsets)
    if array.dtype.kind not in "iu" or array.ndim != 1 or not array.size:
        raise ReturnsError(
            f"`offsets`: found {array.dtype} of shape {array.shape}, expected integers of shape [B + 1]. "
            f"Without episodes, pass [0]."
        )
    bounds: Ints = array.astype(np.int64, copy=False)
    if bounds[0] != 0 or bounds[-1] != rows or (bounds[1:] < bounds[:-1]).any():
        shown = np.array2string(bounds, threshold=8, edgeitems=3, separator=", ")
        raise ReturnsError(
            f"`offsets`: found {shown}, expected a sequence that begins with 0, never decreases, and ends with {rows}, the "
            f"number of rows. Pass the cumulative lengths of the episodes."
        )
    return bounds


def _flags(name: str, given: ArrayLike, shape: tuple[int, ...], unit: str) -> Bools:
    array = _array(name, given)
    # An empty list has no dtype.
    if array.shape != shape or (array.dtype != np.bool_ and array.size):
        raise ReturnsError(
            f"`{name}`: found {array.dtype} of shape {array.shape}, expected bool of shape {shape}. "
            f"Pass one flag per {unit}."
        )
    return array.astype(np.bool_, copy=False)


def _fraction(name: str, given: float) -> float:
    if not is_number(given) or not 0.0 <= given <= 1.0:
        raise ReturnsError(f"`{name}`: found {given!r}, expected a number in [0, 1]. Pass 1 for no discount.")
    return float(given)


def _count(name: str, given: int) -> int:
    try:
        count = operator.index(given)
    except TypeError:
        count = 0
    if count < 1:
        raise ReturnsError(f"`{name}`: found {given!r}, expected an integer of at least 1. Use 1 for one-step targets.")
    return count
