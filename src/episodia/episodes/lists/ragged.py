"""One column of many episodes: their rows one after another, and where each episode's rows begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NoReturn, Protocol, final

import numpy as np

from episodia.columns import DEFAULT_MODULE_ID
from episodia.errors import BatchError, EpisodeIndexError, ShapeError
from episodia.stacking import object_array, stack, unstack
from episodia.trees import describe, frozen, leaves, map_batch
from episodia.types import Item


class Finder(Protocol):
    """Finds the positions of stretches by their keys."""

    def __call__(self, key: Any, /) -> Sequence[int]:
        """Return the positions of the stretches with this key."""

    def __contains__(self, key: Any, /) -> bool:
        """Return whether there are such stretches."""


@final
class Ragged:
    """Rows of several stretches, each as long as its episode, in one flat batch.

    A *track* (`tail=1`) keeps one row more for each stretch: the one after the last step, such as the last of an episode's
    T + 1 observations. It is not one of the steps, but `map` treats it like all rows, so a value can be
    bootstrapped from it without an artificial time step.

    A *sparse* column (`every=n`) has a row only for the steps 0, n, 2n, ... of each stretch, and its tail: one for each
    sequence of n steps that a recurrent module learns from.

    Leaves are NumPy arrays or tensors. A `Ragged` never writes into them.

    >>> column = Ragged(np.array([10, 11, 12, 20, 21]), np.array([0, 3, 5]), tail=1)
    >>> len(column), column.lengths.tolist(), column.items()
    (2, [2, 1], [np.int64(10), np.int64(11), np.int64(20)])
    >>> column.tails()
    array([12, 21])
    """

    __slots__ = ("_finder", "_step_rows", "every", "offsets", "tail", "values", "width")

    _finder: Finder  # only in a column that `keyed` returned
    _step_rows: list[np.ndarray]  # what `step_rows` has returned; one list for all columns of the same rows

    def __init__(
        self, values: Item, offsets: np.ndarray, tail: int = 0, every: int = 1, width: int | None = None
    ) -> None:
        """Adopt `values`, a batch of N rows.

        Args:
            values: Arrays or tensors, nested or not, with N rows.
            offsets: int64 of B + 1 positions, from 0 to N: stretch i is the rows `offsets[i]:offsets[i + 1]`.
            tail: How many rows at the end of each stretch are not steps: 0 or 1.
            every: For which steps there are rows: 1 for all.
            width: The number of rows that each stretch has, tail included, if all of them are known to have as many; else None.

        Raises:
            ShapeError: If `offsets` and rows do not fit together.
        """
        if type(offsets) is not np.ndarray or offsets.dtype.kind not in "iu" or offsets.ndim != 1 or not len(offsets):
            raise ShapeError(
                f"offsets: found {describe(offsets)}, expected an array of integers, one more than there are stretches. Pass "
                "the cumulative lengths of the stretches, from 0 on."
            )
        self.values = values
        self.offsets = offsets
        self.tail = tail
        self.every = every
        self.width = width
        self._step_rows = []
        rows = offsets.item(-1)
        if type(values) is np.ndarray and values.shape[:1] == (rows,):
            return
        if type(values) is dict and all(
            type(leaf) is np.ndarray and leaf.shape[:1] == (rows,) for leaf in values.values()
        ):
            return
        for path, leaf in leaves(values):
            found = _num_rows(leaf)
            if found != rows:
                raise ShapeError(
                    f"found {describe(leaf) if found is None else found} rows{path} for offsets that end at "
                    f"{rows}, expected as many rows. Functions that are mapped over a column must keep its first axis."
                )

    @classmethod
    def known(
        cls, values: Item, offsets: np.ndarray, tail: int = 0, every: int = 1, width: int | None = None
    ) -> Ragged:
        """Return a column of `values` that are known to fit; else as the constructor does."""
        made = cls.__new__(cls)
        made.values = values
        made.offsets = offsets
        made.tail = tail
        made.every = every
        made.width = width
        made._step_rows = []
        return made

    @classmethod
    def from_items(cls, stretches: Sequence[Sequence[Any]]) -> Ragged:
        """Return a column of the items of each stretch; there must be at least one item.

        >>> Ragged.from_items([[1, 2], [], [3]])
        Ragged(3 stretches, 3 steps of int64[3])
        """
        return cls(stack([item for items in stretches for item in items]), offsets_of([len(s) for s in stretches]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each stretch, without its tail: int64 [B]."""
        if self.width:
            return even_lengths(len(self), self.width - self.tail)
        lengths: np.ndarray = np.diff(self.offsets)
        return lengths - self.tail if self.tail else lengths

    @property
    def num_steps(self) -> int:
        """The number of steps of all stretches together."""
        return int(self.offsets[-1]) - self.tail * len(self)

    def map(self, function: Callable[[Any], Any]) -> Ragged:
        """Return a column with `function` applied to each leaf as a whole; tails are treated like all rows."""
        return self.with_values(map_batch(function, self.values))

    def with_values(self, values: Item) -> Ragged:
        """Return a column of other `values` in the same rows."""
        made = Ragged(values, self.offsets, self.tail, self.every, self.width)
        made._step_rows = self._step_rows
        return made

    def keyed(self, finder: Finder) -> Ragged:
        """Return a column of the same values whose stretches are also found by keys; `finder` returns their positions."""
        keyed = self.with_values(self.values)
        keyed._finder = finder
        return keyed

    def __iter__(self) -> NoReturn:
        """Raise a `BatchError`: otherwise Python and NumPy would find no rows."""
        raise BatchError(
            f"found {self!r} where rows are iterated or converted to an array, expected an array. The rows of all steps are "
            "`column.body().values`, those of one episode `column[(episode.id_,)]`."
        )

    def __contains__(self, key: Any) -> bool:
        """Return whether there are stretches with the key `key`; see `keyed`."""
        finder: Finder | None = getattr(self, "_finder", None)
        return finder is not None and key in finder

    def __getitem__(self, key: Any) -> Any:
        """Return the steps of the stretches with the key `key`, a batch; see `keyed`."""
        return self.take(self._rows_of(key))

    def __setitem__(self, key: Any, rows: Item) -> None:
        """Replace the steps of the stretches with the key `key` by `rows`: a batch, or a list of items.

        Other columns that share the values keep theirs.

        Raises:
            ShapeError: If `rows` are more or fewer, or if the column cannot hold them.
        """
        places, new = self._rows_of(key), stack(rows) if isinstance(rows, list) else rows
        self.values = map_batch(lambda leaf, part: changed_rows(leaf, places, part), self.values, new)

    def _rows_of(self, key: Any) -> np.ndarray:
        finder: Finder | None = getattr(self, "_finder", None)
        if finder is None or not isinstance(key, tuple):
            raise EpisodeIndexError(
                f"found the index {key!r} of {self!r}, expected the key of an episode, such as `('walk',)`, in a column that a "
                "piece is given. Other rows are in `column.values`."
            )
        stretches = np.asarray(finder(key))
        starts = self.offsets[stretches]
        return rows_of_ranges(starts, self.offsets[stretches + 1] - self.tail - starts)

    def body(self) -> Ragged:
        """Return the steps alone."""
        return self._beside_tails(0) if self.tail else self

    def following(self) -> Ragged:
        """Return the row after each step, which for the last one is the tail.

        Raises:
            ShapeError: If there are no tails.
        """
        if not self.tail:
            raise self._without_tails()
        return self._beside_tails(1)

    def _beside_tails(self, shift: int) -> Ragged:
        """Return the row that is `shift` rows after each step of a track."""
        width = self.width
        if not width:
            rows = self.take(self.step_rows() + shift)
            return Ragged(rows, self.offsets - np.arange(len(self.offsets)), every=self.every)
        part = slice(shift, width - 1 + shift)
        values = map_batch(lambda leaf: _part_of_each(leaf, width, part), self.values)
        return Ragged.known(values, even_offsets(len(self), width - 1), 0, self.every, width - 1)

    def take(self, rows: np.ndarray) -> Any:
        """Return the batch of some of the rows."""
        return map_batch(lambda leaf: _taken(leaf, rows), self.values)

    def step_rows(self) -> np.ndarray:
        """Return where the steps are among the rows: int64 [number of steps]."""
        if not self.tail:
            return np.arange(self.offsets[-1])
        if not self._step_rows:
            is_step = np.ones(self.offsets[-1], np.bool_)
            is_step[self.offsets[1:] - 1] = False
            self._step_rows.append(is_step.nonzero()[0])
        return self._step_rows[0]

    def rows_of(self, stretches: np.ndarray, *, skip: int = 0, add: int = 0) -> np.ndarray:
        """Return the rows of the steps of some stretches, without the first `skip` rows and with `add` rows after the steps.

        >>> Ragged(np.arange(5), np.array([0, 3, 5]), tail=1).rows_of(np.array([1, 0]), add=1).tolist()
        [3, 4, 0, 1, 2]
        """
        begins = self.offsets.take(stretches) + skip
        if self.width:
            rows: np.ndarray = (begins[:, None] + counted(self.width - self.tail + add - skip)).reshape(-1)
            return rows
        return rows_of_ranges(begins, self.lengths.take(stretches) + (add - skip))

    def tails(self) -> Any:
        """Return the row after the last step of each stretch, a batch of B rows."""
        if not self.tail:
            raise self._without_tails()
        return self.take(self.offsets[1:] - 1)

    def _without_tails(self) -> ShapeError:
        return ShapeError(
            f"found a column without tails ({self!r}), expected a track: the row after the last step is not in it. "
            "Make the column with `EpisodeList.flat(column, tail=True)`, and change it with `map`."
        )

    def select(self, stretches: np.ndarray) -> Ragged:
        """Return some of the stretches, in the order given."""
        starts, counts = self.offsets[stretches], np.diff(self.offsets)[stretches]
        return Ragged(self.take(rows_of_ranges(starts, counts)), offsets_of(counts), self.tail, self.every)

    def items(self) -> list[Any]:
        """Return the steps as items, one after another."""
        return unstack(map_batch(_as_array, self.body().values))

    def split(self) -> list[Any]:
        """Return the steps of each stretch as a batch of its own."""
        starts, stops = self.offsets[:-1].tolist(), (self.offsets[1:] - self.tail).tolist()
        return [
            map_batch(lambda leaf, part=slice(start, stop): leaf[part], self.values)
            for start, stop in zip(starts, stops, strict=True)
        ]

    def __repr__(self) -> str:
        tails = " and tails" if self.tail else ""
        return f"Ragged({len(self)} stretches, {self.num_steps} steps{tails} of {describe(self.values)})"


