"""The two ends of an outermost pipeline: the batch that comes in, and the batch that goes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError
from episodia.trees import describe
from episodia.types import AnyBatch

_NOT_PLAIN = (Ragged, dict)


def copied(batch: AnyBatch | None) -> dict[str, Any]:
    """Return a batch that pieces can change without changing the caller's: new dicts for columns and modules.

    Raises:
        BatchError: If `batch` is no dict.
    """
    if not batch:
        return {}
    if not isinstance(batch, Mapping):
        raise BatchError(f"found {describe(batch)} as a batch, expected a dict of columns, or None. Pass one of these.")
    for column in batch.values():
        if type(column) is dict:
            return {key: dict(part) if type(part) is dict else part for key, part in batch.items()}
    return dict(batch)


def unwrapped(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a batch in which whole stretches are plain arrays or tensors of their steps, also inside of modules."""
    for column in batch.values():
        if type(column) in _NOT_PLAIN:
            break
    else:
        return batch
    return {
        key: {name: _plain(part) for name, part in column.items()} if type(column) is dict else _plain(column)
        for key, column in batch.items()
    }


def _plain(column: Any) -> Any:
    return column.body().values if type(column) is Ragged else column
