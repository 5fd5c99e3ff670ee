"""The protocol of selectors, what they see of a buffer, and uniform selection.

A selector of your own has four methods. It sees rows, which are numbers of places in the buffer: a row is a step as long as the
selector has been told so by `on_add`, until `on_evict` takes the row away.

>>> class Newest:
...     def on_add(self, rows, added):
...         self.last = rows[-1]
...     def on_evict(self, rows):
...         pass
...     def select(self, num, steps, rng):
...         return Selection(np.repeat(self.last, num))
...     def update(self, rows, values):
...         pass
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np

from episodia.errors import ReplayError
from episodia.replay.rows.claims import Claims
from episodia.replay.rows.row_index import STEP, RowIndex
from episodia.types import State

# How often rows are drawn again because they do not qualify, before all rows are looked at.
NUM_ROUNDS = 20

_INT = np.dtype(np.int64)


class Selection(NamedTuple):
    """Rows of steps, int64 [B], and the weight of each of them for a loss, float64 [B]; None if all weigh the same."""

    rows: np.ndarray
    weights: np.ndarray | None = None


@final
class StoredSteps:
    """The steps of a buffer (of one module) that a draw may take; others are left out, for example those without lookback.

    Attributes:
        capacity: The number of rows; row numbers lie below it.
    """

    __slots__ = ("_allowed", "_index", "_ring", "capacity")

    def __init__(
        self,
        index: RowIndex,
        ring: Claims,
        allowed: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self._index = index
        self._ring = ring
        self._allowed = allowed
        self.capacity = ring.capacity

    @property
    def num_stored(self) -> int:
        """The number of stored steps, including those that the draw may not take."""
        return self._index.num_steps

    def allowed(self, rows: np.ndarray) -> np.ndarray:
        """Tell which rows are steps that the draw may take: bool [B]."""
        are_steps = self._index.are_steps(rows)
        if self._allowed is None or not len(rows):
            return are_steps
        if are_steps.all():
            return self._allowed(rows)
        are_steps[are_steps] = self._allowed(rows[are_steps])
        return are_steps

    def rows(self) -> np.ndarray:
        """Return the rows of all steps that the draw may take: int64, ascending.

        Raises:
            ReplayError: If there are no such steps.
        """
        steps: np.ndarray = np.flatnonzero(self._index.kind[: self._ring.used] & STEP)
        if self._allowed is not None and len(steps):
            steps = steps[self._allowed(steps)]
        if not len(steps):
            raise ReplayError(
                f"found {self.num_stored} steps in the buffer, and no step that this draw can take. Expected at least one. Add "
                "episodes first; with a lookback, a full length or a start, add longer ones."
            )
        return steps

    def ages(self, rows: np.ndarray) -> np.ndarray:
        """Return how many rows have been claimed in the buffer since each row was: int64 [B], 0 for the newest."""
        return self._ring.ages(rows)

    def uniform(self, num: int, rng: np.random.Generator) -> np.ndarray:
        """Return the rows of `num` steps, each drawn from all steps with the same probability."""
        index, used = self._index, self._ring.used
        found: list[np.ndarray] = []
        missing, share = num, index.num_steps / used if used else 0.0
        # More than needed, so that one round is nearly always enough. Floats are drawn faster than integers.
        more = 1.02 if self._allowed is None else 1.5
        for _ in range(NUM_ROUNDS if share else 0):
            drawn = rng.random(int(missing / share * more) + 8)
            # An array without axes, which NumPy combines with others faster than numbers.
            rows: np.ndarray = np.multiply(drawn, np.array(float(used)), drawn).astype(_INT)
            rows = rows[index.are_steps(rows) if self._allowed is None else self.allowed(rows)][:missing]
            if len(rows) == num:
                return rows
            found.append(rows)
            missing -= len(rows)
            if not missing:
                break
        if missing:
            steps = self.rows()
            found.append(steps.take(rng.integers(0, len(steps), missing)))
        return np.concatenate(found)


class AddedSteps(NamedTuple):
    """The facts of new steps that a selector gets.

    Attributes:
        capacity: The number of rows in the buffer.
        versions: Returns the version of the weights that chose the action of each new step: int64, -1 if it is not known.
    """

    capacity: int
    versions: Callable[[], np.ndarray]


@runtime_checkable
class Selector(Protocol):
    """Decides which of the stored steps a draw takes. Each module of a buffer has a copy of its own.

    A selector whose memory belongs to the state of the buffer has `get_state` and `set_state`, too: see `StatefulSelector`.
    When a buffer is loaded, every other selector is told of all stored steps by `on_add`, the oldest first, without versions.
    """

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        """Take notice of new steps, in the order in which they were added: int64 rows."""

    def on_evict(self, rows: np.ndarray) -> None:
        """Take notice that rows are steps no more."""

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        """Return `num` rows of steps that `steps` allows, with repetitions if need be."""

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Take notice of new values, such as absolute TD errors, of rows that are still the steps that were sampled."""


@runtime_checkable
class StatefulSelector(Selector, Protocol):
    """A selector whose memory is saved with the buffer."""

    def get_state(self) -> State:
        """Return JSON values and arrays."""

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""


@final
class Uniform:
    """Each stored step is as probable as every other.

    >>> Uniform()
    Uniform()
    """

    __slots__ = ()

    def on_add(self, rows: np.ndarray, added: AddedSteps) -> None:
        """Do nothing: the buffer knows its steps."""

    def on_evict(self, rows: np.ndarray) -> None:
        """Do nothing."""

    def select(self, num: int, steps: StoredSteps, rng: np.random.Generator) -> Selection:
        """Return steps that are drawn uniformly, with replacement."""
        return Selection(steps.uniform(num, rng))

    def update(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Do nothing: uniform selection has no priorities."""

    def __repr__(self) -> str:
        return "Uniform()"
