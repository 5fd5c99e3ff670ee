"""A tree of sums over non-negative numbers, from which positions are found in proportion to them."""

from __future__ import annotations

from functools import lru_cache
from typing import final

import numpy as np

from episodia.trees import frozen


@final
class SumTree:
    """Numbers at `size` positions, in blocks of `fan`; their sums, again in blocks; and so on, up to at most `top` sums.

    Sums are recomputed from what is below them, never added to, so rounding errors do not grow. All in float64. If an exception
    such as Ctrl-C comes while numbers are set, all sums are recomputed before they are used again.

    >>> tree = SumTree(5)
    >>> tree.set(np.array([0, 3]), np.array([1.0, 3.0]))
    >>> tree.total, tree.find(np.array([0.5, 1.0, 3.9])).tolist()
    (4.0, [0, 3, 3])
    """

    __slots__ = ("_before", "_cumulated", "_fan", "_is_whole", "_levels", "_ones", "size")

    def __init__(self, size: int, *, fan: int = 16, top: int = 512) -> None:
        self.size = size
        self._fan = fan
        self._ones = np.ones(fan)
        # A block times this matrix: the sums of its first 0, 1, 2, ... entries. A product is faster than `cumsum`.
        self._before = np.triu(np.ones((fan, fan + 1)), 1)
        num_levels, count = 0, size
        while count > top:
            num_levels, count = num_levels + 1, -(-count // fan)
        # The numbers, then the sums of their blocks, and so on; rounded up to whole blocks.
        self._levels = [np.zeros(count * fan**level) for level in range(num_levels, -1, -1)]
        self._cumulated: np.ndarray | None = None
        self._is_whole = True  # whether the sums are those of the numbers

    @property
    def values(self) -> np.ndarray:
        """The numbers: float64 [size]; write with `set`."""
        return self._levels[0][: self.size]

    @property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self._top()[-1])

    def _top(self) -> np.ndarray:
        if not self._is_whole:
            self._sum_up(np.arange(self.size))
        if self._cumulated is None:
            self._cumulated = self._levels[-1].cumsum()
        return self._cumulated

    def set(self, positions: np.ndarray, values: np.ndarray | float) -> None:
        """Set the numbers at `positions`, int64 [B]; of equal positions, the last one counts."""
        if not self._is_whole:
            self._sum_up(np.arange(self.size))
        self._is_whole = False
        self._levels[0][positions] = values
        self._sum_up(positions)

    def _sum_up(self, positions: np.ndarray) -> None:
        """Recompute the sums of the blocks of these positions."""
        at = positions
        for below, level in zip(self._levels, self._levels[1:], strict=False):
            at = at // self._fan
            level[at] = below.reshape(-1, self._fan).take(at, 0) @ self._ones
        self._cumulated = None
        self._is_whole = True

    def find(self, masses: np.ndarray) -> np.ndarray:
        """Return for each mass, from 0 to below `total`, the position up to which the numbers sum up to more: int64 [B].

        A position whose number is 0 is not found, as long as sums of the same numbers are rounded in the same way.
        """
        cumulated, top = self._top(), self._levels[-1]
        # A mass may be rounded up to the total.
        masses = np.minimum(masses, np.nextafter(cumulated[-1], 0.0))
        at = cumulated.searchsorted(masses, side="right")
        left = np.maximum(masses - (cumulated.take(at) - top.take(at)), 0.0)
        begins = _begins(len(at), self._fan + 1)
        for level in self._levels[-2::-1]:
            before = level.reshape(-1, self._fan).take(at, 0) @ self._before
            # Rounding may leave as much as the whole block: then its last entry above 0 is meant.
            left = np.minimum(left, np.nextafter(before[:, -1], 0.0))
            step = (before > left[:, None]).argmax(axis=1) - 1
            left -= before.reshape(-1).take(begins + step)
            at = at * self._fan + step
        return at


@lru_cache(maxsize=16)
def _begins(count: int, width: int) -> np.ndarray:
    """Return where each of `count` rows of `width` entries begins."""
    return frozen(np.arange(count) * width)
