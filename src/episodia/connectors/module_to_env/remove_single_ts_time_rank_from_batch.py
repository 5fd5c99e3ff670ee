"""The time axis of one step, taken away again."""

from __future__ import annotations

from typing import Any, final

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.connectors.batches.module_lookup import is_stateful
from episodia.connectors.batches.module_outputs import ModuleOutputs, module_outputs, place_of
from episodia.connectors.common.add_time_dim_to_batch_and_zero_pad import ADDED_TIME_AXIS
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.kinds import Kind
from episodia.errors import BatchError
from episodia.modules.protocol import Modules
from episodia.trees import leaves, map_batch


@final
class RemoveSingleTsTimeRankFromBatch(ConnectorV2):
    """Takes away the time axis that observations of one step were given for stateful modules: `[B, 1, ...]` to `[B, ...]`.

    Nothing is done unless `shared_data` says that an axis was added; a stateful module without such a note is refused. States
    have no axis and stay as they are; so do the columns of modules without state, where there are several modules.

    >>> import numpy as np
    >>> outputs = {"actions": np.array([[3], [5]]), "state_out": {"h": np.zeros((2, 1))}}
    >>> piece = RemoveSingleTsTimeRankFromBatch()
    >>> batch = piece(rl_module=None, batch=outputs, episodes=[], shared_data={"_added_single_ts_time_rank": True})
    >>> batch["actions"], batch["state_out"]["h"].shape
    (array([3, 5]), (2, 1))
    """

    # Columns get another form, not other values.
    reads = writes = frozenset[str]()
    lookback = 0
    kind = Kind.CAUSAL
    is_stateful = False

    def __call__(
        self, *, rl_module: Modules, batch: Batch, shared_data: dict[Any, Any] | None = None, **kwargs: Any
    ) -> Batch:
        """Return the batch without the time axis.

        Raises:
            BatchError: If nobody has noted whether a stateful module was given a time axis, or if a column has none.
        """
        was_added = (shared_data or {}).get(ADDED_TIME_AXIS)
        if was_added is None and rl_module is not None:
            _check_no_states(batch, rl_module)
        if not was_added:
            return batch
        for outputs in list(module_outputs(batch, rl_module)):
            if outputs.module_id is None or outputs.module is None or outputs.module.is_stateful():
                outputs.columns.update(_without_time(outputs))
        return batch


def _check_no_states(batch: Batch, rl_module: Modules) -> None:
    for outputs in module_outputs(batch, rl_module):
        if is_stateful(outputs.module):
            module = type(outputs.module).__name__ if outputs.module_id is None else repr(outputs.module_id)
            raise BatchError(
                f"module {module}: found no note in `shared_data[{ADDED_TIME_AXIS!r}]` whether its observations were given a "
                "time axis, expected one for a stateful module. Pass one dict as `shared_data=` to both pipelines, a new one "
                "for each step; or remove this piece, if the module is given no time axis."
            )


def _without_time(outputs: ModuleOutputs) -> dict[str, Any]:
    columns = {name: column for name, column in outputs.columns.items() if name != Columns.STATE_OUT}
    for name, column in columns.items():
        _check_single_step(outputs, name, column)
    return {name: map_batch(lambda leaf: leaf[:, 0], column) for name, column in columns.items()}


def _check_single_step(outputs: ModuleOutputs, name: str, column: Any) -> None:
    for path, leaf in leaves(column):
        shape: tuple[int, ...] = getattr(leaf, "shape", ())
        if len(shape) < 2 or shape[1] != 1:
            raise BatchError(
                f"{place_of(outputs, name)}{path}: found {describe_column(leaf)}, expected one step per row, [B, 1, ...], as "
                "the observations have that the module was given. Let the module return its columns with the axes of its "
                "observations."
            )