def _taken(leaf: Any, rows: np.ndarray) -> Any:
    # `take` is faster, but first copies the whole of an array that is not contiguous, such as stacked frames.
    return leaf.take(rows, 0) if type(leaf) is np.ndarray and leaf.flags.c_contiguous else leaf[rows]


def _part_of_each(leaf: Any, width: int, part: slice) -> Any:
    """Return the rows `part` of each stretch of `width` rows; without a copy, if that is possible."""
    if width == 2:  # one step each, as nearly always in samples: one view instead of three
        return leaf[part.start :: 2]
    shape = leaf.shape[1:]
    return leaf.reshape(-1, width, *shape)[:, part].reshape(-1, *shape)


def _as_array(leaf: Any) -> np.ndarray:
    return leaf if isinstance(leaf, np.ndarray) else object_array(list(leaf))


def changed_rows(leaf: Any, places: Any, rows: Any) -> Any:
    """Return a copy of an array or tensor with `rows` at `places`.

    >>> changed_rows(np.array([1, 2, 3]), np.array([0, 2]), [7.0, 8.0])
    array([7, 2, 8])

    Raises:
        ShapeError: If there are more or fewer rows, or if the array cannot hold them.
    """
    changed = leaf.copy() if isinstance(leaf, np.ndarray) else leaf.clone()
    try:
        changed[places] = rows
    except (ValueError, TypeError, RuntimeError) as error:
        raise ShapeError(
            f"found rows that do not fit ({error}), expected as many rows, like {describe(leaf)}."
        ) from error
    # Floats round, whole numbers and booleans would be cut off.
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind not in "fcO" and not np.array_equal(changed[places], rows):
        raise ShapeError(
            f"found rows of {describe(np.asarray(rows))}, expected values that {leaf.dtype} can hold. Give the column another "
            "dtype first."
        )
    return changed


