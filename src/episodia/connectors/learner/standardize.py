"""Gives a column mean 0 and standard deviation 1 over all steps of a module that count for the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space

from episodia import returns
from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import mapped_rows
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.joint_batches import JOINT_BATCH
from episodia.connectors.batches.module_outputs import learns
from episodia.connectors.kinds import Kind
from episodia.connectors.learner.value_estimates import flat_column, made_column
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes.lists.ragged import Ragged
from episodia.types import ModuleID


class Standardize(ColumnPiece):
    """Gives a column mean 0 and standard deviation 1 over all steps of a module that count for the loss.

    Modules of a container that do not learn, such as rules, need not have the column.
    """

    lookback = 0
    kind = Kind.BATCH_WIDE

    def __init__(
        self,
        input_observation_space: Space[Any] | None = None,
        input_action_space: Space[Any] | None = None,
        *,
        column: str = Columns.ADVANTAGES,
        name: str | None = None,
    ) -> None:
        """Standardise `column`."""
        super().__init__(input_observation_space, input_action_space, name=name)
        self.column = column

    @property
    def reads(self) -> frozenset[str]:
        """The column that is standardised."""
        return frozenset({self.column})

    @property
    def writes(self) -> frozenset[str]:
        """The column that is standardised."""
        return frozenset({self.column})

    def work(self, run: Run) -> None:
        """Standardise the column of every module that learns."""
        found = {}
        for module_id, columns, rows in mapped_rows(run):
            if self.column not in columns and not learns(run.rl_module, module_id):
                continue
            column = flat_column(columns, self.column, rows)
            mask = columns.get(Columns.LOSS_MASK)
            counted = None if mask is None else as_ragged(mask, rows).body().values
            found[module_id] = columns, rows, column, counted
        moments = self._moments({key: (column, counted) for key, (_, _, column, counted) in found.items()})
        for module_id, (columns, rows, column, counted) in found.items():
            standardized = returns.standardized(column.values, counted, moments=moments.get(module_id))
            columns[self.column] = made_column(
                self.name, f"standardized {self.column}", standardized, {self.column: column}, rows
            )

    def _moments(self, own: Mapping[ModuleID, tuple[Ragged, Any]]) -> dict[ModuleID, returns.ScalarMoments]:
        """Return the moments of the column by module, if these rows are a part of the batch."""
        joint = JOINT_BATCH.get()
        if joint is None:
            return {}
        said = joint.said_by_all(
            self.name, {key: _moments_of(column, counted) for key, (column, counted) in own.items()}
        )
        return {key: returns.ScalarMoments.joined([part[key] for part in said if key in part]) for key in own}


def _moments_of(column: Ragged, counted: Any) -> returns.ScalarMoments:
    values = np.asarray(column.values, np.float64)
    return returns.ScalarMoments.of(values if counted is None else values[np.asarray(counted) != 0])
