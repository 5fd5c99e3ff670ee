"""Changes of the items of columns one by one, for every form of column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from episodia.connectors.batches.batch_arguments import check_batch, check_column_name, check_function
from episodia.connectors.batches.batch_descriptions import (
    describe_column,
    is_collected,
    is_nested_batch,
    is_tensor,
    rows_of,
    stacked,
)
from episodia.connectors.pipelines.current_run import Owner, current_run, mark, owners_of_stretches
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError
from episodia.types import ModuleID

# Takes an item (or a tuple of items), an episode id, an agent id and a module id; returns the new item.
ItemFunction = Callable[[Any, Any, Any, Any], Any]
_WHERE = "foreach_batch_item_change_in_place"


class _Items(NamedTuple):
    """The items of one column, grouped by owner, and the way to rebuild the column from changed groups."""

    owners: list[Owner]
    groups: list[list[Any]]
    joined: Callable[[list[list[Any]]], Any]


def foreach_batch_item_change_in_place(batch: dict[str, Any], column: str | Sequence[str], func: ItemFunction) -> None:
    """Replace each item of `column` by `func(item, eps_id, agent_id, module_id)`.

    In whole stretches (`Ragged`), all rows are items, the row after the last step included. The column stays a `Ragged`,
    perhaps of another shape and dtype. Where columns are split by module, or the batch is grouped by module, the items of
    all modules are changed. If `func` raises, the batch is unchanged.

    Args:
        batch: The batch, changed in place.
        column: A column, or several: `func` then takes and returns a tuple with an item of each. If only some of them have
            rows after the last step, those rows are dropped, because the others have no matching item.
        func: The function that returns the new item. Unknown ids are None.

    Raises:
        BatchError: If a column is missing, or if several columns do not have the same items.

    >>> batch = {"speed": {("walk",): [1, 2], ("run",): [30]}}
    >>> foreach_batch_item_change_in_place(batch, "speed", lambda item, eps_id, *ids: item / 10 if eps_id == "run" else item)
    >>> batch
    {'speed': {('walk',): [1, 2], ('run',): [3.0]}}
    """
    check_batch(_WHERE, batch)
    check_function(_WHERE, "func", func)
    names: list[Any] = list(column) if isinstance(column, (list, tuple)) and column else [column]
    for name in names:
        check_column_name(_WHERE, name)
    try:
        # All new columns are made before any is stored.
        changes = [_change(part, names, func, isinstance(column, str)) for part in _parts(batch, names)]
    except Exception as error:
        mark(error, ", ".join(names), None)
        raise
    for part, (given, results) in zip(_parts(batch, names), changes, strict=True):
        for name, old, new in zip(names, given.values(), results, strict=True):
            _store(*part.places[name], old, new)


class _Part(NamedTuple):
    """The columns of one module (None if there is only one), each with the dict that holds it and its key there."""

    module_id: ModuleID
    places: dict[str, tuple[dict[Any, Any], Any]]
    known: list[str]  # the existing columns


def _parts(batch: dict[str, Any], names: list[str]) -> list[_Part]:
    first = batch.get(names[0])
    if isinstance(first, dict) and first and all(isinstance(part, Ragged) for part in first.values()):
        kept_apart = [name for name in names if isinstance(batch.get(name), dict)]
        return [_Part(module, {name: (batch[name], module) for name in kept_apart}, list(batch)) for module in first]
    modules = [key for key, part in batch.items() if isinstance(part, dict) and names[0] in part]
    if first is None and modules:
        return [
            _Part(module, {name: (batch[module], name) for name in names}, list(batch[module])) for module in modules
        ]
    return [_Part(None, {name: (batch, name) for name in names}, list(batch))]


def _change(part: _Part, names: list[str], func: ItemFunction, is_single: bool) -> tuple[dict[str, Any], list[Any]]:
    """Return the columns of one module, and the columns that replace them."""
    given = _given_columns(part, names)
    items = [_items(name, col, part.module_id) for name, col in given.items()]
    _check_same_items(given, items)
    changed = _changed(names, items, func, is_single)
    results = [
        old.joined([[row[position] for row in group] for group in changed]) for position, old in enumerate(items)
    ]
    return given, results


def _given_columns(part: _Part, names: list[str]) -> dict[str, Any]:
    """Return the columns of these names, their episodes in one order, and with tails either all or none of them."""
    found: dict[str, Any] = {name: holder.get(key) for name, (holder, key) in part.places.items()}
    for name in names:
        if found.get(name) is None:
            raise BatchError(
                f"found no column {name!r} in the batch, expected one of {part.known}. Place this piece after the one that "
                "writes the column."
            )
    given = {name: found[name] for name in names}
    first = given[names[0]]
    if is_collected(first):
        # Items by episode are paired by their ids, in any order of the episodes.
        return {
            name: {key: col[key] for key in first} if is_collected(col) and col.keys() == first.keys() else col
            for name, col in given.items()
        }
    if len({column.tail for column in given.values() if isinstance(column, Ragged)}) > 1:
        return {name: col.body() if isinstance(col, Ragged) else col for name, col in given.items()}
    return given


def _store(holder: dict[Any, Any], key: Any, old: Any, new: Any) -> None:
    """Replace the old items by the new ones; lists are changed in place, because other code may hold them."""
    if isinstance(old, list):
        old[:] = new
    elif is_collected(old):
        for owner, items in new.items():
            old[owner][:] = items
    else:
        holder[key] = new


def _changed(names: list[str], items: list[_Items], func: ItemFunction, is_single: bool) -> list[list[tuple[Any, ...]]]:
    """Return the results of `func`, a tuple for each item, in the groups of the first column."""
    changed = []
    for owner, *groups in zip(items[0].owners, *(each.groups for each in items), strict=True):
        results = []
        for row in zip(*groups, strict=True):
            try:
                result = func(row[0] if is_single else row, *owner)
                results.append((result,) if is_single else _as_row(result, names))
            except Exception as error:
                mark(error, ", ".join(names), owner.eps_id)
                raise
        changed.append(results)
    return changed


def _as_row(result: Any, names: list[str]) -> tuple[Any, ...]:
    if not isinstance(result, (tuple, list)) or len(result) != len(names):
        raise BatchError(
            f"found {describe_column(result)} as the result of the function, expected a tuple of {len(names)} items, one for "
            f"each of the columns {names}. Return a changed item for each."
        )
    return tuple(result)


def _items(name: str, column: Any, module_id: ModuleID) -> _Items:
    if isinstance(column, Ragged):
        return _items_of_stretches(column, module_id)
    if isinstance(column, list):
        return _Items([Owner()], [column], lambda groups: groups[0])
    if is_collected(column) or (isinstance(column, dict) and not column):
        keys = list(column)
        return _Items(
            [Owner(*key) for key in keys], list(column.values()), lambda groups: dict(zip(keys, groups, strict=True))
        )
    if isinstance(column, np.ndarray) or is_tensor(column) or is_nested_batch(column):
        return _items_of_rows(column, module_id)
    raise BatchError(
        f"column {name!r}: found {describe_column(column)}, expected items: a list, items by episode, whole stretches of "
        "episodes, or arrays. In a batch that is grouped by module, name a column, not a module."
    )


def _items_of_stretches(column: Ragged, module_id: ModuleID) -> _Items:
    rows, bounds = rows_of(column.values), column.offsets.tolist()
    groups = [rows[start:stop] for start, stop in pairwise(bounds)]

    def joined(changed: list[list[Any]]) -> Ragged:
        flat = [item for group in changed for item in group]
        return column.with_values(stacked(flat)) if flat else column

    return _Items(owners_of_stretches(len(column), module_id), groups, joined)


def _items_of_rows(column: Any, module_id: ModuleID) -> _Items:
    """Each row of an array is a group of its own: at the present moment, there is one row for each episode."""
    run, rows = current_run(), rows_of(column)
    is_current = run is not None and run.episodes is not None and run.episodes.is_current
    owners = owners_of_stretches(len(rows), module_id) if is_current else [Owner()] * len(rows)

    def joined(changed: list[list[Any]]) -> Any:
        return stacked([item for group in changed for item in group]) if changed else column

    return _Items(owners, [[item] for item in rows], joined)


def _check_same_items(given: dict[str, Any], items: list[_Items]) -> None:
    names, columns = list(given), list(given.values())
    sizes = [len(group) for group in items[0].groups]
    for name, column, other in zip(names[1:], columns[1:], items[1:], strict=True):
        if other.owners != items[0].owners or [len(group) for group in other.groups] != sizes:
            raise BatchError(
                f"columns {names[0]!r} and {name!r}: found {describe_column(columns[0])} and {describe_column(column)}, "
                "expected the same episodes with as many items in both. Change the columns one at a time."
            )
