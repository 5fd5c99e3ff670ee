"""Rows and text descriptions of columns in every form: items, shapes, dtypes and bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from episodia.columns import COLUMN_NAMES
from episodia.episodes.lists.ragged import Ragged
from episodia.stacking import joined_rows, stack
from episodia.trees import describe, flat, map_batch, rebuild_tuple
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
    """Return the batch of at least one item; a batch of tensors if the first item consists of tensors.

    Raises:
        ShapeError: If items differ in nesting or shape.
    """
    if type(items[0]) is np.ndarray:
        rows = joined_rows(items)
        return stack(items) if rows is None else rows
    if not is_made_of_tensors(items[0]):
        return stack(items)
    torch = sys.modules["torch"]
    return map_batch(lambda *parts: torch.stack(parts), *items)


def is_made_of_tensors(item: Item) -> bool:
    """Return whether the first leaf of `item` is a tensor; torch is not imported for that."""
    while isinstance(item, (dict, tuple)) and item:
        item = next(iter(item.values())) if isinstance(item, dict) else item[0]
    return is_tensor(item)


def is_nested_batch(column: Item) -> bool:
    """Return whether `column` is a dict or tuple of arrays or tensors, which have one row for each item.

    >>> import numpy as np
    >>> is_nested_batch({"x": np.zeros(2), "y": (np.zeros((2, 3)),)})
    True
    """
    if not isinstance(column, (dict, tuple)) or not column:
        return False
    for leaf in flat(column):  # noqa: SIM110  # runs for each column of each update; a generator is slower
        if not (isinstance(leaf, np.ndarray) or is_tensor(leaf)):
            return False
    return True


def is_tensor(leaf: Item) -> bool:
    """Return whether `leaf` is a torch tensor; False if torch was never imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


_LONGEST_TEXT = 160


def columns_of(batch: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield `(name, column)` for each column; `module/column` where the batch is grouped by module.

    >>> [name for name, _ in columns_of({"obs": [1], "left": {"obs": [2], "actions": [3]}})]
    ['obs', 'left/obs', 'left/actions']
    """
    for key, column in batch.items():
        # The observations of a Dict space may have a part with the name 'obs'.
        if isinstance(column, dict) and key not in COLUMN_NAMES and not COLUMN_NAMES.isdisjoint(column):
            yield from ((f"{key}/{name}", part) for name, part in column.items())
        else:
            yield str(key), column


def describe_batch(batch: Mapping[Any, Any]) -> str:
    """Return a description of all columns.

    >>> import numpy as np
    >>> describe_batch({"obs": np.zeros((3, 2), np.float32), "speed": [1.5, 2.5]})
    'obs: float32[3, 2]; speed: list of 2 (1.5)'
    """
    if not batch:
        return "an empty batch"
    return "; ".join(f"{name}: {describe_column(column)}" for name, column in columns_of(batch))


def describe_column(column: Item, longest: int = _LONGEST_TEXT) -> str:
    """Return a description of a column: shapes and dtypes of a batch, or number and type of items; a long one is cut off.

    >>> import numpy as np
    >>> describe_column(Ragged(np.zeros((5, 2)), np.array([0, 3, 5]), tail=1))
    'ragged float64[5, 2] (2 stretches, 3 steps + tails)'
    >>> describe_column({("walk",): [1, 2], ("run",): [3]})
    'items of 2 episodes: list of 3 (1)'
    """
    return _shortened(_description(column), longest)


def _description(column: Item) -> str:
    if isinstance(column, Ragged):
        tails = " + tails" if column.tail else ""
        return f"ragged {_leaves_text(column.values)} ({len(column)} stretches, {column.num_steps} steps{tails})"
    if isinstance(column, list):
        return f"list of {len(column)}" + (f" ({_shortened(_leaves_text(column[0]), 60)})" if column else "")
    if is_collected(column) and all(isinstance(items, list) for items in column.values()):
        items = [item for items in column.values() for item in items]
        return f"items of {len(column)} episodes: {_description(items)}"
    return _leaves_text(column)


def is_collected(column: Item) -> bool:
    """Return whether a column is `{(episode id, ...): [items]}`."""
    if not isinstance(column, dict) or not column:
        return False
    kinds = {*map(type, column)}
    return kinds == _TUPLES or all(issubclass(kind, tuple) for kind in kinds)


_TUPLES = {tuple}


def _leaves_text(value: Item) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_leaves_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_leaves_text, value)) + ")"
    if is_tensor(value):
        device = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"tensor {str(value.dtype).removeprefix('torch.')}{list(value.shape)}{device}"
    if isinstance(value, (Ragged, list)):
        return _description(value)
    return describe(value)


def _shortened(text: str, longest: int = _LONGEST_TEXT) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def bytes_of(column: Item) -> int:
    """Return the bytes of all arrays and tensors of a column; other items count as nothing.

    >>> import numpy as np
    >>> bytes_of({("walk",): [np.zeros(2), 3]})
    16
    """
    if isinstance(column, Ragged):
        return bytes_of(column.values)
    if isinstance(column, dict):
        return sum(map(bytes_of, column.values()))
    if isinstance(column, (list, tuple)):
        return sum(map(bytes_of, column))
    return int(getattr(column, "nbytes", 0))
