"""Rows around chosen steps: their past, the steps after them, and whether their past is still stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from episodia.columns import Columns
from episodia.episodes.lists.ragged import even_lengths
from episodia.replay.draws.drawn import Drawn
from episodia.replay.rows.row_index import RowPlaces
from episodia.replay.table import Picked, Table

Allowed = Callable[[np.ndarray], np.ndarray]


def single_steps(table: Table, picked: Picked, lookback: int) -> Drawn:
    """Return the picked steps, each with up to `lookback` rows of the past."""
    index, rows = table.writer.index, picked.rows
    lengths = even_lengths(len(rows), 1)
    if lookback:
        times = index.places(rows).times
        flat, lookbacks = with_past(table, rows, lookback, lengths)
        return Drawn(flat, rows, picked.kinds, lengths, times, lookbacks, weights_of(picked), is_single=True)
    both = index.with_next(rows, picked.kinds)
    return Drawn(both, rows, picked.kinds, lengths, added=weights_of(picked), is_single=True)


def weights_of(picked: Picked) -> dict[str, np.ndarray]:
    """Return the column of weights of picked steps, if the selector gives weights."""
    return {} if picked.weights is None else {Columns.WEIGHTS: picked.weights.astype(np.float32)}


def keeps_lookback(table: Table, lookback: int) -> Allowed | None:
    """Return a function that tells which rows have `lookback` rows of their past, or their whole past; None if all have."""
    if not lookback:
        return None
    index = table.writer.index

    def allowed(rows: np.ndarray) -> np.ndarray:
        _, episodes, times = index.places(rows)
        kept = index.episodes.t_kept.take(episodes)
        answer: np.ndarray = (kept == 0) | (times - kept >= lookback)
        return answer

    return allowed


def with_past(table: Table, rows: np.ndarray, lookback: int, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row up to `lookback` rows before it, the row, and `after[i]` rows after it.

    Returns:
        The rows, flat; and how many of them are the past of each: int64 [B].
    """
    index = table.writer.index
    places = index.places(rows)
    before = np.minimum(lookback, places.times - index.episodes.t_kept.take(places.episodes))
    return stretches(table, rows, places, before, after), before


def stretches(table: Table, rows: np.ndarray, places: RowPlaces, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return for each row `before[i]` rows before it, the row, and `after[i]` rows after it, one after another: flat int64."""
    if not len(rows):
        return rows
    longest_past, longest_rest = int(before.max()), int(after.max())
    shifts = np.arange(-longest_past, longest_rest + 1)
    if before.min() == longest_past and after.min() == longest_rest:
        return table.writer.index.walk(rows, places.runs, shifts).reshape(-1)
    inside = (shifts >= -before[:, None]) & (shifts <= after[:, None])
    clipped = np.clip(shifts, -before[:, None], after[:, None])
    return table.writer.index.walk(rows, places.runs, clipped)[inside]
