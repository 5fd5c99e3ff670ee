"""Columns in their final form: plain arrays with one row per step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from episodia.columns import DEFAULT_MODULE_ID, Columns
from episodia.connectors.batches.batch_columns import mapped_rows
from episodia.connectors.batches.batch_descriptions import is_collected, is_nested_batch, is_tensor, stacked
from episodia.connectors.batches.batch_items import as_ragged, batch_of, num_items, one_each
from episodia.connectors.batches.other_episodes import ItemKey, check_same_places, other_keys
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run, mark
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.errors import BatchError
from episodia.trees import leaves
from episodia.types import Item


class BatchIndividualItems(ColumnPiece):
    """Turns columns of every form into arrays with one row for each step; tails are dropped.

    Later pieces see the arrays that a module will see. A column with another number of rows is rejected. Items that a
    learner's piece added for episodes outside of the list are rows too, in the order in which they were added.
    """

    reads = writes = frozenset[str]()
    lookback = 0

    def compile(self, layout: Layout) -> Step:
        """Return `work`; runners with one module need not look for the module of each column."""
        return self._work_on_rows if layout.episodes is LiveEpisodes else self.work

    def _work_on_rows(self, run: Run) -> None:
        batch, rows = run.batch, run.episodes
        count = len(rows.offsets) - 1
        for name, column in batch.items():
            if type(column) is not np.ndarray or not column.ndim or len(column) != count:
                if DEFAULT_MODULE_ID in batch:  # grouped by module
                    return self.work(run)
                items = one_each(column, rows) if is_collected(column) else None
                batch[name] = plain(name, column, rows, Columns.SEQ_LENS in batch) if items is None else stacked(items)
        return None

    def work(self, run: Run) -> None:
        """Turn all columns into their final form."""
        for _, columns, rows in mapped_rows(run):
            if not rows.is_current:
                others = _of_other_episodes(columns, rows)
                run.has_other_rows |= bool(others)
                check_same_places(others, rows)
            _batch_all(columns, rows)


def _batch_all(columns: Any, rows: EpisodeList) -> None:
    # Padded sequences have other rows; their columns were checked before padding.
    is_padded = Columns.SEQ_LENS in columns
    for name, column in columns.items():
        columns[name] = plain(name, column, rows, is_padded)


def plain(name: str, column: Item, rows: EpisodeList, is_padded: bool) -> Any:
    """Return `column` as a nested batch of its step rows; a value without rows, such as a number, is returned unchanged."""
    if type(column) is Ragged:
        return column.body().values
    if is_collected(column) and not rows.is_current and other_keys(column, rows):
        return batch_of([item for items in column.values() for item in items])
    if isinstance(column, list) and not len(rows):
        return batch_of(column)
    if isinstance(column, list) or is_collected(column) or (not is_padded and _has_rows(column)):
        try:
            column = as_ragged(column, rows)
        except BatchError as error:
            mark(error, name, None)
            raise
    return column.body().values if isinstance(column, Ragged) else column


def _of_other_episodes(columns: Mapping[str, Item], rows: EpisodeList) -> dict[str, dict[ItemKey, int]]:
    """Return the number of items by key, for each column with items of episodes that are not in `rows`."""
    return {
        name: {key: num_items(items) for key, items in column.items()}
        for name, column in columns.items()
        if is_collected(column) and other_keys(column, rows)
    }


def _has_rows(column: Item) -> bool:
    """Return whether `column` consists of arrays or tensors with at least one axis."""
    is_batch = isinstance(column, np.ndarray) or is_tensor(column) or is_nested_batch(column)
    return is_batch and all(leaf.ndim for _, leaf in leaves(column))
