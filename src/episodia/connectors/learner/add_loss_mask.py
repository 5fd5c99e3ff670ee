"""Adds a mask of the steps that count for the loss: all of them, until later pieces (padding, burn-in) exclude some."""

from __future__ import annotations

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import add_to_run
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, Ragged


class AddLossMask(ColumnPiece):
    """Adds a mask of the steps that count for the loss: all of them, until later pieces (padding, burn-in) exclude some."""

    reads = frozenset[str]()
    writes = frozenset({Columns.LOSS_MASK})
    lookback = 0

    def work(self, run: Run) -> None:
        """Add the mask."""

        def all_count(rows: EpisodeList) -> Ragged:
            return rows.flat(Columns.T).map(lambda times: np.ones(len(times), np.bool_))

        add_to_run(run, Columns.LOSS_MASK, all_count)
