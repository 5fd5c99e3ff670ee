"""The pool: rows that are free, wherever they lie; episodes leave it in any order."""

from __future__ import annotations

from typing import final

import numpy as np

from episodia.replay.rows.claims import Claim, Claims
from episodia.types import State


@final
class RowPool(Claims):
    """Claims free rows; nothing is evicted by claiming, so rows have to be given back in time.

    Attributes:
        free: How many rows are free.
        promised: How many of them are needed for the chunks that are being placed; reserves are made of the others.
        claimed_at: How many rows had been claimed before each row was: int64 [capacity].
        times_claimed: How often each row was claimed: int64 [capacity].

    >>> pool = RowPool(10)
    >>> pool.claim(6, 6), pool.claim(4, 4), pool.free
    (Claim(start=0, stop=6, is_used=False), Claim(start=6, stop=10, is_used=False), 0)
    >>> pool.give_back(2, 4)
    >>> pool.give_back(4, 6)
    >>> pool.claim(3, 3)
    Claim(start=2, stop=5, is_used=False)
    """

    arrays = ("claimed_at", "times_claimed")
    __slots__ = ("_starts", "_stops", "claimed_at", "free", "promised", "times_claimed")

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.claimed_at = np.zeros(capacity, np.int64)
        self.times_claimed = np.zeros(capacity, np.int64)
        # Free ranges: the stop of each start, and the start of each stop.
        self._stops: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self.free = self.promised = 0
        self.give_back(0, capacity)

    def claim(self, least: int, most: int) -> Claim:
        """Claim rows of the range that was given back last."""
        start, stop = self._stops.popitem()
        del self._starts[stop]
        wanted = least + min(most - least, max(0, self.free - self.promised))
        if start + wanted < stop:
            self._stops[start + wanted], self._starts[stop] = stop, start + wanted
            stop = start + wanted
        count = stop - start
        self.claimed_at[start:stop] = np.arange(self.claimed, self.claimed + count)
        self.times_claimed[start:stop] += 1
        self.free -= count
        self.promised = max(0, self.promised - min(least, count))
        self.claimed += count
        self.used = max(self.used, stop)
        return Claim(start, stop, is_used=False)

    def give_back(self, start: int, stop: int) -> None:
        """Let rows be claimed again; neighbouring ranges become one."""
        self.free += stop - start
        if start in self._starts:
            start = self._starts.pop(start)
            del self._stops[start]
        if stop in self._stops:
            following = self._stops.pop(stop)
            del self._starts[following]
            stop = following
        self._stops[start], self._starts[stop] = stop, start

    def is_old(self, born: int, num: int = 0) -> bool:
        """Return False: rows are never claimed again before they are given back."""
        return False

    @property
    def old_before(self) -> int:
        """Return 0: rows do not get old."""
        return 0

    def claimed_since(self, mark: int, rows: np.ndarray) -> bool:
        """Tell whether one of `rows`, all in use when `claimed` was `mark`, has been claimed since."""
        if self.claimed == mark or not len(rows):
            return False
        return bool(self.claimed_at.take(rows).max() >= mark)

    def laps(self, rows: np.ndarray, mark: int) -> np.ndarray:
        """Return how often each row had been claimed when `claimed` was `mark`: int64 [B]."""
        found: np.ndarray = self.times_claimed.take(rows) - (self.claimed_at.take(rows) >= mark)
        return found

    def ages(self, rows: np.ndarray) -> np.ndarray:
        """Return how many rows have been claimed since each row was: int64 [B], 0 for the newest."""
        ages: np.ndarray = self.claimed - 1 - self.claimed_at.take(rows)
        return ages

    def leave(self, start: int, stop: int, born: int) -> None:
        """Let rows that were not used be claimed again."""
        self.give_back(start, stop)

    def left(self) -> tuple[int, int, int]:
        """Return no rows: what was left is free."""
        return 0, 0, self.claimed

    def clear(self) -> None:
        """Let all rows be free; all count as claimed since."""
        claimed, capacity = self.claimed, self.capacity
        self._stops, self._starts = {}, {}
        self.free = self.promised = self.used = 0
        self.give_back(0, capacity)
        self.claimed_at[:] = claimed
        self.times_claimed += 1
        self.claimed = claimed + 1

    def get_state(self) -> State:
        """Return the free ranges, and when each row was claimed."""
        return {
            "used": self.used,
            "claimed": self.claimed,
            "free": [list(part) for part in self._stops.items()],
            "born": self.claimed_at.copy(),
            "laps": self.times_claimed.copy(),
        }

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self._stops = {int(start): int(stop) for start, stop in state["free"]}
        self._starts = {stop: start for start, stop in self._stops.items()}
        self.free = sum(stop - start for start, stop in self._stops.items())
        self.claimed_at[:], self.times_claimed[:] = state["born"], state["laps"]
        self.used, self.claimed, self.promised = int(state["used"]), int(state["claimed"]), 0
