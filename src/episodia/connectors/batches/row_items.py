"""Between a batch and its rows as items: nested arrays or tensors, one item after another."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from episodia.stacking import stack
from episodia.trees import leaves, map_batch, rebuild_tuple
from episodia.types import Item


def rows_of(batch: Item) -> list[Any]:
    """Return the rows of a nested batch of arrays or tensors as items.

    >>> import numpy as np
    >>> rows_of({"x": np.array([1, 2])})
    [{'x': np.int64(1)}, {'x': np.int64(2)}]
    """
    if isinstance(batch, dict):
        columns = [rows_of(value) for value in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(batch, tuple):
        columns = [rows_of(value) for value in batch]
        return [rebuild_tuple(batch, iter(row)) for row in zip(*columns, strict=True)]
    return list(batch)


def stacked(items: list[Any]) -> Any:
    """Return the batch of at least one item: of tensors, if the first item is made of tensors.

    Raises:
        ShapeError: If items differ in nesting or shape.
    """
    if not is_made_of_tensors(items[0]):
        return stack(items)
    torch = sys.modules["torch"]
    return map_batch(lambda *parts: torch.stack(parts), *items)


def is_made_of_tensors(item: Item) -> bool:
    """Tell whether the first leaf of `item` is a tensor; torch is not imported for that."""
    while isinstance(item, (dict, tuple)) and item:
        item = next(iter(item.values())) if isinstance(item, dict) else item[0]
    return is_tensor(item)


def is_nested_batch(column: Item) -> bool:
    """Tell whether `column` is a dict or tuple of arrays or tensors, which have one row for each item.

    >>> import numpy as np
    >>> is_nested_batch({"x": np.zeros(2), "y": (np.zeros((2, 3)),)})
    True
    """
    if not isinstance(column, (dict, tuple)) or not column:
        return False
    return all(isinstance(leaf, np.ndarray) or is_tensor(leaf) for _, leaf in leaves(column))


def is_tensor(leaf: Item) -> bool:
    """Tell whether `leaf` is a tensor of torch; where torch was never imported, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)
