"""Adding rewards, so that the sum is what the environment paid, whatever kind of numbers it paid in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np


def added(first: Any, second: Any) -> Any:
    """Return the sum of two rewards, of which any may be missing, as one of Python's numbers.

    NumPy's narrow kinds wrap around or become infinite, and its booleans stay booleans.

    >>> added(np.int8(100), np.int8(100)), added(None, 0.5), added(np.True_, True)
    (200, 0.5, 2)
    """
    if first is None or second is None:
        return second if first is None else first
    if type(first) is type(second) is float:
        return first + second
    total = _number(first) + _number(second)
    # A column has 64 bits for a reward.
    return total if -(2**63) <= total < 2**63 else float(total)


def total_of(rewards: Iterable[Any]) -> Any:
    """Return the sum of some rewards, 0.0 if there are none.

    >>> total_of([np.uint8(200), np.uint8(100), -5])
    295
    """
    total = reduce(added, rewards, None)
    return 0.0 if total is None else total


def _number(reward: Any) -> int | float:
    value = reward.item() if isinstance(reward, (np.generic, np.ndarray)) else reward
    return int(value) if isinstance(value, int) else float(value)
