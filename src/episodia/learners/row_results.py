"""Results of a loss for each row of a batch, collected over minibatches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, final

import numpy as np
from torch import Tensor

from episodia.learners.minibatches import Minibatch

# Numbers in the order of the batch's rows, by module and name; NaN for rows that no minibatch had.
Rows: TypeAlias = dict[str, dict[str, np.ndarray]]


class Collected(NamedTuple):
    """Results of rows, and how many of the results of each module with any are NaN or infinite."""

    rows: Rows
    num_bad: dict[str, int]


@final
class RowResults:
    """Collects the results of minibatches; the last result of a row counts.

    Args:
        num_rows: The number of rows of each module's batch.

    >>> import torch
    >>> results = RowResults({"left": 3})
    >>> results.add("left", Minibatch({}, 2, 0, np.array([2, 0])), {"td_error": torch.tensor([0.5, 0.25])})
    >>> results.collected().rows
    {'left': {'td_error': array([0.25,  nan, 0.5 ])}}
    """

    def __init__(self, num_rows: Mapping[str, int]) -> None:
        self._num_rows = dict(num_rows)
        self._found: list[tuple[str, Minibatch, Mapping[str, Tensor]]] = []

    def add(self, module_id: str, part: Minibatch, rows: Mapping[str, Tensor]) -> None:
        """Add the results of a minibatch; they are read at the end, because reading waits for the device."""
        if rows:
            self._found.append((module_id, part, rows))

    def collected(self) -> Collected:
        """Return the results of all rows."""
        rows: Rows = {}
        num_bad: dict[str, int] = {}
        for module_id, part, found in self._found:
            named = rows.setdefault(module_id, {})
            for name, tensor in found.items():
                numbers = tensor.cpu().numpy()
                if name not in named:
                    named[name] = np.full(self._num_rows[module_id], np.nan)
                named[name][slice(None) if part.rows is None else part.rows] = numbers
                not_finite = len(numbers) - int(np.count_nonzero(np.isfinite(numbers)))
                num_bad[module_id] = num_bad.get(module_id, 0) + not_finite
        return Collected(rows, num_bad)
