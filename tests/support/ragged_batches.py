"""Ragged batches for tests of estimators, and what plain Python computes from one episode of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

FRACTIONS = st.sampled_from([0.0, 1.0, 0.99, 0.5]) | st.floats(0.0, 1.0)


class Batch(NamedTuple):
    """Episodes one after another, with all that the estimators ask for."""

    rewards: np.ndarray
    values: np.ndarray
    bootstrap: np.ndarray
    terminated: np.ndarray
    offsets: np.ndarray

    def episodes(self):
        """Return each episode as a batch of its own."""
        return [self._one(i) for i in range(len(self.terminated))]

    def _one(self, i):
        rows = slice(self.offsets[i], self.offsets[i + 1])
        length = rows.stop - rows.start
        ends = slice(i, i + 1)
        return Batch(
            self.rewards[rows], self.values[rows], self.bootstrap[ends], self.terminated[ends], np.array([0, length])
        )


def batch_of(lengths, seed=0, dtype=np.float64):
    """Return a batch of random numbers with episodes of these lengths."""
    rng = np.random.default_rng(seed)
    rows = sum(lengths)
    return Batch(
        rng.normal(size=rows).astype(dtype),
        rng.normal(size=rows).astype(dtype),
        rng.normal(size=len(lengths)).astype(dtype),
        rng.random(len(lengths)) < 0.5,
        np.cumsum([0, *lengths]),
    )


def batches(dtype=np.float64):
    """Generate batches, those without episodes and with empty episodes among them."""
    lengths = st.lists(st.integers(0, 3) | st.integers(0, 40), max_size=8)
    return st.builds(batch_of, lengths, st.integers(0, 2**32 - 1), st.just(dtype))


def plain_returns(rewards, discount, bootstrap):
    """Return the discounted sum of rewards from each step of one episode."""
    returns, following = [], float(bootstrap)
    for reward in reversed(rewards.tolist()):
        following = reward + discount * following
        returns.append(following)
    return returns[::-1]


def plain_advantages(rewards, values, bootstrap, discount, lambda_):
    """Return the advantages of one episode."""
    values_tp1, advantages, following = [*values.tolist(), float(bootstrap)][1:], [], 0.0
    for reward, value, value_tp1 in reversed(list(zip(rewards.tolist(), values.tolist(), values_tp1, strict=True))):
        following = reward + discount * value_tp1 - value + discount * lambda_ * following
        advantages.append(following)
    return advantages[::-1]


def plain_n_step(rewards, n, discount):
    """Return the n-step returns of one episode, and how many steps each of them covers."""
    rewards, length = rewards.tolist(), len(rewards)
    widths = [min(n, length - t) for t in range(length)]
    return [sum(discount**k * rewards[t + k] for k in range(width)) for t, width in enumerate(widths)], widths


def plain_v_trace(one, logs, *, discount, lambda_, clip_ratio, clip_trace):
    """Return advantages and targets of one episode, by the recursion of the method from its last step to its first."""
    following = 0.0 if one.terminated[0] else float(one.bootstrap[0])
    target_after, advantages, targets = following, [], []
    for reward, value, log in zip(*(column.tolist()[::-1] for column in (one.rewards, one.values, logs)), strict=True):
        ratio = math.exp(log)
        rho, trace = min(clip_ratio, ratio), lambda_ * min(clip_trace, ratio)
        advantages.append(rho * (reward + discount * target_after - value))
        target = value + rho * (reward + discount * following - value) + discount * trace * (target_after - following)
        targets.append(target)
        following, target_after = value, target
    return advantages[::-1], targets[::-1]
