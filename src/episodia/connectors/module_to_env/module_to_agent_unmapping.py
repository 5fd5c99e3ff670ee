"""From modules back to agents."""

from __future__ import annotations

from typing import Any, final

from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.connectors.batches.episodes_of_rows import needed_rows
from episodia.connectors.batches.module_outputs import ModuleOutputs, module_outputs, place_of
from episodia.connectors.batches.row_items import rows_of
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.kinds import Kind
from episodia.episodes.lists.episode_list import Episodes
from episodia.errors import BatchError
from episodia.modules.protocol import Modules

# Where the batch is found as it was before, in the data that both pipelines of a runner share.
MAPPED_BATCH = "_mapped_batch"


@final
class ModuleToAgentUnmapping(ConnectorV2):
    """Turns `{module_id: {column: [B, ...]}}` into `{column: [{agent_id: item}, ...]}`, one dict for each episode.

    That is what multi-agent environments take and multi-agent episodes record. It undoes `AgentToModuleMapping`, which noted
    in `shared_data` to whom each row belongs. As pieces in front of it work on whole arrays, it stands last. Episodes in
    which no agent acts get an empty dict.

    >>> import numpy as np
    >>> shared_data = {"memorized_map_structure": {"shared": [(0, "a"), (0, "b"), (1, "a")]}}
    >>> batch = {"shared": {"actions": np.array([5, 6, 7])}}
    >>> ModuleToAgentUnmapping()(rl_module=None, batch=batch, episodes=[None, None], shared_data=shared_data)
    {'actions': [{'a': np.int64(5), 'b': np.int64(6)}, {'a': np.int64(7)}]}
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
        """Return a new batch with a list for each column."""
        unmapped: Batch = {}
        if shared_data is not None:
            shared_data[MAPPED_BATCH] = batch
        for outputs in module_outputs(batch, rl_module):
            if outputs.module_id is None:
                raise BatchError(
                    f"found the columns {list(batch)} of one module, expected a batch that is sorted by modules, "
                    "`{module: {column: data}}`. Only multi-agent pipelines need this piece: remove it."
                )
            rows = needed_rows(shared_data, outputs.module_id)
            last = max((position for position, _ in rows), default=-1)
            for column, data in outputs.columns.items():
                items = rows_of(data)
                if len(items) != len(rows) or last >= len(episodes):
                    raise _other_rows(outputs, column, len(rows), last, len(episodes))
                dicts = unmapped.setdefault(column, [{} for _ in episodes])
                for (position, agent), item in zip(rows, items, strict=True):
                    dicts[position][agent] = item
        return unmapped


def _other_rows(outputs: ModuleOutputs, column: str, num_rows: int, last: int, num_episodes: int) -> BatchError:
    return BatchError(
        f"{place_of(outputs, column)}: found {describe_column(outputs.columns[column])} and {num_episodes} episodes, expected "
        f"{num_rows} rows, as the module was given, of {last + 1} episodes or more. Let the module return a row for each of "
        "its observations, and pass the episodes that the env-to-module pipeline was given."
    )
