"""Shifted windows over the columns of many episodes: one gather for all of them.

The items of all episodes, each with its lookback in front, lie one after another. For every step and every shift, the
position of one item is computed; what lies outside of an episode is filled. Frames that are stacked, previous actions,
next observations and states of recurrent modules are all such windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from episodia.episodes.columns.filling import Fills, put
from episodia.episodes.lists.ragged import offsets_of, rows_of_ranges
from episodia.errors import DroppedHistoryError
from episodia.spaces import fitting
from episodia.trees import map_batch
from episodia.types import Item


@dataclass(frozen=True)
class Stretches:
    """The positions of the items of each episode in a flat batch, and the requested rows; all fields are int64 [B].

    `lookbacks` items of the past come first, then `counts` items from index 0 on, which is at time step `t_started`. The
    result has `rows` rows for each episode, for its indices from `begins` on; or for `indices`, int64 [N], if they are not
    neighbours.
    """

    lookbacks: np.ndarray
    counts: np.ndarray
    t_started: np.ndarray
    begins: np.ndarray
    rows: np.ndarray
    indices: np.ndarray | None = None


def windows(values: Item, stretches: Stretches, shifts: Sequence[int], fill: Item) -> Any:
    """Return for each row the items at `shifts` from it, a batch with leaves `[N, K, ...]`.

    Args:
        values: The items of all episodes, lookbacks included, one after another.
        stretches: Where they are, and which rows are asked for.
        shifts: K distances in time; negative ones look back.
        fill: What stands before the first step of an episode and after its last item; or `Fills`, one for each shift.

    Raises:
        DroppedHistoryError: If a window reaches for history that an episode had, and that this chunk of it does not.
    """
    positions, outside = window_positions(stretches, shifts)
    return items_at(values, positions, outside, fill)


def items_at(values: Item, positions: np.ndarray, outside: np.ndarray | None, fill: Item) -> Any:
    """Return the items at `positions`, int64 `[N, K]`; `fill`, which may be `Fills`, stands `outside`."""
    if isinstance(fill, Fills):
        return taken(values, positions, outside, fill)
    return map_batch(lambda leaf: _gathered(leaf, positions, outside, fill), values)


def taken(values: Item, positions: np.ndarray, outside: np.ndarray | None, fills: Fills) -> Any:
    """Return the items at `positions`, int64 `[N, K]`, and fills `outside`: one gather for each leaf."""
    found = map_batch(lambda leaf: _items_at(leaf, positions), values)
    if outside is not None:
        for part, fill in fills.runs():
            put(map_batch(lambda leaf, part=part: leaf[:, part], found), outside[:, part], fill)
    return found


def _items_at(leaf: np.ndarray, positions: np.ndarray) -> np.ndarray:
    # Where there are no items at all, everything is outside.
    return leaf.take(positions, 0) if len(leaf) else np.empty((*positions.shape, *leaf.shape[1:]), leaf.dtype)


def window_positions(stretches: Stretches, shifts: Sequence[int]) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the positions `[N, K]` of the items, and a mask of those that are not there (None if all are)."""
    first = offsets_of(stretches.lookbacks + stretches.counts)[:-1]
    zero = first + stretches.lookbacks
    rows = stretches.rows
    if stretches.indices is None:
        at_shift_0 = rows_of_ranges(zero + stretches.begins, rows)
    else:
        at_shift_0 = np.repeat(zero, rows) + stretches.indices
    positions = at_shift_0[:, None] + np.asarray(shifts, np.int64)
    outside = (positions < np.repeat(first, rows)[:, None]) | (
        positions >= np.repeat(zero + stretches.counts, rows)[:, None]
    )
    if not outside.any():
        return positions, None
    _check_not_dropped(positions, first, zero, stretches.t_started, rows)
    return np.where(outside, 0, positions), outside


def _check_not_dropped(
    positions: np.ndarray, first: np.ndarray, zero: np.ndarray, t_started: np.ndarray, rows: np.ndarray
) -> None:
    """Reject windows over items that were dropped: to fill them would be to guess."""
    birth = zero - t_started
    dropped = (positions < np.repeat(first, rows)[:, None]) & (positions >= np.repeat(birth, rows)[:, None])
    if dropped.any():
        row = int(np.flatnonzero(dropped.any(axis=1))[0])
        episode = int(np.searchsorted(np.cumsum(rows), row, side="right"))
        needed = int(zero[episode] - positions[np.repeat(np.arange(len(rows)), rows) == episode].min())
        raise DroppedHistoryError(episode, needed, int(zero[episode] - first[episode]), int(t_started[episode]))


def _gathered(leaf: np.ndarray, positions: np.ndarray, outside: np.ndarray | None, fill: Any) -> np.ndarray:
    if outside is None:
        return leaf.take(positions, 0)
    value = fitting(fill, leaf.dtype)
    if not len(leaf):
        return np.full((*positions.shape, *leaf.shape[1:]), value, leaf.dtype)
    found = leaf.take(positions, 0)
    found[outside] = value
    return found
