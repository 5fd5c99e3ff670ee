"""The ring: rows are claimed in order, and the oldest ones again when the ring is full."""

from __future__ import annotations

from typing import final

import numpy as np

from episodia.replay.rows.claims import Claim, Claims
from episodia.types import State


@final
class Ring(Claims):
    """Claims rows in order, again and again.

    >>> ring = Ring(10)
    >>> ring.claim(8, 8), ring.claim(2, 8), ring.claim(3, 3)
    (Claim(start=0, stop=8, is_used=False), Claim(start=8, stop=10, is_used=False), Claim(start=0, stop=3, is_used=True))
    """

    __slots__ = ("_empty_until", "_left")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        # What finished episodes have left of their extents: start, stop, and when it was claimed.
        self._left: list[tuple[int, int, int]] = []
        # Rows are empty until so many are claimed.
        self._empty_until = 0

    def claim(self, least: int, most: int) -> Claim:
        """Claim the next `most` rows, or fewer if the last row comes before."""
        start = self.claimed % self.capacity
        stop = min(start + most, self.capacity)
        self.claimed += stop - start
        is_used = start < self.used and self.claimed > self._empty_until
        self.used = max(self.used, stop)
        return Claim(start, stop, is_used)

    def emptied_ahead(self, num: int) -> tuple[int, int]:
        """Return the range of those of the next `num` rows that hold something. The caller empties them together.

        >>> ring = Ring(10)
        >>> ring.claim(8, 8), ring.claim(2, 2), ring.emptied_ahead(4), ring.claim(4, 4).is_used, ring.claim(4, 4).is_used
        (Claim(start=0, stop=8, is_used=False), Claim(start=8, stop=10, is_used=False), (0, 4), False, True)
        """
        start = self.claimed % self.capacity
        stop = max(start, min(start + num, self.used))
        self._empty_until = self.claimed + stop - start
        return start, stop

    def is_old(self, born: int, num: int = 0) -> bool:
        """Tell whether rows claimed at `born` will be older than half a lap, and so claimed again soon, `num` rows later."""
        return born < self.old_before + max(num, 0)

    @property
    def old_before(self) -> int:
        """Rows that were claimed when `claimed` was below this are older than half a lap."""
        return self.claimed - self.capacity // 2

    def claimed_since(self, mark: int, rows: np.ndarray) -> bool:
        """Tell whether one of `rows`, all in use when `claimed` was `mark`, has been claimed since."""
        if self.claimed == mark or not len(rows):
            return False
        return bool(((rows - mark) % self.capacity).min() < self.claimed - mark)

    def laps(self, rows: np.ndarray, mark: int) -> np.ndarray:
        """Return how often each row had been claimed when `claimed` was `mark`: int64 [B].

        >>> Ring(10).laps(np.array([7, 2]), 15).tolist()
        [1, 2]
        """
        laps, following = divmod(mark, self.capacity)
        # The rows before the one that is claimed next were claimed once more.
        found: np.ndarray = (rows < following) + np.int64(laps)
        return found

    def ages(self, rows: np.ndarray) -> np.ndarray:
        """Return how many rows have been claimed since each row was: int64 [B], 0 for the newest."""
        ages: np.ndarray = (self.claimed - 1 - rows) % self.capacity
        return ages

    def leave(self, start: int, stop: int, born: int) -> None:
        """Keep rows that were not used for the next episode."""
        self._left.append((start, stop, born))

    def left(self) -> tuple[int, int, int]:
        """Return rows that were left and are young enough, with when they were claimed; an empty range if there are none."""
        while self._left:
            found = self._left.pop()
            if not self.is_old(found[2]):
                return found
        return 0, 0, self.claimed

    def clear(self) -> None:
        """Begin with row 0 again, a whole lap later: all rows count as claimed since."""
        self.used = 0
        self.claimed += 2 * self.capacity - self.claimed % self.capacity
        self._left, self._empty_until = [], 0

    def get_state(self) -> State:
        """Return the place in the ring, and the rows that were left."""
        return {"used": self.used, "claimed": self.claimed, "left": [list(part) for part in self._left]}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self.used, self.claimed = int(state["used"]), int(state["claimed"])
        self._left = [(int(start), int(stop), int(born)) for start, stop, born in state["left"]]
        self._empty_until = 0
