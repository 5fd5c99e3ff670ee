"""Columns split into items, for plugins that process items one by one."""

from __future__ import annotations

from typing import Any

from episodia.connectors.batches.batch_descriptions import describe_column, rows_of
from episodia.connectors.batches.module_outputs import ModuleOutputs, episodes_of_rows, outputs_of_modules, place_of
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run, owner_of
from episodia.errors import BatchError


class UnBatchToIndividualItems(ColumnPiece):
    """Turns columns `[B, ...]` into items by episode, as RLlib's plugins expect them after the piece of this name.

    The default pipelines do not contain it: their pieces work on whole arrays. For a plugin that needs items, put this piece
    before the plugin, and `BatchIndividualItems`, which undoes it, after the plugin. Items have the keys of `add_batch_item`:
    `(episode id,)`, or `(multi-agent episode id, agent id, module id)`.

    >>> import numpy as np
    >>> from episodia import SingleAgentEpisode
    >>> walks = [SingleAgentEpisode("walk"), SingleAgentEpisode("run")]
    >>> UnBatchToIndividualItems()(rl_module=None, batch={"actions": np.array([3, 5])}, episodes=walks)
    {'actions': {('walk',): [np.int64(3)], ('run',): [np.int64(5)]}}
    """

    # Only the form of columns changes, not their values.
    reads = writes = frozenset[str]()
    lookback = 0
    kind = Kind.CAUSAL
    is_stateful = False

    def work(self, run: Run) -> None:
        """Group the items of each column by episode."""
        filed = {}
        for outputs in outputs_of_modules(run):
            owners = episodes_of_rows(outputs.module_id, run.episodes, run.shared_data)
            keys = [owner_of(episode).key for episode in owners]
            filed[outputs.module_id] = {
                column: _filed(outputs, column, data, keys) for column, data in outputs.columns.items()
            }
        run.replace(filed.get(None, filed))


def _filed(outputs: ModuleOutputs, column: str, data: Any, keys: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], Any]:
    items = rows_of(data)
    if len(items) != len(keys):
        raise BatchError(
            f"{place_of(outputs, column)}: found {describe_column(data)}, expected {len(keys)} rows, one for each episode. "
            "Pass the episodes that the env-to-module pipeline was given."
        )
    filed: dict[tuple[Any, ...], Any] = {}
    for key, item in zip(keys, items, strict=True):
        # Two chunks of one episode share a list.
        filed.setdefault(key, []).append(item)
    return filed
