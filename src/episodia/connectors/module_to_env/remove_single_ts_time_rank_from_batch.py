"""Removal of the time axis of a single step."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.connectors.batches.module_outputs import ModuleOutputs, is_stateful, outputs_of_modules, place_of
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.errors import BatchError
from episodia.trees import leaves, map_batch


class RemoveSingleTsTimeRankFromBatch(ColumnPiece):
    """Removes the time axis of single steps that stateful modules need: `[B, 1, ...]` to `[B, ...]`.

    The piece works only if `shared_data` says that an axis was added; a stateful module without this entry is rejected. States
    have no time axis and are kept, and so are the columns of modules without state.

    >>> import numpy as np
    >>> outputs = {"actions": np.array([[3], [5]]), "state_out": {"h": np.zeros((2, 1))}}
    >>> piece = RemoveSingleTsTimeRankFromBatch()
    >>> batch = piece(rl_module=None, batch=outputs, episodes=[], shared_data={"_added_single_ts_time_rank": True})
    >>> batch["actions"], batch["state_out"]["h"].shape
    (array([3, 5]), (2, 1))
    """

    # Only the form of columns changes, not their values.
    reads = writes = frozenset[str]()
    lookback = 0
    kind = Kind.CAUSAL
    is_stateful = False

    def work(self, run: Run) -> None:
        """Remove the time axis.

        Raises:
            BatchError: If `shared_data` does not say whether a stateful module was given a time axis, or if a column lacks it.
        """
        was_added = (run.shared_data or {}).get(ADDED_TIME_AXIS)
        if was_added is None and run.rl_module is not None:
            _check_no_states(run)
        if not was_added:
            return
        for outputs in outputs_of_modules(run):
            if outputs.module_id is None or outputs.module is None or outputs.module.is_stateful():
                outputs.columns.update(_without_time(outputs))


def _check_no_states(run: Run) -> None:
    for outputs in outputs_of_modules(run):
        if is_stateful(outputs.module):
            module = type(outputs.module).__name__ if outputs.module_id is None else repr(outputs.module_id)
            raise BatchError(
                f"module {module}: found no note in `shared_data[{ADDED_TIME_AXIS!r}]` whether its observations were given a "
                "time axis, expected one for a stateful module. Pass one dict as `shared_data=` to both pipelines, a new one "
                "for each step; or remove this piece, if the module is given no time axis."
            )


def _without_time(outputs: ModuleOutputs) -> dict[str, Any]:
    made = {}
    for name, column in outputs.columns.items():
        if name == Columns.STATE_OUT:
            continue
        if isinstance(column, (np.ndarray, Tensor)) and column.shape[1:2] == (1,):
            made[name] = column[:, 0]
        else:
            _check_single_step(outputs, name, column)
            made[name] = map_batch(lambda leaf: leaf[:, 0], column)
    return made


def _check_single_step(outputs: ModuleOutputs, name: str, column: Any) -> None:
    for path, leaf in leaves(column):
        shape: tuple[int, ...] = getattr(leaf, "shape", ())
        if len(shape) < 2 or shape[1] != 1:
            raise BatchError(
                f"{place_of(outputs, name)}{path}: found {describe_column(leaf)}, expected one step per row, [B, 1, ...], as "
                "the observations have that the module was given. Let the module return its columns with the axes of its "
                "observations."
            )
