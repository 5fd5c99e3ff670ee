"""Results of a loss for each row of a batch, collected over minibatches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, final

import numpy as np
from torch import Tensor

from episodia.learners.minibatches import Minibatch

# Numbers in the order of the batch's rows, by module and name; NaN for rows that no minibatch had.
Rows: TypeAlias = dict[str, dict[str, np.ndarray]]


@final
class RowResults:
    """Collects the results of minibatches; the last result of a row counts.

    Args:
        num_rows: The number of rows of each module's batch.

    >>> import torch
    >>> results = RowResults({"left": 3})
    >>> results.add("left", Minibatch({}, 2, 0, np.array([2, 0])), {"td_error": torch.tensor([0.5, 0.25])})
    >>> results.collected()
    {'left': {'td_error': array([0.25,  nan, 0.5 ])}}
    """

    def __init__(self, num_rows: Mapping[str, int]) -> None:
        self._num_rows = dict(num_rows)
        self._found: list[tuple[str, Minibatch, Mapping[str, Tensor]]] = []

    def add(self, module_id: str, part: Minibatch, rows: Mapping[str, Tensor]) -> None:
        """Add the results of a minibatch; they are read at the end, because reading waits for the device."""
        if rows:
            self._found.append((module_id, part, rows))

    def collected(self) -> Rows:
        """Return the results of all rows."""
        collected: Rows = {}
        for module_id, part, rows in self._found:
            for name, numbers in rows.items():
                named = collected.setdefault(module_id, {})
                if name not in named:
                    named[name] = np.full(self._num_rows[module_id], np.nan)
                named[name][slice(None) if part.rows is None else part.rows] = numbers.cpu().numpy()
        return collected

    def num_not_finite(self, module_id: str) -> dict[str, float]:
        """Return how many results of a module are NaN or infinite, as a metric; nothing without results."""
        found = [rows for known, _, rows in self._found if known == module_id]
        return (
            {"num_bad_rows": sum(int((~each.isfinite()).sum()) for rows in found for each in rows.values())}
            if found
            else {}
        )
