"""Telling whether a column has changed, without keeping a copy of it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from episodia.connectors.batches.row_items import is_tensor
from episodia.episodes.lists.ragged import Ragged
from episodia.types import Item


def fingerprint(column: Item) -> Any:
    """Return something small that is equal for equal columns: form, dtypes, shapes, and a digest of the values.

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
