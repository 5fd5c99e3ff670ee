"""Batches as items by episode, `{column: {(episode id, ...): [items]}}`, as RLlib's pieces get them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors.batches.batch_columns import Batch, is_by_module, is_mapped
from episodia.connectors.batches.batch_descriptions import describe_column, is_collected, rows_of
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.pipelines.current_run import Run, owner_of
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError
from episodia.trees import leaves

# Items by the key of their episode: `(id,)`, or `(id of the multi-agent episode, agent id, module id)`.
Collected = dict[tuple[Any, ...], list[Any]]


def with_items(run: Run, *, follows_module: bool) -> Batch:
    """Return the batch of `run` with items by episode.

    Columns of whole stretches become lists of items by episode, with the item after the last step if they are tracks. The
    arrays of a module-to-env pipeline become lists of one item, and modules are no longer apart. What is batched for a
    module already (arrays of an env-to-module or learner pipeline, tensors) stays as it is, as in RLlib.

    Args:
        run: The run; its batch is not changed.
        follows_module: Whether the batch holds outputs of a module.
    """
    batch, episodes = run.batch, EpisodeList.of(run.episodes)
    if not is_mapped(batch, episodes):
        return {name: _items_of(column, episodes, follows_module=follows_module) for name, column in batch.items()}
    if not follows_module:
        return dict(batch)
    together: Batch = {}
    for module_id, columns in batch.items():
        for name, column in columns.items():
            items = _items_of(column, episodes.groups()[module_id], follows_module=True)
            if not is_collected(items):
                return dict(batch)
            together.setdefault(name, {}).update(items)
    return together


def _items_of(column: Any, rows: EpisodeList, *, follows_module: bool) -> Any:
    if isinstance(column, Ragged):
        items = rows_of(column.values)
        return _by_key(rows, [items[start:stop] for start, stop in pairwise(column.offsets.tolist())])
    if is_by_module(column) and column:
        groups = rows.groups()
        parts = [
            _items_of(part, groups[module_id], follows_module=follows_module) for module_id, part in column.items()
        ]
        return {key: items for part in parts for key, items in part.items()}
    if follows_module and not is_collected(column) and _is_made_of_arrays(column):
        items = rows_of(column)
        if len(items) == len(rows.agent_episodes):
            return _by_key(rows, [[item] for item in items])
    return column


def _is_made_of_arrays(column: Any) -> bool:
    return not isinstance(column, list) and all(
        isinstance(leaf, np.ndarray) and leaf.ndim for _, leaf in leaves(column)
    )


def _by_key(rows: EpisodeList, stretches: list[list[Any]]) -> Collected:
    filed: Collected = {}
    for episode, items in zip(rows.agent_episodes, stretches, strict=True):
        # Two chunks of one episode share a list.
        filed.setdefault(owner_of(episode).key, []).extend(items)
    return filed


def without_items(made: Batch, run: Run, *, follows_module: bool) -> Batch:
    """Return the batch `made` of a piece that got the batch `with_items(run)`, in the form of the batch of `run`.

    Raises:
        BatchError: If the items of a column do not fit the episodes.
    """
    given, episodes = run.batch, EpisodeList.of(run.episodes)
    if not is_mapped(given, episodes):
        return {
            name: _gathered(column, episodes, follows_module=follows_module, was=given.get(name))
            for name, column in made.items()
        }
    if not follows_module or is_mapped(made, episodes):
        return made
    apart: Batch = {module_id: {} for module_id in given}
    for name, column in made.items():
        if not is_collected(column):
            raise BatchError(
                f"column {name!r}: found {describe_column(column)}, expected items by agent, "
                "`{(episode id, agent id, module id): [item]}`. Write the column with `add_batch_item`."
            )
        for module_id, part in _by_module(column).items():
            rows = episodes.groups()[module_id]
            apart[module_id][name] = _gathered(part, rows, follows_module=True, was=given[module_id].get(name))
    return apart


def _steps(column: Any) -> Any:
    """Return a column, or its parts by module, without the items after the last steps."""
    if isinstance(column, Ragged):
        return column.body()
    return column if is_collected(column) else {module_id: part.body() for module_id, part in column.items()}


def _by_module(column: Collected) -> dict[Any, Collected]:
    parts: dict[Any, Collected] = {}
    for key, items in column.items():
        parts.setdefault(DEFAULT_MODULE_ID if key[-1] is None else key[-1], {})[key] = items
    return parts


def _gathered(column: Any, rows: EpisodeList, *, follows_module: bool, was: Any) -> Any:
    if not is_collected(column):
        return column
    if follows_module:
        return as_ragged(column, rows).body().values
    known = {owner_of(episode).key for episode in rows.agent_episodes}
    if column.keys() > known:
        # A learner's piece may add items of other episodes, which stay apart: rows of steps, beside those of the listed ones.
        listed = _gathered({key: column[key] for key in known}, rows, follows_module=False, was=was)
        return {**column, **_items_of(_steps(listed), rows, follows_module=False)}
    if not column.keys() <= known:
        return column
    if isinstance(was, Ragged):
        return as_ragged(column, rows)
    if isinstance(was, Mapping) and not is_collected(was):
        parts = _by_module(column)
        return {
            module_id: as_ragged(parts[module_id], rows.groups()[module_id]) for module_id in was if module_id in parts
        }
    return column
