"""Turns all tensors in the batch into NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.trees import map_batch
from episodia.types import Item


class TensorToNumpy(ColumnPiece):
    """Turns all tensors in the batch into NumPy arrays."""

    reads = writes = frozenset[str]()
    lookback = 0

    def work(self, run: Run) -> None:
        """Turn all columns of all modules into arrays."""
        parts = run.module_outputs
        for columns in (run.batch,) if parts is None else [part.columns for part in parts]:
            for name, column in columns.items():
                if type(column) is Tensor:
                    try:
                        columns[name] = column.numpy()
                    except (RuntimeError, TypeError):
                        columns[name] = _copied_array(column)
                elif type(column) is not np.ndarray:
                    columns[name] = map_batch(as_array, column)


def as_array(leaf: Item) -> Any:
    """Return a tensor as a NumPy array; anything else as it is."""
    if not isinstance(leaf, Tensor):
        return leaf
    try:
        return leaf.numpy()
    except (RuntimeError, TypeError):  # with a gradient, or on another device; to ask first takes longer than the rest
        return _copied_array(leaf)


def _copied_array(tensor: Tensor) -> Any:
    try:
        return tensor.numpy(force=True)
    except TypeError:
        # NumPy has no bfloat16. Each of its numbers is one of float32.
        return tensor.float().numpy(force=True)
