"""Adds the info dict that came with each step's observation, as objects."""

from __future__ import annotations

from typing import final

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import add_to_run
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run


@final
class AddInfosFromEpisodesToTrainBatch(ColumnPiece):
    """Adds the info dict that came with each step's observation, as objects."""

    reads = frozenset[str]()
    writes = frozenset({Columns.INFOS})
    lookback = 0
    kind = Kind.CAUSAL

    def work(self, run: Run) -> None:
        """Add the infos."""
        add_to_run(run, Columns.INFOS, lambda rows: rows.flat(Columns.INFOS))
