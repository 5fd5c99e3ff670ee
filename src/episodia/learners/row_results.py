"""Results of a loss for each row of a batch, collected over minibatches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from episodia.learners.minibatches import Minibatch

# Numbers in the order of the batch's rows, by module and name; NaN for rows that no minibatch had.
Rows: TypeAlias = dict[str, dict[str, np.ndarray]]


class Collected(NamedTuple):
    """Results of rows, and how many rows of each module with results have one that is NaN or infinite."""

    rows: Rows
    num_bad: dict[str, int]

    @classmethod
    def joined(cls, parts: Sequence[Self], num_rows: Sequence[Mapping[str, int]]) -> Self:
        """Return the results of a batch whose rows follow each other in `parts`.

        Args:
            parts: The results of each part.
            num_rows: How many rows of each module each part has.

        >>> parts = [Collected({"left": {"error": np.ones(1)}}, {"left": 0}), Collected({}, {})]
        >>> Collected.joined(parts, [{"left": 1}, {"left": 2}]).rows
        {'left': {'error': array([ 1., nan, nan])}}
        """
        names = dict.fromkeys((key, name) for part in parts for key, named in part.rows.items() for name in named)
        rows: Rows = {}
        for key, name in names:
            found = [
                part.rows.get(key, {}).get(name, np.full(counts.get(key, 0), np.nan))
                for part, counts in zip(parts, num_rows, strict=True)
            ]
            rows.setdefault(key, {})[name] = np.concatenate(found)
        num_bad = Counter[str]()
        for part in parts:
            num_bad.update(part.num_bad)
        return cls(rows, dict(num_bad))


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
        parts: dict[tuple[str, str], list[tuple[np.ndarray, Tensor]]] = {}
        for module_id, part, found in self._found:
            own = np.arange(self._num_rows[module_id]) if part.rows is None else part.rows
            for name, tensor in found.items():
                parts.setdefault((module_id, name), []).append((own, tensor))
        rows: Rows = {}
        is_bad: dict[str, np.ndarray] = {}
        for (module_id, name), pairs in parts.items():
            num, places = self._num_rows[module_id], np.concatenate([own for own, _ in pairs])
            numbers = rows.setdefault(module_id, {})[name] = np.full(num, np.nan)
            # Of several results of a row, NumPy keeps the last one.
            numbers[places] = torch.cat([tensor for _, tensor in pairs]).cpu().numpy()
            is_bad.setdefault(module_id, np.zeros(num, np.bool_))[places] |= ~np.isfinite(numbers[places])
        return Collected(rows, {module_id: int(np.count_nonzero(bad)) for module_id, bad in is_bad.items()})