def offsets_of(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return where each stretch begins, and where the last one ends.

    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


@lru_cache(maxsize=1024)
def counted(count: int) -> np.ndarray:
    """Return 0, 1, 2, ... up to `count`, which is left out: one shared, read-only array.

    >>> counted(3)
    array([0, 1, 2])
    """
    return frozen(np.arange(count))


@lru_cache(maxsize=256)
def even_offsets(count: int, width: int) -> np.ndarray:
    """Return where each of `count` stretches of `width` rows begins, and where the last one ends: one shared, read-only array.

    >>> even_offsets(3, 2)
    array([0, 2, 4, 6])
    """
    return frozen(np.arange(count + 1) * width)


@lru_cache(maxsize=256)
def even_lengths(count: int, length: int) -> np.ndarray:
    """Return `count` times `length`: one shared, read-only array.

    >>> even_lengths(3, 2)
    array([2, 2, 2])
    """
    return frozen(np.full(count, length, np.int64))


def sparse_rows(lengths: np.ndarray, tail: int, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps 0, n, 2n, ... of each stretch and, with a tail, the one after its last; and how many these are.

    >>> indices, counts = sparse_rows(np.array([5, 0]), tail=1, every=2)
    >>> indices.tolist(), counts.tolist()
    ([0, 2, 4, 5, 0], [4, 1])
    """
    counts = -(-lengths // every) + tail
    indices = rows_of_ranges(np.zeros_like(counts), counts) * every
    if tail:
        indices[np.cumsum(counts) - 1] = lengths
    return indices, counts


def rows_of_ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the positions of several ranges, one after another.

    >>> rows_of_ranges(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    before = offsets_of(counts)
    rows: np.ndarray = np.arange(before[-1]) + np.repeat(starts - before[:-1], counts)
    return rows


def positions_by_module(module_ids: Sequence[Any]) -> dict[Any, np.ndarray]:
    """Return the positions of each id, in the order in which ids come up; None stands for the default module.

    >>> positions_by_module(["left", None, "left"])
    {'left': array([0, 2]), 'default_policy': array([1])}
    """
    if len(set(module_ids)) == 1:
        return {_name(module_ids[0]): counted(len(module_ids))}
    positions: dict[Any, list[int]] = {}
    for position, name in enumerate(map(_name, module_ids)):
        positions.setdefault(name, []).append(position)
    return {name: np.array(rows, np.int64) for name, rows in positions.items()}


def _name(module_id: Any) -> Any:
    return DEFAULT_MODULE_ID if module_id is None else module_id


def _num_rows(leaf: Any) -> int | None:
    """Return how many rows a leaf has, None if it has no rows."""
    shape = getattr(leaf, "shape", None)
    if shape is not None:
        return shape[0] if shape else None
    try:
        return len(leaf)
    except TypeError:
        return None
