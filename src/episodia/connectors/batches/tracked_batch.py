"""A batch that records which of its columns are read, and fingerprints that detect changed columns."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, ValuesView
from hashlib import blake2b
from typing import Any, final

import numpy as np

from episodia.connectors.batches.batch_descriptions import is_tensor
from episodia.episodes.lists.ragged import Ragged
from episodia.types import Item


@final
class TrackedBatch(dict[str, Any]):
    """A dict that records in `read` the keys that were read, and in `missed` the keys that were requested but missing.

    Access to names alone (`keys`, `len`) does not count as reading. Iterating over all values, or copying them into another
    dict, reads all columns, because their later use is unknown. `copy` returns a batch that keeps recording.

    >>> batch = TrackedBatch({"obs": 1, "rewards": 2})
    >>> batch["obs"], batch.get("mask")
    (1, None)
    >>> batch.read, batch.missed
    ({'obs'}, {'mask'})
    """

    def __init__(self, columns: dict[str, Any]) -> None:
        super().__init__(columns)
        self.read: set[str] = set()
        self.missed: set[str] = set()
        # A column that was written into the batch need not be provided by the caller.
        self._given = frozenset(columns)

    def _note(self, key: Any) -> None:
        if key in self._given:
            self.read.add(key)
        elif not dict.__contains__(self, key):
            self.missed.add(key)

    def __getitem__(self, key: str) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Item = None) -> Any:
        """Return a column and record that it was read."""
        self._note(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Item) -> Any:
        """Remove a column and record that it was read."""
        self._note(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Item = None) -> Any:
        """Return a column and record that it was read; write the column if it is missing."""
        self._note(key)
        return super().setdefault(key, default)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    # With our own method, `dict(batch)` and `{**batch}` use `keys` and `__getitem__`, and so are recorded.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]  # a view of values, not of the dict's own kind
        """Return all columns and record that they were read."""
        self.read |= self._given & super().keys()
        return dict(super().items()).items()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]  # as above
        """Return all columns and record that they were read."""
        self.read |= self._given & super().keys()
        return dict(super().items()).values()

    def copy(self) -> TrackedBatch:
        """Return a batch of the same columns that shares `read` and `missed`."""
        copy = TrackedBatch(dict(super().items()))
        copy.read, copy.missed, copy._given = self.read, self.missed, self._given
        return copy


def fingerprint(column: Item) -> Any:
    """Return a small value that is equal for equal columns: form, dtypes, shapes, and a digest of the values.

    >>> fingerprint([np.zeros(2)]) == fingerprint([np.zeros(2)])
    True
    >>> fingerprint(np.zeros(2)) == fingerprint(np.ones(2))
    False
    """
    if isinstance(column, Ragged):
        return "ragged", column.tail, fingerprint(column.offsets), fingerprint(column.values)
    if isinstance(column, dict):
        return "dict", tuple((key, fingerprint(value)) for key, value in column.items())
    if isinstance(column, (list, tuple)):
        return type(column).__name__, tuple(map(fingerprint, column))
    if is_tensor(column):
        return "tensor", str(column.device), str(column.dtype), fingerprint(_values(column))
    if isinstance(column, np.ndarray):
        if column.dtype.hasobject:
            return "objects", column.shape, tuple(map(fingerprint, column.ravel().tolist()))
        return "array", str(column.dtype), column.shape, blake2b(column.tobytes(), digest_size=16).digest()
    return type(column).__name__, repr(column)


def _values(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16 and the like; all of them fit into float64.
    values: np.ndarray = (tensor if tensor.dtype.itemsize > 2 else tensor.double()).numpy()
    return values
