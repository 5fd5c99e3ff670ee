"""Columns taken apart into items, for plugins that want to go through them one by one."""

from __future__ import annotations

from typing import Any, final

from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.connectors.batches.episodes_of_rows import episodes_of_rows
from episodia.connectors.batches.module_outputs import ModuleOutputs, module_outputs, place_of
from episodia.connectors.batches.row_items import rows_of
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.current_run import owner_of
from episodia.episodes.lists.episode_list import Episodes
from episodia.errors import BatchError
from episodia.modules.protocol import Modules


@final
class UnBatchToIndividualItems(ConnectorV2):
    """Turns columns `[B, ...]` into items by episode, as RLlib's plugins expect them after the piece of this name.

    The default pipelines have no such piece: all of theirs work on whole arrays. For a plugin that wants items, put this one
    in front of it, and `BatchIndividualItems`, which undoes it, behind it. Items are filed as `add_batch_item` does it: under
    `(episode id,)`, or `(multi-agent episode id, agent id, module id)`.

    >>> import numpy as np
    >>> from episodia import SingleAgentEpisode
    >>> walks = [SingleAgentEpisode("walk"), SingleAgentEpisode("run")]
    >>> UnBatchToIndividualItems()(rl_module=None, batch={"actions": np.array([3, 5])}, episodes=walks)
    {'actions': {('walk',): [np.int64(3)], ('run',): [np.int64(5)]}}
    """

    # Columns get another form, not other values.
    reads = writes = frozenset[str]()
    lookback = 0
    kind = Kind.CAUSAL
    is_stateful = False

    def __call__(
        self,
        *,
        rl_module: Modules,
        batch: Batch,
        episodes: Episodes,
        shared_data: dict[Any, Any] | None = None,
        **kwargs: Any,
    ) -> Batch:
        """Return a batch with items by episode in each column."""
        filed = {}
        for outputs in module_outputs(batch, rl_module):
            keys = [owner_of(episode).key for episode in episodes_of_rows(outputs.module_id, episodes, shared_data)]
            filed[outputs.module_id] = {
                column: _filed(outputs, column, data, keys) for column, data in outputs.columns.items()
            }
        return filed.get(None, filed)


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
