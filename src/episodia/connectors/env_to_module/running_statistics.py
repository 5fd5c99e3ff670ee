"""Mean and variance of rows that come bit by bit, also in several places at once.

The moments of two sets of rows combine to those of both (Chan, Golub, LeVeque 1979), so neither the order in which rows come
nor how they are shared out matters, up to rounding. Everything is computed in float64, around the mean of each part:
observations far from zero lose no precision.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar, final

import numpy as np

from episodia.errors import ShapeError

Key = TypeVar("Key", bound=Hashable)


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """How many rows there were, their mean, and the sum of their squared distances from it, element by element.

    >>> seen = Moments.of(np.array([[1.0], [3.0]])).merged(Moments.of(np.array([[5.0]])))
    >>> seen.count, seen.mean, seen.std()
    (3, array([3.]), array([2.]))
    """

    count: int
    mean: np.ndarray
    m2: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Moments:
        """Return the moments of `rows`, an array [N, ...]."""
        count = len(rows)
        if not count:
            return cls(0, np.zeros(rows.shape[1:]), np.zeros(rows.shape[1:]))
        rough = rows.mean(axis=0, dtype=np.float64)
        distances = rows - rough
        # The sum of the distances would be 0 if the mean were exact.
        rest = distances.sum(axis=0) / count
        m2 = np.square(distances).sum(axis=0) - count * np.square(rest)
        return cls(count, rough + rest, np.maximum(m2, 0.0))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of the rows of both.

        Raises:
            ShapeError: If their rows have different shapes.
        """
        if self.mean.shape != other.mean.shape:
            raise ShapeError(
                f"found statistics of the shapes {list(self.mean.shape)} and {list(other.mean.shape)}, expected one shape. "
                "Rows of different shapes need statistics of their own."
            )
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        distance = other.mean - self.mean
        share = other.count / count
        return Moments(
            count, self.mean + distance * share, self.m2 + other.m2 + np.square(distance) * (self.count * share)
        )

    def std(self) -> np.ndarray:
        """Return the standard deviation of a sample (with N - 1); 1 as long as there are fewer than two rows."""
        return np.sqrt(self.m2 / (self.count - 1)) if self.count > 1 else np.ones_like(self.m2)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return (
            self.count == other.count
            and np.array_equal(self.mean, other.mean, equal_nan=True)
            and np.array_equal(self.m2, other.m2, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]  # it compares by content

    def state(self) -> dict[str, Any]:
        """Return numbers and copies of the arrays."""
        # NumPy makes scalars of arrays without axes, and a state has none.
        return {"count": self.count, "mean": np.array(self.mean), "m2": np.array(self.m2)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Moments:
        """Return what `state` describes, with arrays of its own."""
        return cls(int(state["count"]), np.array(state["mean"], np.float64), np.array(state["m2"], np.float64))


def merged_tables(tables: Iterable[Mapping[Key, Moments]]) -> dict[Key, Moments]:
    """Return the moments under each key, of the rows of all tables.

    >>> merged_tables([{"a": Moments.of(np.zeros((2, 1)))}, {"a": Moments.of(np.ones((2, 1)))}])["a"].mean
    array([0.5])
    """
    return reduce(_with_table, tables, {})


def _with_table(merged: dict[Key, Moments], table: Mapping[Key, Moments]) -> dict[Key, Moments]:
    return {**merged, **{key: merged[key].merged(new) if key in merged else new for key, new in table.items()}}
