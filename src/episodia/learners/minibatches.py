"""Minibatches: each row of each module once per epoch, in groups of about equally many steps.

A *row* of a module's batch is a step, or for recurrent modules a padded sequence of steps, `[T, ...]`. Sequences stay whole.
Only steps that count for the loss are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np
import torch

from episodia.arguments import checked_whole
from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.episodes.lists.ragged import offsets_of
from episodia.errors import BatchError, LearnerError
from episodia.trees import flat, leaves, map_batch, shown
from episodia.types import Batch


@dataclass(frozen=True)
class Minibatch:
    """Some rows of one module.

    Args:
        columns: The columns of these rows.
        num_steps: How many of their steps count for the loss.
        epoch: The number of the pass over the module's rows, from 0.
        rows: The positions of these rows in the module's batch; None means all of them, in order.
    """

    columns: Batch
    num_steps: int
    epoch: int
    rows: np.ndarray | None = None


def minibatches(
    batch: Mapping[str, Batch],
    *,
    num_epochs: int = 1,
    minibatch_size: int | None = None,
    rng: np.random.Generator | None = None,
) -> Iterator[dict[str, Minibatch]]:
    """Yield the minibatches of each gradient step: one for each module that still has rows.

    Every module gets exactly `num_epochs` passes over its own rows: a module with fewer rows than others finishes earlier.

    Args:
        batch: The columns of each module, with one row per step or sequence along their first axis.
        num_epochs: The number of passes.
        minibatch_size: The approximate number of steps per minibatch, see `plan`. None takes all rows at once.
        rng: The source of a new order of rows in each epoch; None keeps their order.

    Raises:
        BatchError: If `batch` is not a batch, or if the columns of a module have different numbers of rows.
        LearnerError: If a number is out of range, or if `rng` is not a generator.

    >>> batch = {"left": {"obs": torch.arange(3)}, "right": {"obs": torch.arange(10, 12)}}
    >>> for step in minibatches(batch, minibatch_size=2):
    ...     print({module_id: part.columns["obs"].tolist() for module_id, part in step.items()})
    {'left': [0], 'right': [10, 11]}
    {'left': [1, 2]}
    """
    check_batch(batch)
    checked_whole(LearnerError, "minibatches", "num_epochs", num_epochs, 1)
    if minibatch_size is not None:
        checked_whole(LearnerError, "minibatches", "minibatch_size", minibatch_size, 1)
    generator: object = rng
    if generator is not None and not isinstance(generator, np.random.Generator):
        raise LearnerError(
            f"minibatches: found `rng={shown(rng)}`, expected a `np.random.Generator`, or None to keep the order. Pass one of "
            "these."
        )
    counts = {module_id: step_counts(module_id, columns) for module_id, columns in batch.items()}
    yield from drawn(batch, counts, num_epochs, minibatch_size, rng)


def drawn(
    batch: Mapping[str, Batch],
    counts: Mapping[str, np.ndarray],
    num_epochs: int,
    minibatch_size: int | None,
    rng: np.random.Generator | None,
) -> Iterator[dict[str, Minibatch]]:
    """Yield the minibatches of a checked batch, see `minibatches`; `counts` are the `step_counts` of each module."""
    streams = [
        _of_module(columns, counts[module_id], num_epochs, minibatch_size, rng) for module_id, columns in batch.items()
    ]
    for parts in zip_longest(*streams):
        yield {module_id: part for module_id, part in zip(batch, parts, strict=True) if part is not None}


def in_order(batch: Mapping[str, Batch], counts: Mapping[str, np.ndarray], num: int) -> Iterator[dict[str, Minibatch]]:
    """Yield `num` minibatches of a checked batch: the rows of each module in their order, in groups of equal size.

    >>> batch = {"left": {"obs": torch.arange(5)}}
    >>> [step["left"].columns["obs"].tolist() for step in in_order(batch, {"left": np.ones(5, int)}, 2)]
    [[0, 1], [2, 3, 4]]
    """
    streams = [_in_order(columns, counts[module_id], num) for module_id, columns in batch.items()]
    for parts in zip(*streams, strict=True):
        yield {module_id: part for module_id, part in zip(batch, parts, strict=True) if part.num_steps}


def _in_order(columns: Batch, counts: np.ndarray, num: int) -> Iterator[Minibatch]:
    cuts = [len(counts) * part // num for part in range(num + 1)]
    sizes = np.diff(cuts).tolist()

    def parted(leaf: Any) -> Any:
        # One call of torch makes the views of all parts.
        if isinstance(leaf, torch.Tensor):
            return iter(torch.split(leaf, sizes))
        return iter([leaf[start:stop] for start, stop in pairwise(cuts)])

    parts = {name: map_batch(parted, column) for name, column in columns.items()}
    rows, num_steps = np.arange(len(counts)), np.diff(offsets_of(counts)[cuts]).tolist()
    for start, stop, num_own in zip(cuts, cuts[1:], num_steps, strict=False):
        own = {name: map_batch(next, column) for name, column in parts.items()}
        yield Minibatch(own, num_own, 0, rows[start:stop])


def plan(counts: np.ndarray, minibatch_size: int, rng: np.random.Generator | None = None) -> list[np.ndarray]:
    """Return the rows of each minibatch of one epoch; each row is in exactly one of them.

    Steps are divided evenly among the number of minibatches that comes closest to `minibatch_size`. So the few steps that a
    runner collects beyond a multiple of it do not become a separate gradient step, which would cost as much as a full one.

    Args:
        counts: The number of steps of each row that count.
        minibatch_size: The approximate number of steps per minibatch.
        rng: The source of a random order; None keeps the order.

    >>> [rows.tolist() for rows in plan(np.ones(7, int), 3)]
    [[0, 1, 2], [3, 4, 5, 6]]
    >>> [rows.tolist() for rows in plan(np.array([3, 2, 1, 9, 1]), 5)]
    [[0, 1], [2, 3], [4]]
    """
    order = np.arange(len(counts)) if rng is None else rng.permutation(len(counts))
    total = int(counts.sum())
    parts = _num_parts(total, minibatch_size)
    # All steps in order are cut into parts of equal length; a row belongs to the part that holds its middle.
    ends = np.cumsum(counts[order])
    cuts = np.searchsorted(ends - counts[order] / 2.0, np.arange(1, parts) * (total / parts))
    return [rows for rows in np.split(order, cuts) if counts[rows].any()] if total else []


def _num_parts(total: int, minibatch_size: int) -> int:
    return max(1, int(total / minibatch_size + 0.5))


def step_counts(module_id: str, columns: Mapping[str, Any]) -> np.ndarray:
    """Return for each row how many of its steps count for the loss.

    Raises:
        BatchError: If the columns have different numbers of rows.
    """
    lengths = {len(leaf) for leaf in flat(dict(columns))}
    if len(lengths) > 1:
        named = {path: len(leaf) for path, leaf in leaves(dict(columns))}
        raise BatchError(
            f"batch of {module_id!r}: found columns of different lengths, {named}, expected one row for each step or "
            "sequence in all of them. Correct the piece of the learner pipeline that writes the odd one."
        )
    rows = next(iter(lengths), 0)
    mask = columns.get(Columns.LOSS_MASK)
    if mask is None:
        return np.ones(rows, np.int64)
    if not isinstance(mask, (torch.Tensor, np.ndarray)):
        raise BatchError(
            f"batch of {module_id!r}: found {describe_column(mask)} as {Columns.LOSS_MASK!r}, expected a tensor or an array "
            "that is nonzero where a step counts. Correct the piece of the learner pipeline that writes it."
        )
    flags = mask.cpu().numpy() if isinstance(mask, torch.Tensor) else mask
    return np.asarray((flags != 0).reshape(rows, -1).sum(1), np.int64) if rows else np.zeros(0, np.int64)


def _of_module(
    columns: Batch,
    counts: np.ndarray,
    num_epochs: int,
    minibatch_size: int | None,
    rng: np.random.Generator | None,
) -> Iterator[Minibatch]:
    total = int(counts.sum())
    if not total:
        return
    for epoch in range(num_epochs):
        if minibatch_size is None or _num_parts(total, minibatch_size) == 1:
            # The order of rows does not matter here, so that they are not copied.
            yield Minibatch(columns, total, epoch)
            continue
        for rows in plan(counts, minibatch_size, rng):
            yield Minibatch(taken(columns, rows), int(counts[rows].sum()), epoch, rows)


def taken(columns: Batch, rows: np.ndarray) -> Batch:
    """Return these rows of all columns."""
    index = torch.from_numpy(rows)

    def of_leaf(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.index_select(0, index.to(leaf.device))
        return [leaf[row] for row in rows.tolist()] if isinstance(leaf, list) else leaf[rows]

    return {name: map_batch(of_leaf, column) for name, column in columns.items()}


def on_device(columns: Batch, device: torch.device) -> Batch:
    """Return columns with their tensors on `device`; copies to an accelerator run asynchronously."""
    if device.type == "cpu":
        return columns

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or _is_on(leaf, device):
            return leaf
        # Asynchronous copies need page-locked memory, which only the CPU has.
        waits = leaf.device.type == "cpu" and device.type == "cuda"
        return (leaf.pin_memory() if waits else leaf).to(device, non_blocking=True)

    return {name: map_batch(moved, column) for name, column in columns.items()}


def _is_on(leaf: torch.Tensor, device: torch.device) -> bool:
    # A device without an index stands for any device of its type.
    return leaf.device == device or (leaf.device.type == device.type and device.index is None)


def check_batch(batch: Mapping[str, Batch]) -> None:
    """Check that `batch` is a dict of modules, each of which has a dict of columns with rows.

    Raises:
        BatchError: If it is not.

    >>> check_batch({"default_policy": {"obs": torch.zeros(3, 2)}})
    """
    if not isinstance(batch, Mapping):
        raise BatchError(
            f"batch: found {describe_column(batch)}, expected a dict of modules, `{{module_id: {{column: rows}}}}`. Pass what "
            "`Learner.batch_of` returns."
        )
    for module_id, columns in batch.items():
        check_columns(module_id, columns)


def check_columns(module_id: str, columns: Batch) -> None:
    """Check that `columns` is a dict of columns with rows.

    Raises:
        BatchError: If it is not.
    """
    check_is_dict(module_id, columns)
    if all(map(_has_rows, flat(columns))):
        return
    for path, leaf in leaves(columns):
        if not _has_rows(leaf):
            raise BatchError(
                f"batch of {module_id!r}: found {describe_column(leaf)} in the column {path}, expected a tensor, an array or "
                "a list with one row for each step or sequence. Correct the piece of the learner pipeline that writes it."
            )


def check_is_dict(module_id: str, columns: Batch) -> None:
    """Check that `columns` is a dict; the columns themselves are not checked."""
    if not isinstance(columns, dict):
        raise BatchError(
            f"batch of {module_id!r}: found {describe_column(columns)}, expected a dict of columns. Pass what the "
            "learner pipeline makes of episodes."
        )


def _has_rows(leaf: object) -> bool:
    return leaf.ndim > 0 if isinstance(leaf, (torch.Tensor, np.ndarray)) else isinstance(leaf, list)
