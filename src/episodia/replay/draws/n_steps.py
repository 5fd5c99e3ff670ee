"""N-step windows: from the rewards of the next n steps to their discounted sum, and the discount of the value after them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class NSteps(NamedTuple):
    """Sums of rewards, and discounts of the values after them; both `[B]`."""

    returns: np.ndarray
    discounts: np.ndarray


def n_step_sums(rewards: np.ndarray, counts: np.ndarray | None, terminated: np.ndarray, gamma: float) -> NSteps:
    """Return for each window the discounted sum of its rewards, and gamma to the power of its length.

    Args:
        rewards: The rewards of each window, `[B, n]`; what comes after a window's end is ignored.
        counts: The number of steps that each window has, from 1 to n, `[B]`; None if all have n.
        terminated: Which windows end in a terminal state, `[B]`: nothing is bootstrapped there, so their discount is 0.
        gamma: The discount of one step.

    Returns:
        Sums in the dtype of the rewards, and discounts in float32.

    >>> sums = n_step_sums(np.array([[1.0, 1.0], [1.0, 9.0]]), np.array([2, 1]), np.array([False, True]), 0.5)
    >>> sums.returns.tolist(), sums.discounts.tolist()
    ([1.5, 1.0], [0.25, 0.0])
    """
    num = rewards.shape[1]
    powers = np.power(float(gamma), np.arange(num + 1))
    if counts is None:
        sums, discounts = rewards @ powers[:-1], np.full(len(rewards), powers[-1], np.float32)
    else:
        inside = np.arange(num) < counts[:, None]
        sums = np.where(inside, rewards, 0.0) @ powers[:-1]
        discounts = powers.astype(np.float32).take(counts)
    discounts[terminated] = 0.0
    return NSteps(sums.astype(rewards.dtype, copy=False), discounts)
