"""Selection by age: the newest, the oldest, each step a limited number of times, and steps of recent weights."""

from __future__ import annotations

from typing import Literal, final

import numpy as np

from episodia.arguments import checked_choice, checked_number, checked_whole, names_nearest_argument
from episodia.errors import ReplayError
from episodia.replay.selectors.selector import AddedSteps, Selection, StoredSteps
from episodia.types import State

# So that all draws of all rows can be counted.
_MOST_TIMES = 2**31


@names_nearest_argument
@final
class InOrder:
    """The newest steps first, or the oldest; each step at most `times` times, then it is not drawn any more.

    Args:
        first: Which steps come first: `"newest"` (last in, first out) or `"oldest"` (first in, first out).
        times: How often each step is drawn at most; None for no limit.

    Raises:
        ReplayError: If an argument is wrong.

    >>> InOrder("newest", times=1)
    InOrder('newest', times=1)
    """

    __slots__ = ("_counts", "_first", "_times")

    def __init__(self, first: Literal["newest", "oldest"], *, times: int | None = None) -> None:
        self._first = checked_choice(ReplayError, "InOrder", "first", first, ("newest", "oldest"))
        self._times = None if times is None else checked_whole(ReplayError, "InOrder", "times", times, 1)
        self._counts = np.zeros(0, np.int64)

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        """Count from 0 for new steps."""
        self._counts = _grown(self._counts, added.capacity, 0)
        self._counts[rows] = 0

    def on_evict(self, rows: np.ndarray) -> None:
        """Do nothing: the buffer does not offer evicted steps."""

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        """Return the first steps in order; from the beginning again if there are fewer than `num`.

        Raises:
            ReplayError: If all steps were drawn as often as they may be.
        """
        rows = steps.rows()
        rows = rows[np.argsort(steps.ages(rows) if self._first == "newest" else -steps.ages(rows))]
        if self._times is None:
            return Selection(np.resize(rows, num))
        left = self._times - self._counts.take(rows)
        offered: np.ndarray = np.concatenate([rows[left > drawn] for drawn in range(self._times)])
        if len(offered) < num:
            raise ReplayError(
                f"{self!r}: found {len(offered)} draws that are left, expected {num}. Add episodes, or sample fewer steps."
            )
        np.add.at(self._counts, offered[:num], 1)
        return Selection(offered[:num])

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Do nothing: there are no priorities."""

    def get_state(self) -> State:
        """Return how often each step was drawn."""
        return {"counts": self._counts.copy()}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self._counts = np.array(state["counts"], np.int64)

    def __repr__(self) -> str:
        return f"InOrder({self._first!r}, times={self._times})"


@names_nearest_argument
@final
class AtMost:
    """Each step at most `times` times, drawn uniformly from the steps that may still be drawn.

    Args:
        times: How often each step is drawn at most.

    >>> AtMost(4)
    AtMost(4)
    """

    __slots__ = ("_counts", "_times")

    def __init__(self, times: int) -> None:
        self._times = checked_whole(ReplayError, "AtMost", "times", times, 1, below=_MOST_TIMES)
        self._counts = np.zeros(0, np.int64)

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        """Count from 0 for new steps."""
        self._counts = _grown(self._counts, added.capacity, 0)
        self._counts[rows] = 0

    def on_evict(self, rows: np.ndarray) -> None:
        """Do nothing: the buffer does not offer evicted steps."""

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        """Return steps that have draws left, each as often as it has draws left at most.

        Raises:
            ReplayError: If there are fewer than `num` draws left.
        """
        rows = steps.rows()
        # Which of all draws that are left each row has: up to these numbers. The draws themselves may be too many.
        ends = np.cumsum(np.maximum(0, self._times - self._counts.take(rows)))
        left = int(ends[-1]) if len(ends) else 0
        if left < num:
            raise ReplayError(
                f"{self!r}: found {left} draws that are left, expected {num}. Add episodes, or sample fewer steps."
            )
        chosen: np.ndarray = rows[np.searchsorted(ends, rng.choice(left, num, replace=False), side="right")]
        np.add.at(self._counts, chosen, 1)
        return Selection(chosen)

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Do nothing: there are no priorities."""

    def get_state(self) -> State:
        """Return how often each step was drawn."""
        return {"counts": self._counts.copy()}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self._counts = np.array(state["counts"], np.int64)

    def __repr__(self) -> str:
        return f"AtMost({self._times})"


@names_nearest_argument
@final
class Fresh:
    """Steps whose actions were chosen by recent weights: by at most `most` versions before the newest version that was added.

    With `decay`, a step that is k versions old is drawn with `decay ** k` times the probability of one of the newest version.
    Steps whose version is not known count as the oldest.

    Args:
        most: How many versions old a step may be; None for no limit.
        decay: The factor for each version, from 0 to 1.

    Raises:
        ReplayError: If an argument is out of range.

    >>> Fresh(most=2)
    Fresh(most=2, decay=1.0)
    """

    __slots__ = ("_decay", "_most", "_newest", "_versions")

    def __init__(self, most: int | None = None, *, decay: float = 1.0) -> None:
        self._most = None if most is None else checked_whole(ReplayError, "Fresh", "most", most, 0)
        self._decay = checked_number(ReplayError, "Fresh", "decay", decay, 0.0, 1.0)
        self._versions = np.zeros(0, np.int64)
        self._newest = -1

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        """Note the versions of new steps."""
        self._versions = _grown(self._versions, added.capacity, -1)
        versions = added.versions()
        self._versions[rows] = versions
        self._newest = max(self._newest, int(versions.max()))

    def on_evict(self, rows: np.ndarray) -> None:
        """Do nothing: the buffer does not offer evicted steps."""

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        """Return recent steps.

        Raises:
            ReplayError: If there is no step that is recent enough.
        """
        rows = steps.rows()
        ages = self._newest - self._versions.take(rows)
        if self._most is not None:
            rows, ages = rows[ages <= self._most], ages[ages <= self._most]
            if not len(rows):
                raise ReplayError(
                    f"{self!r}: found no step of the weights {self._newest - self._most} to {self._newest}, expected one. "
                    "Sample right after adding, or allow older steps."
                )
        if self._decay == 1.0:
            return Selection(rows.take(rng.integers(0, len(rows), num)))
        sums = np.cumsum(np.power(self._decay, (ages - ages.min()).astype(np.float64)))
        places = sums.searchsorted(rng.random(num) * sums[-1], side="right")
        return Selection(rows.take(np.minimum(places, len(rows) - 1)))

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Do nothing: there are no priorities."""

    def get_state(self) -> State:
        """Return the versions of all rows."""
        return {"versions": self._versions.copy(), "newest": self._newest}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        self._versions, self._newest = np.array(state["versions"], np.int64), int(state["newest"])

    def __repr__(self) -> str:
        return f"Fresh(most={self._most}, decay={self._decay})"


def _grown(numbers: np.ndarray, capacity: int, value: int) -> np.ndarray:
    """Return numbers for all rows: those that are there, or `capacity` times `value`."""
    return numbers if len(numbers) == capacity else np.full(capacity, value, np.int64)
