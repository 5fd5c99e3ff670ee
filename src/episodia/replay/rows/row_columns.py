"""The columns of a buffer: nested arrays with one row for each row of the buffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np

from episodia.columns import Columns
from episodia.errors import ReplayError
from episodia.replay.rows.row_storage import RowStorage
from episodia.trees import describe, leaves, map_batch
from episodia.types import Item, State

# Beside the observation of a row stands what belongs to the step taken at it.
# Beside the observations of agents stands the environment step at which they were shown.
ENV_T = "__env_t__"
TRACKS = frozenset({Columns.OBS, Columns.INFOS, ENV_T})
# The columns that are not extra model outputs.
_USUAL = frozenset({Columns.OBS, Columns.ACTIONS, Columns.REWARDS, ENV_T, f"{ENV_T}_mask"})


#: The rows in the buffer that are written, int64, and where their values are: int64, or a slice.
Written: TypeAlias = tuple[np.ndarray, np.ndarray | slice]


@final
class RowColumns:
    """Columns with `capacity` rows. The first values of a column decide its nesting, shapes and dtypes.

    A column that comes later, or is missing in a chunk, is filled with zeros there, and a column `<name>_mask` is true where
    it is real.

    Attributes:
        arrays: The nested arrays of each column.
    """

    __slots__ = ("_capacity", "_items", "_masked", "_prefix", "_storage", "arrays")

    def __init__(self, capacity: int, storage: RowStorage, prefix: str) -> None:
        self._capacity = capacity
        self._storage = storage
        self._prefix = prefix
        self.arrays: dict[str, Any] = {}
        self._items: dict[str, Any] = {}  # the same arrays, see `_as_items`
        self._masked: dict[str, np.ndarray] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __getitem__(self, name: str) -> Any:
        """Return the nested arrays of a column."""
        return self.arrays[name]

    @property
    def num_bytes(self) -> int:
        """The memory, or the disk space, of all columns when all rows are in use."""
        return sum(leaf.nbytes for column in self.arrays.values() for _, leaf in leaves(column))

    @property
    def extras(self) -> list[str]:
        """The names of the columns that not every episode has."""
        return [name for name in self.arrays if name not in _USUAL]

    # --- Writing ----------------------------------------------------------------------------------------------------

    def check(self, values: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
        """Reject values that do not fit the stored columns, or values that are stored earlier, or the storage.

        Raises:
            ReplayError: If nesting, shapes or dtypes differ; numbers are not cast if that could change them.
        """
        for name, given in values.items():
            column = self.arrays.get(name)
            if column is None:
                self._storage.check(name, given)
                column = earlier.get(name, given)
            if type(column) is np.ndarray and type(given) is np.ndarray:
                is_alike = column.dtype == given.dtype and column.shape[1:] == given.shape[1:]
                fits = is_alike or _leaf_fits(column, given)
            else:
                fits = _nested_fits(column, given)
            if not fits:
                raise ReplayError(
                    f"column {name!r}: found rows of {_row_text(given)}, expected rows of {_row_text(column)}, as in the "
                    "episodes before. Keep other data in a buffer of its own, or convert it."
                )

    def begin(self, values: Mapping[str, Any], *, had_rows: bool) -> None:
        """Make the arrays of columns that come for the first time, before any row is placed."""
        if values.keys() <= self.arrays.keys():
            return
        for name, given in values.items():
            if name not in self.arrays:
                self._begin(name, given, had_rows=had_rows)

    def write(self, values: Mapping[str, Any], steps: Written, tracks: Written) -> None:
        """Store rows of checked `values`."""
        for name, given in values.items():
            rows, sources = tracks if name in TRACKS else steps
            column, items = self.arrays[name], self._items[name]
            if type(column) is np.ndarray:
                _write(column, items, given, rows, sources)
            else:
                map_batch(partial(_write, rows=rows, sources=sources), column, items, given)
        if len(values) < len(self.arrays) or self._masked:
            self._write_masks(values, steps[0])

    def _begin(self, name: str, given: Item, *, had_rows: bool) -> None:
        """Make the arrays of a new column."""
        titles = iter([title for title, _ in self.titled_leaves(name, given)])

        def made(leaf: np.ndarray) -> np.ndarray:
            return self._storage.array(next(titles), (self._capacity, *leaf.shape[1:]), leaf.dtype)

        column = map_batch(made, given)
        if had_rows:
            self._mask(name)
        self.arrays[name], self._items[name] = column, map_batch(_as_items, column)

    def titled_leaves(self, name: str, column: Item) -> list[tuple[str, np.ndarray]]:
        """Return the leaves of a column, each with the name that its array has in the storage."""
        return [(f"{self._prefix}{name}{path}", leaf) for path, leaf in leaves(column)]

    def _mask(self, name: str) -> None:
        """Begin a mask for a column: false where rows have no value for it."""
        title = f"{name}_mask"
        if title not in self.arrays:  # else it is the mask that episodes bring along
            mask = self._storage.array(f"{self._prefix}{title}", (self._capacity,), np.dtype(np.bool_))
            mask[:] = name in self.arrays
            self.arrays[title] = self._items[title] = mask
        self._masked[name] = self.arrays[title]

    def _write_masks(self, values: Mapping[str, Any], steps: np.ndarray) -> None:
        """Fill columns that `values` do not have, and note where columns are real."""
        for name in list(self.arrays):
            is_mask = name.endswith("_mask") and name[: -len("_mask")] in self._masked
            if name in values or is_mask:
                continue
            if name not in self._masked:
                self._mask(name)
            map_batch(lambda leaf: leaf.__setitem__(steps, None if leaf.dtype.hasobject else 0), self.arrays[name])
        for name, mask in self._masked.items():
            if f"{name}_mask" not in values:
                mask[steps] = name in values

    # --- Reading ----------------------------------------------------------------------------------------------------

    def take(self, name: str, rows: np.ndarray) -> Any:
        """Return the values of a column at `rows`, as new arrays."""
        column = self.arrays[name]
        if type(column) is np.ndarray:
            return column.take(rows, 0)
        return map_batch(lambda leaf: leaf.take(rows, 0), column)

    def part(self, rows: np.ndarray, storage: RowStorage) -> RowColumns:
        """Return columns with only `rows`."""
        made = RowColumns(len(rows), storage, self._prefix)
        made.arrays = {name: self.take(name, rows) for name in self.arrays}
        made._masked = {name: made.arrays[f"{name}_mask"] for name in self._masked}
        return made

    def get_state(self, used: int) -> State:
        """Return the first `used` rows of all columns."""
        columns = {name: map_batch(lambda leaf: leaf[:used].copy(), column) for name, column in self.arrays.items()}
        return {"columns": columns, "masked": list(self._masked)}

    def set_state(self, state: State, used: int) -> None:
        """Continue from what `get_state` returned."""
        self.arrays, self._items, self._masked = {}, {}, {}
        for name, values in state["columns"].items():
            self._begin(name, values, had_rows=False)
            map_batch(lambda leaf, part: leaf.__setitem__(slice(used), part), self.arrays[name], values)
        self._masked = {name: self.arrays[f"{name}_mask"] for name in state["masked"]}


def _as_items(leaf: np.ndarray) -> np.ndarray:
    """Return the same memory with one item for each row: NumPy writes items several times as fast as rows of many."""
    num_bytes = leaf.nbytes // len(leaf)
    return leaf if leaf.ndim == 1 or leaf.dtype.hasobject or not num_bytes else leaf.reshape(-1).view(f"V{num_bytes}")


def _write(
    column: np.ndarray, items: np.ndarray, given: np.ndarray, rows: np.ndarray, sources: np.ndarray | slice
) -> None:
    """Write values that are `given` into `rows` of a column, which has these `items`."""
    if items is not column:
        if given.dtype != column.dtype or not given.flags.c_contiguous:
            given, sources = np.ascontiguousarray(given[sources], column.dtype), slice(None)
        given = given.ravel().view(items.dtype)
    items[rows] = given[sources]


def _leaf_fits(leaf: np.ndarray, given: np.ndarray) -> bool:
    same_rows = leaf.shape[1:] == given.shape[1:]
    return same_rows and (leaf.dtype == given.dtype or np.can_cast(given.dtype, leaf.dtype, "safe"))


def _nested_fits(column: Item, given: Item) -> bool:
    ours, theirs = list(leaves(column)), list(leaves(given))
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        return False
    return all(_leaf_fits(leaf, part) for (_, leaf), (_, part) in zip(ours, theirs, strict=True))


def _row_text(column: Item) -> str:
    return describe(map_batch(lambda leaf: np.empty(leaf.shape[1:], leaf.dtype), column))
