"""The check at the end of a learner pipeline: all columns of a module have the same number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import is_mapped
from episodia.connectors.batches.batch_descriptions import is_tensor
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.piece_lookup import leaves as leaves_of
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError
from episodia.trees import flat

if TYPE_CHECKING:
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


def check_row_counts(pipeline: ConnectorPipelineV2, run: Run) -> None:
    """Check the batch that `pipeline` made in `run`, where it is grouped by module or has rows of episodes outside of the list.

    Raises:
        BatchError: If columns of one module have different numbers of rows; the message names the pieces that write them.
    """
    for where, columns in _of_modules(run):
        # Padded sequences have other rows than steps; their columns were compared before padding.
        if Columns.SEQ_LENS in columns:
            continue
        counts = {name: count for name, column in columns.items() if (count := _num_rows(column)) is not None}
        if len(set(counts.values())) > 1:
            found = "; ".join(f"{name!r}: {count}, {_written_by(pipeline, name)}" for name, count in counts.items())
            raise BatchError(
                f"{type(pipeline).__name__}{where}: found columns with different numbers of rows ({found}); expected as many "
                "rows in all of them. Let the piece that adds rows, such as those of mirrored episodes, add them to every "
                "column; or let it add the episodes to the list, see `changes_episodes`."
            )


def _of_modules(run: Run) -> Iterator[tuple[str, Mapping[str, Any]]]:
    # Modules that no listed episode is of may have rows of others, so a grouped batch is also known by its columns.
    listed = EpisodeList() if run.episodes is None else EpisodeList.of(run.episodes)
    is_grouped = is_mapped(run.batch, listed) or is_mapped(run.batch, EpisodeList())
    if is_grouped:
        yield from ((f", module {module_id!r}", columns) for module_id, columns in run.batch.items())
    elif run.has_other_rows:
        yield "", run.batch


def _num_rows(column: Any) -> int | None:
    """Return the number of rows of arrays, tensors or stretches; None for a column of another form."""
    if type(column) is Ragged:
        return column.num_steps if column.every == 1 else None
    count = None
    for leaf in flat(column):
        if not (isinstance(leaf, np.ndarray) or is_tensor(leaf)):
            return None
        if count is None and leaf.ndim:
            count = leaf.shape[0]  # of a tensor, faster than `len`
    return count


def _written_by(pipeline: ConnectorPipelineV2, column: str) -> str:
    """Return the names of the pieces that declare to write `column`, or else of those that declare nothing."""
    pieces = [place.piece for place in leaves_of(pipeline)]
    declared = [piece.name for piece in pieces if column in (piece.writes or ())]
    if declared:
        return "by " + " or ".join(map(repr, declared))
    silent = [piece.name for piece in pieces if piece.writes is None]
    return "declared by no piece" + (f", perhaps by {' or '.join(map(repr, silent))}" if silent else "")
