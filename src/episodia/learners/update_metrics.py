"""Metrics of an update, collected over its gradient steps, and their averages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeAlias, final

import torch
from torch import Tensor

from episodia.learners.row_results import Rows

# By module id, then by name; metrics of all modules together are under `ALL_MODULES`.
Metrics: TypeAlias = dict[str, dict[str, float]]

ALL_MODULES = "__all_modules__"


@final
class UpdateMetrics(dict[str, dict[str, float]]):
    """The metrics of an update, with the results of the loss for each row of the batch.

    Attributes:
        rows: Numbers in the order of the batch's rows, by module and name.

    >>> import numpy as np
    >>> UpdateMetrics({"left": {"loss": 0.5}}, {"left": {"td_error": np.zeros(2)}}).rows
    {'left': {'td_error': array([0., 0.])}}
    """

    def __init__(self, metrics: Metrics, rows: Rows) -> None:
        super().__init__(metrics)
        self.rows = rows


def mean_of_updates(updates: Sequence[Metrics]) -> Metrics:
    """Return one dict of metrics for several updates: averages, sums of counts (`num_…`), and the last ones of all modules.

    Averages weigh each update by its `num_steps`.

    >>> mean_of_updates([{"left": {"loss": 1.0, "num_steps": 8}}, {"left": {"loss": 2.0, "num_steps": 24}}])
    {'left': {'loss': 1.75, 'num_steps': 32}}
    """
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for metrics in updates:
        for module_id, numbers in metrics.items():
            weight = numbers.get("num_steps", 1)
            for name, number in numbers.items():
                found.setdefault(module_id, {}).setdefault(name, []).append((number, weight))
    return {
        module_id: {name: _joined(module_id, name, numbers) for name, numbers in named.items()}
        for module_id, named in found.items()
    }


def _joined(module_id: str, name: str, weighted: Sequence[tuple[float, float]]) -> float:
    numbers, weights = [number for number, _ in weighted], [weight for _, weight in weighted]
    if module_id == ALL_MODULES:
        return numbers[-1]
    if name.startswith("num_"):
        return sum(numbers)
    total = sum(weights)
    if not total:
        return math.fsum(numbers) / len(numbers)
    return math.fsum(number * weight for number, weight in weighted) / total


class _Measured(NamedTuple):
    num_steps: int
    epoch: int
    numbers: dict[str, Tensor | float]


@final
class Log:
    """Collects the metrics of minibatches; tensors are read at the end, all at once, because reading waits for the device.

    >>> log = Log()
    >>> log.add("left", {"loss": torch.tensor(1.0)}, num_steps=30, epoch=0)
    >>> log.add("left", {"loss": torch.tensor(5.0)}, num_steps=10, epoch=1)
    >>> log.means("left"), log.means("left", epoch=1)
    ({'loss': 2.0}, {'loss': 5.0})
    """

    def __init__(self) -> None:
        self._measured: dict[str, list[_Measured]] = {}
        self._unread: list[tuple[dict[str, Tensor | float], str, Tensor]] = []
        self._skipped: Counter[str] = Counter()

    def add(self, module_id: str, numbers: Mapping[str, Tensor | float], *, num_steps: int, epoch: int) -> None:
        """Add the metrics of a minibatch of `num_steps` steps."""
        own = dict(numbers)
        self._measured.setdefault(module_id, []).append(_Measured(num_steps, epoch, own))
        self._unread += [(own, name, number) for name, number in own.items() if isinstance(number, Tensor)]

    def skip(self, module_id: str) -> None:
        """Count a skipped minibatch."""
        self._skipped[module_id] += 1

    def num_skipped(self, module_id: str) -> int:
        """Return the number of skipped minibatches."""
        return self._skipped[module_id]

    def means(self, module_id: str, *, epoch: int | None = None) -> dict[str, float]:
        """Return the average of each metric over the steps of all minibatches, or of those of one epoch."""
        self.read()
        found = [part for part in self._measured.get(module_id, []) if epoch in (None, part.epoch)]
        names = dict.fromkeys(name for part in found for name in part.numbers)
        return {name: _mean([part for part in found if name in part.numbers], name) for name in names}

    @classmethod
    def joined(cls, logs: Sequence[Self]) -> Self:
        """Return the log of learners that have measured parts of the same minibatches, and have skipped the same ones."""
        joined = cls()
        for log in logs:
            log.read()
            for module_id, measured in log._measured.items():
                joined._measured.setdefault(module_id, []).extend(measured)
        joined._skipped = logs[0]._skipped
        return joined

    def read(self) -> None:
        """Read the values of all tensors."""
        unread, self._unread = self._unread, []
        for (own, name, _), value in zip(unread, values_of([number for _, _, number in unread]), strict=True):
            own[name] = value


def values_of(numbers: Sequence[Tensor]) -> list[float]:
    """Return the values of tensors without axes, which are read at once, because each read waits for the device.

    >>> values_of([torch.tensor(0.5), torch.tensor(2.0)])
    [0.5, 2.0]
    """
    if not numbers:
        return []
    device = numbers[0].device
    listed: list[float] = torch.stack([number.to(device) for number in numbers]).tolist()
    return listed


def _mean(measured: Sequence[_Measured], name: str) -> float:
    weights = [part.num_steps for part in measured]
    parts = (float(part.numbers[name]) * part.num_steps for part in measured)
    total = sum(parts)
    return total / sum(weights)
