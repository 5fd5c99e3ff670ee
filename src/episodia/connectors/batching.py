"""Columns in their last form: plain arrays, one row after another."""

from __future__ import annotations

from typing import Any, final

from episodia.connectors.base import ConnectorV2
from episodia.connectors.batches.batch_columns import Batch, module_batches
from episodia.connectors.batches.collected import as_ragged
from episodia.connectors.batches.describing import is_collected
from episodia.episodes import EpisodeList, Ragged


@final
class BatchIndividualItems(ConnectorV2):
    """Turns every column, however it was written, into arrays with one row for each step; tails are left behind.

    Pieces after this one see what a module will see.
    """

    reads = writes = frozenset[str]()
    lookback = 0

    def __call__(self, *, batch: Batch, episodes: Any, **kwargs: Any) -> Batch:
        for _, columns, rows in module_batches(batch, EpisodeList.of(episodes)):
            for name, column in columns.items():
                columns[name] = column.body().values if type(column) is Ragged else plain(column, rows)
        return batch


def plain(column: Any, rows: EpisodeList) -> Any:
    """Return `column` as a nested batch of its step rows; what is a batch already is returned as it is."""
    if isinstance(column, list) or is_collected(column):
        column = as_ragged(column, rows)
    return column.body().values if isinstance(column, Ragged) else column
