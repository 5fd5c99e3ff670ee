"""Treats terminations as truncations: values are bootstrapped after them, as if the episode went on."""

from __future__ import annotations

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import change_in_run
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, Ragged


class IgnoreTerminations(ColumnPiece):
    """Treats terminations as truncations: values are bootstrapped after them, as if the episode went on."""

    reads = writes = frozenset({Columns.TERMINATEDS, Columns.TRUNCATEDS})
    lookback = 0

    def work(self, run: Run) -> None:
        """Turn the termination flags into truncation flags."""
        ended: list[np.ndarray] = []

        def ignore(column: Ragged, _: EpisodeList) -> Ragged:
            ended.append(column.values)
            return column.map(np.zeros_like)

        change_in_run(run, Columns.TERMINATEDS, ignore)
        flags = iter(ended)
        change_in_run(run, Columns.TRUNCATEDS, lambda column, _: column.with_values(column.values | next(flags)))
