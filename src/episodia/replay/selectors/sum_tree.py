"""A tree of sums over non-negative numbers, from which positions are found in proportion to them."""

from __future__ import annotations

from functools import lru_cache
from typing import final

import numpy as np

from episodia.trees import frozen


@final
class SumTree:
    """Numbers at `size` positions, in blocks of `fan`; their sums, again in blocks; and so on, up to at most `top` sums.

    A block has 8, 16 or 24 entries, so that comparisons of a block are counted as whole words.

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
        # A block times this matrix: the sums before its entries. A product is faster than `cumsum`.
        self._before = np.triu(np.ones((fan, fan)), 1)
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
        begins = _begins(len(at), self._fan)
        for level in self._levels[-2::-1]:
            before = level.reshape(-1, self._fan).take(at, 0) @ self._before
            # What is left lies in the last entry before which there is not more.
            step = _counts_true(before <= left[:, None]) - _ONE
            if level is not self._levels[0]:
                left -= before.reshape(-1).take(begins + step)
            at = at * self._fan + step
        if np.count_nonzero(self._levels[0].take(at)) < len(at):
            self._move_back(at)
        return at

    def _move_back(self, positions: np.ndarray) -> None:
        """Replace positions whose number is 0 by the last ones before them whose number is not.

        Rounding may leave as much as a whole block; then its last entry above 0 is meant.
        """
        values = self.values
        for place in np.flatnonzero(values.take(positions) == 0.0).tolist():
            positions[place] = np.flatnonzero(values[: positions[place]])[-1]


_ONE = np.array(1)
# The product of a word and this one has the sum of the bytes of the word in its upper byte.
_BYTES, _UPPER = np.array(0x0101010101010101, np.uint64), np.array(56, np.uint64)


def _counts_true(mask: np.ndarray) -> np.ndarray:
    """Return how many entries of each row are true, of rows that have 8, 16 or 24: int64 [B]. Much faster than a sum.

    >>> _counts_true(np.arange(16).reshape(2, 8) < 11).tolist()
    [8, 3]
    """
    words = mask.view(np.uint64)
    total = words[:, 0]
    for column in range(1, words.shape[1]):
        total = total + words[:, column]
    counts: np.ndarray = ((total * _BYTES) >> _UPPER).view(np.int64)
    return counts


@lru_cache(maxsize=16)
def _begins(count: int, width: int) -> np.ndarray:
    """Return where each of `count` rows of `width` entries begins."""
    return frozen(np.arange(count) * width)
