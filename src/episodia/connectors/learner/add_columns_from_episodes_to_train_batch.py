"""Actions, rewards, flags, extra model outputs and infos, from the episodes into the batch of a learner."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import add_to_run, rows_of_modules
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.spaces import empty_batch

_STEPS = frozenset({Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS})
_IN_ORDER = sorted(_STEPS)


class AddColumnsFromEpisodesToTrainBatch(ColumnPiece):
    """Adds actions, rewards, both flags, and all extra model outputs but states; existing columns are kept."""

    reads = frozenset[str]()
    lookback = 0

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        skip_columns: Collection[str] = frozenset(),
        name: str | None = None,
    ) -> None:
        """Add all columns but `skip_columns`."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.skip_columns = frozenset(skip_columns)

    @property
    def writes(self) -> frozenset[str]:
        """The columns that every episode has; extra model outputs are known only from the episodes."""
        return _STEPS - self.skip_columns

    @property
    def fills(self) -> frozenset[str]:
        """Columns that are kept if an earlier piece has written them."""
        return self.writes

    def work(self, run: Run) -> None:
        """Add the missing columns."""
        skipped = self.skip_columns | {Columns.STATE_IN, Columns.STATE_OUT}
        parts = rows_of_modules(run)
        held = set[Any]().union(*(columns for _, columns, _ in parts))
        for name in _IN_ORDER:
            if name not in skipped and name not in held:
                for _, columns, rows in parts:
                    columns[name] = rows.flat(name)
                    if name == Columns.ACTIONS and not len(rows) and self.input_action_space is not None:
                        columns[name] = columns[name].with_values(empty_batch(self.input_action_space))
        for _, columns, rows in parts:
            for name in rows.extra_columns():
                # Modules may have different columns.
                if name not in skipped and name not in columns:
                    columns[name] = rows.flat(name)


class AddInfosFromEpisodesToTrainBatch(ColumnPiece):
    """Adds the info dict that came with each step's observation, as objects."""

    reads = frozenset[str]()
    writes = frozenset({Columns.INFOS})
    lookback = 0
    kind = Kind.CAUSAL

    def work(self, run: Run) -> None:
        """Add the infos."""
        add_to_run(run, Columns.INFOS, lambda rows: rows.flat(Columns.INFOS))
