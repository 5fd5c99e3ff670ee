"""Sequences of one length, cut from stretches for recurrent modules: the step at each place, and the padding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from episodia.connectors.batches.batch_descriptions import is_tensor
from episodia.episodes import Ragged
from episodia.episodes.lists.ragged import offsets_of, rows_of_ranges
from episodia.trees import map_batch
from episodia.types import Item


@dataclass(frozen=True)
class CutSequences:
    """S sequences of L places, each with consecutive steps of one stretch and padding after them.

    Args:
        steps: The step at each place, counted over all stretches; 0 at padding. int64 [S, L].
        mask: Where there is a step. bool [S, L].
        warmups: The number of places at the front of each sequence that only warm up the state. int64 [S].
        stretches: The stretch that each sequence belongs to. int64 [S].
    """

    steps: np.ndarray
    mask: np.ndarray
    warmups: np.ndarray
    stretches: np.ndarray

    @cached_property
    def padding(self) -> tuple[np.ndarray, ...]:
        """The positions without a step, on both axes."""
        return np.nonzero(~self.mask)

    @property
    def lengths(self) -> np.ndarray:
        """The number of steps of each sequence: int64 [S]."""
        return np.asarray(self.mask.sum(axis=1))

    @property
    def loss_mask(self) -> np.ndarray:
        """True at each step to learn from, which is neither padding nor warming up: bool [S, L]."""
        return np.asarray(self.mask & (np.arange(self.mask.shape[1]) >= self.warmups[:, None]))


def sequences(lengths: np.ndarray, max_seq_len: int, burn_in: int = 0) -> CutSequences:
    """Cut stretches of `lengths` steps into sequences.

    Every step is used for learning once. A sequence has up to `max_seq_len` such steps, after up to `burn_in` earlier steps
    of the same stretch.

    >>> cut = sequences(np.array([3, 1]), max_seq_len=2, burn_in=1)
    >>> cut.steps.tolist()
    [[0, 1, 0], [1, 2, 0], [3, 0, 0]]
    >>> cut.loss_mask.tolist()
    [[True, True, False], [False, True, False], [True, False, False]]
    """
    pieces = -(-lengths // max_seq_len)
    stretches = np.repeat(np.arange(len(lengths)), pieces)
    # Steps within their stretch: where the part to learn from begins and ends.
    begins = rows_of_ranges(np.zeros_like(pieces), pieces) * max_seq_len
    stops = np.minimum(begins + max_seq_len, lengths[stretches])
    warmups = np.minimum(begins, burn_in)
    places = np.arange(max_seq_len + burn_in)
    starts = begins - warmups
    mask = places < (stops - starts)[:, None]
    steps = np.where(mask, (offsets_of(lengths)[stretches] + starts)[:, None] + places, 0)
    return CutSequences(steps=steps, mask=mask, warmups=warmups, stretches=stretches)


def padded(column: Ragged, cut: CutSequences, *, zeros: bool = True) -> Any:
    """Return the steps of `column` at their places, zeros (or some row of it) at padding: leaves `[S, L, ...]`."""
    rows, padding = cut.steps, cut.padding
    if column.tail:
        # In a track, every earlier stretch has one additional row.
        rows = rows + cut.stretches[:, None]
        rows[padding] = 0
    found = column.take(rows)
    return map_batch(lambda leaf: _zeroed(leaf, padding), found) if zeros and len(padding[0]) else found


def _zeroed(found: Any, padding: tuple[np.ndarray, ...]) -> Any:
    """Write zeros to the places of `padding`, in place; no other code holds `found`."""
    if is_tensor(found):
        found[padding] = 0
    else:
        found[padding] = None if found.dtype.hasobject else np.zeros((), found.dtype)
    return found


def _like(mask: np.ndarray, tensor: Any) -> Any:
    import torch  # noqa: PLC0415  # only where tensors were made, so it is imported already

    return torch.from_numpy(mask).to(tensor.device)


def first_rows(column: Ragged, cut: CutSequences) -> Any:
    """Return the row of `column` at the beginning of each sequence: leaves `[S, ...]`."""
    rows = cut.steps[:, 0] + column.tail * cut.stretches
    return map_batch(lambda leaf: leaf[rows], column.values)


def unpadded(values: Item, cut: CutSequences) -> Any:
    """Return the steps of `[S, L]` arrays or tensors in the order of their stretches: `[number of steps, ...]`."""
    keep = cut.loss_mask
    return map_batch(lambda leaf: leaf[_like(keep, leaf) if is_tensor(leaf) else keep], values)
