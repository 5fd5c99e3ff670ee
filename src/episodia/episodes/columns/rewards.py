"""Rewards: the numbers that are accepted, and sums that neither overflow nor round."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import countOf
from typing import Any

import numpy as np
from gymnasium import spaces

from episodia.errors import EpisodeError
from episodia.trees import SCALAR_TYPES, describe, own
from episodia.types import Item

# Every real number is a reward.
REWARD_SPACE = spaces.Box(-np.inf, np.inf, (), np.float64)

# Types whose values are all rewards; `int` is not among them, because not every int fits into 64 bits.
REWARD_TYPES = frozenset(
    {float, bool} | {kind for kind in SCALAR_TYPES if issubclass(kind, (np.floating, np.integer, np.bool_))}
)


def as_reward(reward: Item) -> Any:
    """Return `reward`, a single number."""
    if type(reward) in REWARD_TYPES or (type(reward) is int and -(2**63) <= reward < 2**63):
        return reward
    if (
        isinstance(reward, (float, np.floating, np.integer))
        or (isinstance(reward, int) and -(2**63) <= reward < 2**63)
        or (isinstance(reward, np.ndarray) and reward.shape == () and reward.dtype.kind in "biuf")
    ):
        return own(reward)
    raise EpisodeError(f"found {describe(reward)}, expected a number of at most 64 bits. Pass `float(reward)`.")


def check_rewards(data: Item) -> None:
    """Reject data other than a list or a one-dimensional array of numbers."""
    if isinstance(data, np.ndarray):
        if data.ndim != 1 or data.dtype.kind not in "biuf":
            raise EpisodeError(
                f"found {describe(data)}, expected a one-dimensional array of numbers. Pass one for each step."
            )
    elif data is not None and countOf(map(type, data), float) < len(data):
        for reward in data:
            as_reward(reward)


def added(first: Item, second: Item) -> Any:
    """Return the sum of two rewards as a Python number; a reward of None is missing.

    Narrow NumPy numbers would wrap around or become infinite, and NumPy bools would stay bools.

    >>> added(np.int8(100), np.int8(100)), added(None, 0.5), added(np.True_, True)
    (200, 0.5, 2)
    """
    if first is None or second is None:
        return second if first is None else first
    if type(first) is type(second) is float:
        return first + second
    total = _number(first) + _number(second)
    # A column stores a reward in 64 bits.
    return total if -(2**63) <= total < 2**63 else float(total)


def total_of(rewards: Iterable[Any]) -> Any:
    """Return the sum of some rewards, 0.0 for an empty sequence.

    >>> total_of([np.uint8(200), np.uint8(100), -5])
    295
    """
    total = reduce(added, rewards, None)
    return 0.0 if total is None else total


def _number(reward: Any) -> int | float:
    value = reward.item() if isinstance(reward, (np.generic, np.ndarray)) else reward
    return int(value) if isinstance(value, int) else float(value)
