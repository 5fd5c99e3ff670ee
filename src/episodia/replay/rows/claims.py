"""Claims of the rows that a buffer writes next: the common part of all ways of claiming."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from episodia.types import State


class Claim(NamedTuple):
    """Rows from `start` to just before `stop`; `is_used` if what they hold has to be evicted first."""

    start: int
    stop: int
    is_used: bool


class Claims(ABC):
    """Claims rows for episodes.

    Attributes:
        capacity: The number of rows.
        used: The rows before this one have been claimed at least once.
        claimed: How many rows have been claimed so far; it never decreases.
    """

    #: Attributes that are arrays with an entry for each row.
    arrays: ClassVar[tuple[str, ...]] = ()
    __slots__ = ("capacity", "claimed", "used")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self.claimed = 0

    @abstractmethod
    def claim(self, least: int, most: int) -> Claim:
        """Claim neighbouring rows: `most`, or fewer; `least` rows are needed, in this claim and the next ones."""

    def emptied_ahead(self, num: int) -> tuple[int, int]:
        """Return the range of those of the next `num` rows that hold something. The caller empties them together.

        Claims of these rows are not `is_used` any more.
        """
        return 0, 0

    @abstractmethod
    def is_old(self, born: int, num: int = 0) -> bool:
        """Tell whether rows claimed when `claimed` was `born` may be claimed again soon after `num` more rows."""

    @property
    @abstractmethod
    def old_before(self) -> int:
        """Rows that were claimed when `claimed` was below this may be claimed again soon."""

    @abstractmethod
    def claimed_since(self, mark: int, rows: np.ndarray) -> bool:
        """Tell whether one of `rows`, all in use when `claimed` was `mark`, has been claimed since."""

    @abstractmethod
    def laps(self, rows: np.ndarray, mark: int) -> np.ndarray:
        """Return how often each row had been claimed when `claimed` was `mark`: int64 [B].

        Of a row that was claimed since, any smaller number than that of today.
        """

    @abstractmethod
    def ages(self, rows: np.ndarray) -> np.ndarray:
        """Return how many rows have been claimed since each row was: int64 [B], 0 for the newest."""

    @abstractmethod
    def leave(self, start: int, stop: int, born: int) -> None:
        """Take back claimed rows that were not used; they were claimed when `claimed` was `born`."""

    @abstractmethod
    def left(self) -> tuple[int, int, int]:
        """Return rows that were left, with when they were claimed, for another episode; an empty range if there are none."""

    @abstractmethod
    def clear(self) -> None:
        """Begin again: all rows count as claimed since."""

    @abstractmethod
    def get_state(self) -> State:
        """Return which rows are claimed."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
