"""The reservoir: of all episodes that ever came, a random part is kept.

Each episode has a score, a number that its id and the buffer's seed decide and that looks random. Stored are the episodes whose
scores are above a threshold. When rows are missing, the threshold rises to the lowest score that is stored, and this episode
goes. So whether an episode is kept does not depend on when it came; and a chunk tells by its id whether its episode is kept,
without a list of those that are not.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from hashlib import blake2b
from typing import final

import numpy as np

from episodia.replay.rows.row_pool import RowPool
from episodia.types import State


@final
class Reservoir:
    """Decides which episodes are kept in a pool of rows.

    Attributes:
        pool: The rows.
        salt: Decides, with the id of an episode, the score of the episode.
        threshold: Episodes whose score is not above it are not kept; it never falls.
    """

    __slots__ = ("_heap", "_known", "_order", "pool", "salt", "threshold")

    def __init__(self, pool: RowPool, salt: int) -> None:
        self.pool = pool
        self.salt = salt
        self._order = 0
        self.threshold = -1.0
        self._heap: list[tuple[float, int, Hashable]] = []
        self._known: set[Hashable] = set()

    def score(self, key: Hashable) -> float:
        """Return the score of an episode, from 0 to 1; agents of one episode have the same.

        >>> reservoir = Reservoir(RowPool(8), salt=7)
        >>> 0.0 <= reservoir.score("a") == reservoir.score(("a", "red")) < 1.0
        True
        """
        id_ = key[0] if isinstance(key, tuple) else key
        digest = blake2b(repr(id_).encode(), digest_size=8, salt=self.salt.to_bytes(8, "little")).digest()
        return (int.from_bytes(digest, "little") >> 11) * 2.0**-53

    def keep(self, keys: Iterable[Hashable]) -> None:
        """Take notice of episodes that are stored now."""
        for key in keys:
            if key not in self._known:
                self._known.add(key)
                self._order += 1  # no two entries are compared by their keys
                heapq.heappush(self._heap, (self.score(key), self._order, key))

    def admit(self, keys: list[Hashable], needed: np.ndarray, drop: Callable[[Hashable], None]) -> np.ndarray:
        """Drop the stored episodes with the lowest scores until the chunks of all others fit; return which chunks these are.

        Args:
            keys: The ids of the episodes of the chunks.
            needed: The number of rows that each chunk needs: int64 [B].
            drop: Gives all rows of a stored episode back to the pool.
        """
        scores = np.array([self.score(key) for key in keys])
        kept: np.ndarray = scores > self.threshold
        while int(needed[kept].sum()) > self.pool.free:
            self.threshold = float(scores[kept].min())
            if self._heap:
                self.threshold = min(self.threshold, self._heap[0][0])
            kept = scores > self.threshold
            while self._heap and self._heap[0][0] <= self.threshold:
                _, _, key = heapq.heappop(self._heap)
                self._known.remove(key)
                drop(key)
        self.pool.promised = int(needed[kept].sum())
        return kept

    def clear(self) -> None:
        """Begin again."""
        self.threshold = -1.0
        self._heap, self._known = [], set()

    def get_state(self) -> State:
        """Return salt and threshold."""
        return {"salt": self.salt, "threshold": self.threshold}

    def set_state(self, state: State, keys: Iterable[Hashable]) -> None:
        """Continue from what `get_state` returned, with the stored episodes in the order in which they came."""
        self.clear()
        self.salt, self.threshold = int(state["salt"]), float(state["threshold"])
        self.keep(keys)
