"""The ring: which rows are claimed next. Old rows are claimed again when the ring is full."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from episodia.types import State


class Claim(NamedTuple):
    """Rows from `start` to just before `stop`; `is_used` if they had been claimed before."""

    start: int
    stop: int
    is_used: bool


@final
class Ring:
    """Claims rows in order, again and again.

    Attributes:
        capacity: The number of rows.
        used: The rows before this one have been claimed at least once.
        claimed: How many rows have been claimed so far; it never decreases.

    >>> ring = Ring(10)
    >>> ring.claim(8), ring.claim(8), ring.claim(3)
    (Claim(start=0, stop=8, is_used=False), Claim(start=8, stop=10, is_used=False), Claim(start=0, stop=3, is_used=True))
    """

    __slots__ = ("capacity", "claimed", "used")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self.claimed = 0

    def claim(self, num: int) -> Claim:
        """Claim the next `num` rows, or fewer if the last row comes before."""
        start = self.claimed % self.capacity
        stop = min(start + num, self.capacity)
        is_used = start < self.used
        self.used = max(self.used, stop)
        self.claimed += stop - start
        return Claim(start, stop, is_used)

    def is_old(self, born: int, num: int = 0) -> bool:
        """Tell whether rows claimed at `born` will be older than half a lap, and so claimed again soon, `num` rows later."""
        return self.claimed + max(num, 0) - born > self.capacity // 2

    def claimed_since(self, mark: int, rows: np.ndarray) -> bool:
        """Tell whether one of `rows`, all in use when `claimed` was `mark`, has been claimed since."""
        if self.claimed == mark or not len(rows):
            return False
        return bool(((rows - mark) % self.capacity).min() < self.claimed - mark)

    def clear(self) -> None:
        """Begin with row 0 again, a whole lap later: all rows count as claimed since."""
        self.used = 0
        self.claimed += 2 * self.capacity - self.claimed % self.capacity

    def get_state(self) -> State:
        """Return the place in the ring."""
        return {"used": self.used, "claimed": self.claimed}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self.used, self.claimed = int(state["used"]), int(state["claimed"])
