"""Drops outputs of modules that nothing reads later, so that runners do not record them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, final

from gymnasium import Space

from episodia.connectors.batches.module_outputs import outputs_of_modules
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run


@final
class DropModuleOutputs(ColumnPiece):
    """Removes columns from the outputs of modules; episodes then do not have them.

    `ColumnReport.prune` adds it with the columns that no piece, view, module or loss reads.
    """

    reads = writes = frozenset[str]()
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        columns: Collection[str] = (),
        name: str | None = None,
    ) -> None:
        """Remove `columns`, as far as they are there."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.columns = tuple(sorted(columns))

    def work(self, run: Run) -> None:
        """Remove the columns of all modules."""
        for outputs in outputs_of_modules(run):
            for name in self.columns:
                outputs.columns.pop(name, None)
