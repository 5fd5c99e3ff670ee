"""A tree of sums over non-negative numbers, from which positions are found in proportion to them."""

from __future__ import annotations

from typing import final

import numpy as np


@final
class SumTree:
    """Numbers at `size` positions, in blocks of `fan`, and blocks of blocks, up to a top of at most `top` sums.

    Each block keeps the sums of its numbers from its first one on. Sums are recomputed from what is below them, never added to,
    so rounding errors do not grow. All in float64.

    >>> tree = SumTree(5)
    >>> tree.set(np.array([0, 3]), np.array([1.0, 3.0]))
    >>> tree.total, tree.find(np.array([0.5, 1.0, 3.9])).tolist()
    (4.0, [0, 3, 3])
    """

    __slots__ = ("_cumulated", "_fan", "_levels", "_prefixes", "size")

    def __init__(self, size: int, *, fan: int = 16, top: int = 4096) -> None:
        self.size = size
        self._fan = fan
        num_levels, count = 0, size
        while count > top:
            num_levels, count = num_levels + 1, -(-count // fan)
        sizes = [count * fan**level for level in range(num_levels, -1, -1)]
        # The numbers, then the sums of their blocks, and so on; rounded up to whole blocks.
        self._levels = [np.zeros(padded) for padded in sizes]
        # Inside each block, sums from its first entry on.
        self._prefixes = [np.zeros((padded // fan, fan)) for padded in sizes[:-1]]
        self._cumulated: np.ndarray | None = None

    @property
    def values(self) -> np.ndarray:
        """The numbers: float64 [size]; write with `set`."""
        return self._levels[0][: self.size]

    @property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self._top()[-1])

    def _top(self) -> np.ndarray:
        if self._cumulated is None:
            self._cumulated = self._levels[-1].cumsum()
        return self._cumulated

    def set(self, positions: np.ndarray, values: np.ndarray | float) -> None:
        """Set the numbers at `positions`, int64 [B]; of equal positions, the last one counts."""
        self._levels[0][positions] = values
        at = positions
        for level, prefix in enumerate(self._prefixes):
            at = at // self._fan
            sums = self._levels[level].reshape(-1, self._fan).take(at, 0).cumsum(axis=1)
            prefix[at] = sums
            self._levels[level + 1][at] = sums[:, -1]
        self._cumulated = None

    def find(self, masses: np.ndarray) -> np.ndarray:
        """Return for each mass, from 0 to below `total`, the position up to which the numbers sum up to more: int64 [B].

        A position whose number is 0 is never found.
        """
        cumulated, top = self._top(), self._levels[-1]
        # A mass may be rounded up to the total.
        masses = np.minimum(masses, np.nextafter(cumulated[-1], 0.0))
        at = cumulated.searchsorted(masses, side="right")
        left = masses - (cumulated.take(at) - top.take(at))
        for level in range(len(self._prefixes) - 1, -1, -1):
            prefix = self._prefixes[level].take(at, 0)
            # Rounding may leave as much as the whole block: then its last entry above 0 is meant.
            left = np.minimum(left, np.nextafter(prefix[:, -1], 0.0))
            step = (prefix > left[:, None]).argmax(axis=1)
            if level:
                left = left - np.where(step > 0, prefix[np.arange(len(step)), step - 1], 0.0)
            at = at * self._fan + step
        return at
