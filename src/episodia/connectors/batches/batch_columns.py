"""Functions that add and change columns of a batch for all episodes at once.

Before `AgentToModuleMapping` a batch is `{column: Ragged}`, or `{column: {module_id: Ragged}}` where episodes belong to
several modules; after it, it is `{module_id: {column: Ragged}}`. Stretch i of a `Ragged` belongs to agent episode i of its
`rows`, the list of the episodes that one module acts for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple, final

from episodia.columns import COLUMN_NAMES, Columns
from episodia.connectors.batches.batch_arguments import (
    check_batch,
    check_column_name,
    check_function,
    checked_stretches,
)
from episodia.connectors.batches.batch_descriptions import columns_of, is_collected
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.other_episodes import check_modules, of_acting_agents, of_module, other_keys
from episodia.connectors.pipelines.current_run import Run
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError
from episodia.types import Item

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


class ModuleRows(NamedTuple):
    """The columns of one module, and the episodes that their rows belong to. Writing into the columns changes the batch."""

    module_id: Any
    columns: Any  # a dict, or an object with its methods
    rows: EpisodeList


def rows_of_modules(run: Run) -> list[ModuleRows]:
    """Return the columns and episodes of each module, before or after the mapping; with one module, only its own.

    The result is kept in `run` until its batch is replaced.
    """
    found: list[ModuleRows] | None = run.module_rows
    if found is None:
        found = run.module_rows = _found_rows(run.batch, EpisodeList.of(run.episodes))
    return found


def _found_rows(batch: Batch, episodes: EpisodeList) -> list[ModuleRows]:
    if is_mapped(batch, episodes):
        groups = episodes.groups()
        return [
            ModuleRows(module_id, columns, groups[module_id] if module_id in groups else EpisodeList())
            for module_id, columns in batch.items()
        ]
    if not episodes.is_grouped:
        return [ModuleRows(next(iter(episodes.by_module())), batch, episodes)]
    return [
        ModuleRows(module_id, _ColumnsOfModule(batch, module_id, rows, episodes), rows)
        for module_id, rows in episodes.groups().items()
    ]


def mapped_rows(run: Run) -> list[ModuleRows]:
    """Return the columns and episodes of each module after the mapping.

    Raises:
        BatchError: If there are several modules and the batch is not grouped by module yet.
    """
    found = rows_of_modules(run)
    if found and not isinstance(found[0].columns, dict):
        if not run.batch:
            return []
        raise BatchError(
            f"found the columns {list(run.batch)} of the modules {[part.module_id for part in found]} together, expected a "
            "batch that is grouped by module. Place this piece after `AgentToModuleMapping`."
        )
    return found


def add_to_run(run: Run, column: str, make: Callable[[EpisodeList], Ragged]) -> None:
    """Write the result of `make` for the episodes of each module under `column`, before or after the mapping."""
    parts = rows_of_modules(run)
    for _, columns, rows in parts:
        columns[column] = make(rows)
    if not parts:  # no agent acts, so there are no modules
        run.batch[column] = {}


def change_in_run(run: Run, column: str, change: Callable[[Ragged, EpisodeList], Ragged]) -> None:
    """Replace `column` by the result of `change` for the episodes of each module, before or after the mapping.

    Raises:
        BatchError: If no module has the column.
    """
    parts = rows_of_modules(run)
    found = [part for part in parts if column in part.columns]
    if parts and not found:
        raise missing_column(column, run.batch)
    for _, columns, rows in found:
        columns[column] = change(as_ragged(columns[column], rows), rows)


def add_column(batch: Batch, column: str, episodes: EpisodeList, make: Callable[[EpisodeList], Ragged]) -> None:
    """Write the result of `make` for the episodes of each module under `column`, before or after the mapping.

    Raises:
        BatchError: If an argument is of another kind, or if `make` does not return one stretch for each episode.
    """
    check_column_name("add_column", column)
    check_function("add_column", "make", make)
    add_to_run(
        _run_on("add_column", batch, episodes),
        column,
        lambda rows: checked_stretches("add_column", "make", make(rows), len(rows.agent_episodes)),
    )


def change_column(
    batch: Batch, column: str, episodes: EpisodeList, change: Callable[[Ragged, EpisodeList], Ragged]
) -> None:
    """Replace `column` by the result of `change` for the episodes of each module, before or after the mapping.

    Raises:
        BatchError: If no module has the column, if an argument is of another kind, or if `change` does not return one stretch
            for each episode.
    """
    check_column_name("change_column", column)
    check_function("change_column", "change", change)
    change_in_run(
        _run_on("change_column", batch, episodes),
        column,
        lambda found, rows: checked_stretches("change_column", "change", change(found, rows), len(found)),
    )


def change_observations(batch: Batch, episodes: EpisodeList, change: Callable[[Ragged, EpisodeList], Ragged]) -> None:
    """Change the observations in `batch`; they are taken from the episodes if no piece has added them yet.

    So a piece that changes observations may come before or after the piece that adds them. The episodes are not changed.
    """
    check_batch("change_observations", batch)
    check_function("change_observations", "change", change)
    if not has_column(batch, Columns.OBS):
        add_observations(batch, episodes)
    change_column(batch, Columns.OBS, episodes, change)


def add_observations(batch: Batch, episodes: EpisodeList) -> None:
    """Add the observations of all episodes, as tracks."""
    add_column(batch, Columns.OBS, episodes, lambda rows: rows.flat(Columns.OBS, tail=True))


def module_batches(batch: Batch, episodes: EpisodeList) -> list[ModuleRows]:
    """Return each module's id, columns and episodes; a batch that is not grouped by module belongs to a single module.

    Raises:
        BatchError: If there are several modules and the batch is not grouped by module yet.
    """
    return mapped_rows(_run_on("module_batches", batch, episodes))


def _run_on(where: str, batch: Batch, episodes: EpisodeList) -> Run:
    check_batch(where, batch)
    return Run(batch, episodes, None, None, None, None, {})


def missing_column(column: str, batch: Batch) -> BatchError:
    """Return the error to raise if `batch` lacks a column."""
    writer = _USUAL_WRITERS.get(column, "an earlier piece")
    return BatchError(
        f"column {column!r}: found no such column, only {[name for name, _ in columns_of(batch)]}; expected it from {writer}. "
        "Place this piece after the one that writes it."
    )


def has_column(batch: Batch, column: str) -> bool:
    """Return whether `column` is in `batch`, before or after the mapping to modules."""
    if column in batch:
        return True
    for part in batch.values():  # noqa: SIM110  # runs at every step of a runner; a generator is three times slower
        if isinstance(part, dict) and column in part:
            return True
    return False


def is_mapped(batch: Batch, episodes: EpisodeList) -> bool:
    """Return whether `batch` is grouped by module: `{module_id: {column: ...}}`."""
    for part in batch.values():
        if not isinstance(part, dict):
            return False
    if len(episodes):
        return bool(batch) and batch.keys() <= episodes.by_module().keys()
    # Without episodes there are no modules to compare with: a batch made by hand, or one without rows.
    return bool(batch) and all(
        key not in COLUMN_NAMES and not COLUMN_NAMES.isdisjoint(part) for key, part in batch.items()
    )


@final
class _ColumnsOfModule(MutableMapping[Any, Any]):
    """The columns of one module in a batch `{column: {module_id: Ragged}}`, or in columns for the episodes of all modules."""

    __slots__ = ("_batch", "_episodes", "_module_id", "_rows")

    def __init__(self, batch: Batch, module_id: Any, rows: EpisodeList, episodes: EpisodeList) -> None:
        self._batch = batch
        self._module_id = module_id
        self._rows = rows
        self._episodes = episodes

    def __contains__(self, name: object) -> bool:
        column = self._batch.get(name)
        return column is not None and (not is_by_module(column) or self._module_id in column)

    def __getitem__(self, name: Any) -> Any:
        column = self._batch[name]
        if is_by_module(column):
            return column[self._module_id]
        if is_collected(column):
            acting = of_acting_agents(column, self._episodes)
            return as_ragged(of_module(acting, self._module_id, self._rows), self._rows)
        return as_ragged(column, self._episodes).select(self._episodes.by_module()[self._module_id])

    def __setitem__(self, name: Any, column: Any) -> None:
        held = self._batch.get(name)
        if held is None:
            held = self._batch[name] = {}
        elif not is_by_module(held):
            held = self._batch[name] = split_by_module(held, self._episodes)
        held[self._module_id] = column

    def __delitem__(self, name: Any) -> None:
        del self._batch[name][self._module_id]

    def __iter__(self) -> Iterator[Any]:
        return (name for name in self._batch if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def split_by_module(column: Item, episodes: EpisodeList) -> dict[Any, Any]:
    """Return the rows of each module of a column that plugins wrote for all episodes.

    They are `Ragged`, or stay items by episode where some belong to episodes outside of the list. At the present moment, items
    of agents that do not act are left out.
    """
    if is_collected(column):
        column = of_acting_agents(column, episodes)
        check_modules(column, episodes)
        found = {}
        for module_id, rows in episodes.groups().items():
            own = of_module(column, module_id, rows)
            found[module_id] = own if other_keys(own, rows) and not rows.is_current else as_ragged(own, rows)
        return found
    whole = as_ragged(column, episodes)
    return {module_id: whole.select(positions) for module_id, positions in episodes.by_module().items()}


def is_by_module(column: Item) -> bool:
    """Return whether a column is split by module."""
    return isinstance(column, dict) and all(isinstance(part, Ragged) for part in column.values())
