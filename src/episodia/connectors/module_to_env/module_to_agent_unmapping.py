"""The mapping of rows of modules back to agents."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from episodia.connectors.batches.batch_columns import Batch
from episodia.connectors.batches.batch_descriptions import describe_column, rows_of
from episodia.connectors.batches.module_outputs import ModuleOutputs, needed_rows, outputs_of_modules, place_of
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.plan import Layout, Step
from episodia.errors import BatchError

# The rows of a module, by its id, and the last position of an episode in them: mostly those of the step before.
_LastPositions: TypeAlias = dict[Any, tuple[Any, int]]
_NO_ROWS = (object(), -1)
# Key in `shared_data` for the batch before this piece.
MAPPED_BATCH = "_mapped_batch"


class ModuleToAgentUnmapping(ColumnPiece):
    """Turns `{module_id: {column: [B, ...]}}` into `{column: [{agent_id: item}, ...]}`, one dict for each episode.

    Multi-agent environments take this form, and multi-agent episodes record it. It undoes `AgentToModuleMapping`, which stored
    the owner of each row in `shared_data`. Place it last, because earlier pieces work on whole arrays. Episodes in
    which no agent acts get an empty dict.

    >>> import numpy as np
    >>> shared_data = {"memorized_map_structure": {"shared": [(0, "a"), (0, "b"), (1, "a")]}}
    >>> batch = {"shared": {"actions": np.array([5, 6, 7])}}
    >>> ModuleToAgentUnmapping()(rl_module=None, batch=batch, episodes=[None, None], shared_data=shared_data)
    {'actions': [{'a': np.int64(5), 'b': np.int64(6)}, {'a': np.int64(7)}]}
    """

    # Only the form of columns changes, not their values.
    reads = writes = frozenset[str]()
    lookback = 0
    kind = Kind.CAUSAL
    is_stateful = False

    def compile(self, layout: Layout) -> Step:
        """Return `work`; as the last step, a form that turns only the columns that the run needs by agents."""
        return partial(self._work_at_the_end, {}) if layout.is_last else self.work

    def _work_at_the_end(self, known: _LastPositions, run: Run) -> None:
        mapped = run.batch
        self._unmap(run, run.needed_by_agents, known)
        if run.needed_by_agents is not None:
            run.left_by_modules = mapped

    def work(self, run: Run) -> None:
        """Turn each column into a list."""
        self._unmap(run, None, {})

    def _unmap(self, run: Run, wanted: Collection[str] | None, known: _LastPositions) -> None:
        unmapped: Batch = {}
        if run.shared_data is not None:
            run.shared_data[MAPPED_BATCH] = run.batch
        count = len(run.episodes)
        for outputs in outputs_of_modules(run):
            if outputs.module_id is None:
                raise BatchError(
                    f"found the columns {list(run.batch)} of one module, expected a batch that is grouped by module, "
                    "`{module: {column: data}}`. Only multi-agent pipelines need this piece: remove it."
                )
            rows = needed_rows(run.shared_data, outputs.module_id)
            same, last = known.get(outputs.module_id, _NO_ROWS)
            if same is not rows:
                last = max([position for position, _ in rows], default=-1)
                known[outputs.module_id] = rows, last
            for column, data in outputs.columns.items():
                is_array = type(data) is np.ndarray
                if wanted is not None and column not in wanted and is_array and len(data) == len(rows):
                    continue
                items = list(data) if is_array else rows_of(data)
                if len(items) != len(rows) or last >= count:
                    raise _other_rows(outputs, column, len(rows), last, count)
                dicts = unmapped.get(column)
                if dicts is None:
                    dicts = unmapped[column] = [{} for _ in range(count)]
                for (position, agent), item in zip(rows, items, strict=True):
                    dicts[position][agent] = item
        run.replace(unmapped)


def _other_rows(outputs: ModuleOutputs, column: str, num_rows: int, last: int, num_episodes: int) -> BatchError:
    return BatchError(
        f"{place_of(outputs, column)}: found {describe_column(outputs.columns[column])} and {num_episodes} episodes, expected "
        f"{num_rows} rows, as the module was given, of {last + 1} episodes or more. Let the module return a row for each of "
        "its observations, and pass the episodes that the env-to-module pipeline was given."
    )
