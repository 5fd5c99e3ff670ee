"""What modules put out, module by module.

A batch on its way from a module to the environment is `{column: data}` for one module, and `{module_id: {column: data}}` for
several. Pieces that work on whole columns treat both alike with what is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from episodia.columns import COLUMN_NAMES, Columns
from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.batch_descriptions import describe_batch, describe_column, is_collected
from episodia.connectors.batches.collected_items import as_ragged
from episodia.connectors.batches.module_lookup import module_of
from episodia.connectors.batches.row_items import is_made_of_tensors
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList
from episodia.errors import BatchError
from episodia.modules.protocol import Modules
from episodia.trees import leaves
from episodia.types import Item, ModuleID

# Columns for the module or the environment; all others are results that episodes keep.
NOT_RECORDED = frozenset({Columns.OBS, Columns.STATE_IN, Columns.ACTIONS, Columns.ACTIONS_FOR_ENV})


class ModuleOutputs(NamedTuple):
    """The columns of one module. They are the batch's own: what is written into them is in the batch."""

    module_id: ModuleID  # None in a batch of one module
    columns: Batch
    module: Any


def module_outputs(batch: Batch, rl_module: Modules) -> Iterator[ModuleOutputs]:
    """Yield the columns of each module.

    A batch with a column of `Columns` is that of one module; every other one is sorted by modules.

    Raises:
        BatchError: If the batch is neither.

    >>> [outputs.module_id for outputs in module_outputs({"actions": [1]}, None)]
    [None]
    >>> [outputs.module_id for outputs in module_outputs({"left": {"actions": [1]}, "right": {"actions": [2]}}, None)]
    ['left', 'right']
    """
    if not COLUMN_NAMES.isdisjoint(batch):
        yield ModuleOutputs(None, batch, rl_module)
        return
    for module_id, columns in batch.items():
        if not isinstance(columns, dict):
            raise BatchError(
                f"found a batch of {describe_batch(batch)}, expected what a module puts out, such as {Columns.ACTIONS!r}, or "
                "`{module: {column: data}}` for several. Place this piece into a module-to-env pipeline."
            )
        yield ModuleOutputs(module_id, columns, module_of(rl_module, module_id))


def outputs_of_modules(run: Run) -> list[ModuleOutputs]:
    """Return the columns of each module in the batch of `run`; what is found is kept there, until the batch is replaced."""
    found: list[ModuleOutputs] | None = run.module_outputs
    if found is None:
        found = run.module_outputs = list(module_outputs(run.batch, run.rl_module))
    return found


def needed_column(outputs: ModuleOutputs, column: str, writer: str) -> Any:
    """Return a column that a piece cannot do without; `writer` says where it usually comes from.

    Raises:
        BatchError: If it is not there.
    """
    try:
        return outputs.columns[column]
    except KeyError:
        raise BatchError(
            f"{place_of(outputs, column)}: found no such column, only {list(outputs.columns)}; expected it from {writer}. "
            "Place this piece after it."
        ) from None


def check_arrays(outputs: ModuleOutputs, column: str, actions: Item) -> None:
    """Check that a column is made of NumPy arrays.

    Raises:
        BatchError: If it is made of tensors, or of items one by one.
    """
    if is_made_of_tensors(actions):
        remedy = "Place this piece after `TensorToNumpy`."
    elif all(isinstance(leaf, np.ndarray) and leaf.ndim for _, leaf in leaves(actions)):
        return
    else:
        remedy = "Gather items with `BatchIndividualItems` first, and place `ModuleToAgentUnmapping` last."
    raise BatchError(
        f"{place_of(outputs, column)}: found {describe_column(actions)}, expected NumPy arrays with one row for each agent "
        f"that acts. {remedy}"
    )


def gathered(outputs: ModuleOutputs, column: str, episodes: Any) -> Any:
    """Return a column as arrays, also if a plugin has added it item by item with `add_batch_item`.

    Raises:
        BatchError: If it is made of tensors, or if there is not one item for each agent that acts.
    """
    found = outputs.columns[column]
    if type(found) is np.ndarray and found.ndim:
        return found
    if is_collected(found) or (isinstance(found, list) and found):
        rows = EpisodeList.of(episodes)
        if outputs.module_id is not None:
            rows = rows.groups()[outputs.module_id]
        found = as_ragged(found, rows).body().values
    check_arrays(outputs, column, found)
    return found


def place_of(outputs: ModuleOutputs, column: str) -> str:
    """Return where a column is, for messages."""
    return f"column {column!r}" if outputs.module_id is None else f"module {outputs.module_id!r}, column {column!r}"
