"""`RateLimiter`: how many steps are sampled for each step that is added."""

from __future__ import annotations

import math
from typing import final

from episodia.arguments import checked_number, checked_whole, names_nearest_argument
from episodia.errors import ReplayError
from episodia.types import State


@names_nearest_argument
@final
class RateLimiter:
    """Keeps the number of sampled steps close to `samples_per_insert` times the number of added steps.

    It only counts. A loop asks before it adds or samples, and reports what it did:

    >>> limiter = RateLimiter(samples_per_insert=4, min_size=100, error=256)
    >>> limiter.inserted(100)
    >>> while limiter.can_sample(32):
    ...     limiter.sampled(32)
    >>> limiter.num_sampled, limiter.can_insert(64), limiter.can_insert(32)
    (256, True, True)

    The *balance* is `samples_per_insert * num_inserted - num_sampled`. Adding raises it and sampling lowers it, and both are
    allowed while it stays within `error` of its value at `min_size`, `samples_per_insert * min_size`. Adding is always allowed
    up to `min_size` steps, and sampling is not allowed before. With `n` steps added and `m` steps sampled at a time, one of the
    two is always allowed if `error` is at least `samples_per_insert * n` and at least `m`.

    Args:
        samples_per_insert: How often each added step is sampled, on average.
        min_size: How many steps to add before the first one is sampled.
        error: How far the balance may be off; `math.inf` leaves only `min_size` as a condition.
    """

    def __init__(self, *, samples_per_insert: float, min_size: int = 1, error: float) -> None:
        where = "RateLimiter"
        low, most = math.ulp(0.0), 1e12
        self._ratio = checked_number(ReplayError, where, "samples_per_insert", samples_per_insert, low, most)
        self._min_size = checked_whole(ReplayError, where, "min_size", min_size, 1)
        self._error = checked_number(ReplayError, where, "error", error, 0.0)
        if 2 * self._error < self._ratio + 1:
            raise ReplayError(
                f"RateLimiter: found `error={error}`, expected at least {(self._ratio + 1) / 2:g}: with less, at times "
                "neither adding nor sampling one step would be allowed. Pass a larger one, such as several batches."
            )
        self._num_inserted = 0
        self._num_sampled = 0

    @property
    def num_inserted(self) -> int:
        """The number of steps that were added."""
        return self._num_inserted

    @property
    def num_sampled(self) -> int:
        """The number of steps that were sampled."""
        return self._num_sampled

    @property
    def balance(self) -> float:
        """The number of steps to sample until the ratio is exact; negative if too many were sampled."""
        return self._ratio * self._num_inserted - self._num_sampled

    def can_insert(self, num: int = 1) -> bool:
        """Tell whether `num` steps may be added now."""
        num = checked_whole(ReplayError, "RateLimiter.can_insert", "num", num, 1)
        inserted = self._num_inserted + num
        return (
            inserted <= self._min_size or self._ratio * (inserted - self._min_size) - self._num_sampled <= self._error
        )

    def can_sample(self, num: int = 1) -> bool:
        """Tell whether `num` steps may be sampled now."""
        num = checked_whole(ReplayError, "RateLimiter.can_sample", "num", num, 1)
        if self._num_inserted < self._min_size:
            return False
        return self._ratio * (self._num_inserted - self._min_size) - self._num_sampled - num >= -self._error

    def inserted(self, num: int = 1) -> None:
        """Report that `num` steps were added."""
        self._num_inserted += checked_whole(ReplayError, "RateLimiter.inserted", "num", num, 0)

    def sampled(self, num: int = 1) -> None:
        """Report that `num` steps were sampled."""
        self._num_sampled += checked_whole(ReplayError, "RateLimiter.sampled", "num", num, 0)

    def get_state(self) -> State:
        """Return the counts."""
        return {"num_inserted": self._num_inserted, "num_sampled": self._num_sampled}

    def set_state(self, state: State) -> None:
        """Continue with the counts that `get_state` returned.

        Raises:
            ReplayError: If they are not counts.
        """
        given: object = state
        if not isinstance(given, dict) or given.keys() != {"num_inserted", "num_sampled"}:
            raise ReplayError(f"RateLimiter.set_state: found {given!r}, expected what `get_state()` returned.")
        inserted, sampled = (
            checked_whole(ReplayError, "RateLimiter.set_state", name, given[name], 0)
            for name in ("num_inserted", "num_sampled")
        )
        self._num_inserted, self._num_sampled = inserted, sampled

    def __repr__(self) -> str:
        return f"RateLimiter(samples_per_insert={self._ratio:g}, min_size={self._min_size}, error={self._error:g})"
