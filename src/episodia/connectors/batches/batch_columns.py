"""Columns of a batch for all episodes at once: how shipped pieces add and change them.

Before `AgentToModuleMapping` a batch is `{column: Ragged}`, or `{column: {module_id: Ragged}}` where episodes belong to
several modules; after it, it is `{module_id: {column: Ragged}}`. Stretch i of a `Ragged` belongs to agent episode i of its
`rows`, the list of the episodes that one module acts for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gymnasium import Space

from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import columns_of, is_collected
from episodia.connectors.batches.collected_items import as_ragged
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError
from episodia.spaces import empty_batch
from episodia.types import Item, ModuleID

Batch = dict[Any, Any]

_USUAL_WRITERS = {
    Columns.OBS: "`AddObservationsFromEpisodesToBatch`",
    Columns.ADVANTAGES: "`GeneralAdvantageEstimation`",
    Columns.VALUE_TARGETS: "`GeneralAdvantageEstimation`",
    Columns.RETURNS_TO_GO: "`ComputeReturnsToGo`",
    **dict.fromkeys(
        (Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS),
        "`AddColumnsFromEpisodesToTrainBatch`",
    ),
}


def add_column(batch: Batch, column: str, episodes: EpisodeList, make: Callable[[EpisodeList], Ragged]) -> None:
    """Write what `make` returns for the episodes of each module under `column`, before or after the mapping."""
    if is_mapped(batch, episodes):
        for module_id, rows in episodes.groups().items():
            batch.setdefault(module_id, {})[column] = make(rows)
    elif episodes.is_grouped:
        batch[column] = {module_id: make(rows) for module_id, rows in episodes.groups().items()}
    else:
        batch[column] = make(episodes)


def place_for(batch: Batch, column: str, module_id: ModuleID, episodes: EpisodeList) -> tuple[Batch, Any]:
    """Return the dict that a column of one module belongs into, and its key there; before or after the mapping."""
    if is_mapped(batch, episodes):
        return batch.setdefault(module_id, {}), column
    return (batch.setdefault(column, {}), module_id) if episodes.is_grouped else (batch, column)


def change_column(
    batch: Batch, column: str, episodes: EpisodeList, change: Callable[[Ragged, EpisodeList], Ragged]
) -> None:
    """Put what `change` makes of `column`, for the episodes of each module, in its place; before or after the mapping.

    Raises:
        BatchError: If no module has the column.
    """
    found = list(_places(batch, column, episodes))
    if not found and episodes.groups():  # otherwise nobody is there who could have it
        raise missing_column(column, batch)
    for holder, key, rows in found:
        holder[key] = change(as_ragged(holder[key], rows), rows)


def missing_column(column: str, batch: Batch) -> BatchError:
    """Return the error to raise if `batch` lacks a column."""
    writer = _USUAL_WRITERS.get(column, "an earlier piece")
    return BatchError(
        f"column {column!r}: found no such column, only {[name for name, _ in columns_of(batch)]}; expected it from {writer}. "
        "Place this piece after the one that writes it."
    )


def change_observations(batch: Batch, episodes: EpisodeList, change: Callable[[Ragged, EpisodeList], Ragged]) -> None:
    """Change the observations in `batch`; they are taken from the episodes if no piece has added them yet.

    So a piece that changes observations may stand at either side of the one that adds them. What is in the episodes stays.
    """
    if not has_column(batch, Columns.OBS):
        add_observations(batch, episodes)
    change_column(batch, Columns.OBS, episodes, change)


def add_observations(batch: Batch, episodes: EpisodeList) -> None:
    """Add the observations of all episodes, as tracks."""
    add_column(batch, Columns.OBS, episodes, lambda rows: rows.flat(Columns.OBS, tail=True))


def shape_empty(batch: Batch, column: str, episodes: EpisodeList, space: Space[Any]) -> None:
    """Give a column without rows the nesting, shapes and dtypes of items of `space`."""
    change_column(batch, column, episodes, lambda ragged, _: ragged.with_values(empty_batch(space)))


def has_column(batch: Batch, column: str) -> bool:
    """Tell whether `column` is in `batch`, before or after the mapping to modules."""
    if column in batch:
        return True
    for part in batch.values():  # noqa: SIM110  # at every step of a runner: a generator would take three times as long
        if isinstance(part, dict) and column in part:
            return True
    return False


def is_mapped(batch: Batch, episodes: EpisodeList) -> bool:
    """Tell whether `batch` is grouped by module: `{module_id: {column: ...}}`."""
    for part in batch.values():
        if not isinstance(part, dict):
            return False
    return bool(batch) and batch.keys() <= episodes.by_module().keys()


def module_batches(batch: Batch, episodes: EpisodeList) -> Iterator[tuple[Any, Batch, EpisodeList]]:
    """Yield each module's id, columns and episodes; a batch that is not grouped by module is that of a single one.

    Raises:
        BatchError: If there are several modules, and the batch is not grouped by them yet.
    """
    if is_mapped(batch, episodes):
        groups = episodes.groups()
        for module_id, columns in batch.items():
            yield module_id, columns, groups[module_id]
    elif not episodes.is_grouped:
        yield next(iter(episodes.by_module())), batch, episodes
    elif batch and episodes.by_module():
        raise BatchError(
            f"found the columns {list(batch)} of the modules {list(episodes.by_module())} together, expected a batch that is "
            "grouped by module. Place this piece after `AgentToModuleMapping`."
        )


def _places(batch: Batch, column: str, episodes: EpisodeList) -> Iterator[tuple[Batch, Any, EpisodeList]]:
    """Yield where `column` is: the dict that holds it, its key there, and the episodes of its rows."""
    if column not in batch:
        groups = episodes.groups()
        for module_id, columns in batch.items():
            if isinstance(columns, dict) and column in columns:
                yield columns, column, groups[module_id]
    elif episodes.is_grouped:
        groups = episodes.groups()
        found = batch[column]
        if not is_by_module(found):
            found = batch[column] = split_by_module(found, episodes)
        for module_id in list(found):
            yield found, module_id, groups[module_id]
    else:
        yield batch, column, episodes


def split_by_module(column: Item, episodes: EpisodeList) -> dict[Any, Ragged]:
    """Return the rows of each module of a column that plugins wrote for all episodes."""
    if is_collected(column):
        return {module_id: as_ragged(column, rows) for module_id, rows in episodes.groups().items()}
    whole = as_ragged(column, episodes)
    return {module_id: whole.select(positions) for module_id, positions in episodes.by_module().items()}


def is_by_module(column: Item) -> bool:
    """Tell whether a column is kept apart by module."""
    return isinstance(column, dict) and all(isinstance(part, Ragged) for part in column.values())
