"""Adding items to a batch one by one, as RLlib's connectors do.

A column that is collected item by item has one of three forms: a list of items; `{(episode id,): [items]}`; or, for agents of
multi-agent episodes, `{(multi-agent episode id, agent id, module id): [items]}`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors.batches.batch_descriptions import describe_column
from episodia.connectors.pipelines.current_run import mark, owner_of
from episodia.episodes.lists.ragged import Ragged
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import BatchError
from episodia.trees import batch_length, map_batch
from episodia.types import Item


class BatchedNdArray(np.ndarray):
    """An array whose first axis counts items: it is joined to its neighbours in a column, not stacked with them.

    >>> BatchedNdArray([[1, 2], [3, 4]]).shape
    (2, 2)
    """

    def __new__(cls, array: Any) -> BatchedNdArray:
        """Return a view of `array`; nothing is copied."""
        return np.asarray(array).view(cls)


def add_batch_item(
    batch: dict[str, Any], column: str, item_to_add: Item, single_agent_episode: SingleAgentEpisode | None = None
) -> None:
    """Append an item to `column`, under the id of its episode if there is one.

    Args:
        batch: What the item is added to, in place.
        column: The name of the column; it is made if it does not exist.
        item_to_add: The item.
        single_agent_episode: The episode that the item belongs to; of an agent, it is filed under agent and module too.

    Raises:
        BatchError: If the column is not collected item by item, or the batch is sorted by modules already.

    >>> batch = {}
    >>> add_batch_item(batch, "speed", 5, SingleAgentEpisode("walk"))
    >>> add_batch_item(batch, "speed", 6, SingleAgentEpisode("walk"))
    >>> batch
    {'speed': {('walk',): [5, 6]}}
    """
    _items_for(batch, column, single_agent_episode).append(item_to_add)


def add_n_batch_items(
    batch: dict[str, Any],
    column: str,
    items_to_add: Item,
    num_items: int,
    single_agent_episode: SingleAgentEpisode | None = None,
) -> None:
    """Append a list of items to `column`, or arrays whose rows are items.

    Args:
        batch: What the items are added to, in place.
        column: The name of the column; it is made if it does not exist.
        items_to_add: A list of items, or a batch of them: an array, or nested arrays. A batch is stored as it is, its arrays
            marked as `BatchedNdArray`, which is much cheaper than adding its rows.
        num_items: How many items there are.
        single_agent_episode: The episode that the items belong to.

    Raises:
        BatchError: If there are more or fewer items, or as for `add_batch_item`.

    >>> batch = {}
    >>> add_n_batch_items(batch, "speed", [5, 6], 2)
    >>> add_n_batch_items(batch, "speed", np.array([7, 8, 9]), 3)
    >>> batch
    {'speed': [5, 6, BatchedNdArray([7, 8, 9])]}
    """
    found = len(items_to_add) if isinstance(items_to_add, list) else _rows(items_to_add)
    if found != num_items:
        raise _refused(
            f"found {found} items, expected {num_items} as `num_items` says. Pass the number of items.",
            column,
            single_agent_episode,
        )
    given = items_to_add if isinstance(items_to_add, list) else [map_batch(BatchedNdArray, items_to_add)]
    _items_for(batch, column, single_agent_episode).extend(given)


def _rows(batch: Any) -> int:
    return batch_length(map_batch(np.asarray, batch))


def _items_for(batch: dict[str, Any], column: str, episode: SingleAgentEpisode | None) -> list[Any]:
    """Return the list in `batch` that an item of `episode` belongs to; it is made if there is none."""
    key = None if episode is None else _key_of(batch, column, episode)
    found = batch.get(column)
    if found is None:
        items: list[Any] = []
        batch[column] = items if key is None else {key: items}
        return items
    if isinstance(found, dict) and key is not None and all(isinstance(other, tuple) for other in found):
        return found.setdefault(key, [])  # type: ignore[no-any-return]  # the lists of a collected column
    if isinstance(found, list) and key is None:
        return found
    raise _refused(_cannot_add(column, found, key), column, episode)


def _key_of(batch: dict[str, Any], column: str, episode: SingleAgentEpisode) -> tuple[Any, ...]:
    module_id = DEFAULT_MODULE_ID if episode.module_id is None else episode.module_id
    if isinstance(batch.get(module_id), dict):
        raise _refused(
            f"found a batch that is sorted by modules ({list(batch)}), expected one of columns. Items of episodes are added "
            "before the batch is sorted: place this piece before `AgentToModuleMapping`.",
            column,
            episode,
        )
    return owner_of(episode).key


def _refused(message: str, column: str, episode: SingleAgentEpisode | None) -> BatchError:
    error = BatchError(f"column {column!r}: {message}")
    mark(error, column, None if episode is None else episode.id_)
    return error


def _cannot_add(column: str, found: Any, key: tuple[Any, ...] | None) -> str:
    if isinstance(found, Ragged):
        return (
            f"found whole stretches of episodes ({describe_column(found)}), expected a column that is "
            "collected item by item. Add items to a column of another name, place this piece before the one that writes "
            f"{column!r}, or change the items that are there with `foreach_batch_item_change_in_place`."
        )
    wanted = "a list of items" if key is None else "items by episode"
    remedy = "without `single_agent_episode`" if isinstance(found, list) else "with `single_agent_episode`"
    return (
        f"found {describe_column(found)}, expected {wanted}. A column has one form: add all of its items {remedy}, or use a "
        "column of another name."
    )


def switch_batch_from_column_to_module_ids(batch: dict[str, dict[Any, Any]]) -> dict[Any, dict[str, Any]]:
    """Return `{module: {column: data}}` for a batch `{column: {module: data}}`.

    Raises:
        BatchError: If a column is not sorted by modules.

    >>> switch_batch_from_column_to_module_ids({"obs": {"left": 1}, "actions": {"left": 2, "right": 3}})
    {'left': {'obs': 1, 'actions': 2}, 'right': {'actions': 3}}
    """
    modules: dict[Any, dict[str, Any]] = {}
    for column, by_module in batch.items():
        if not isinstance(by_module, dict):
            raise BatchError(
                f"column {column!r}: found {describe_column(by_module)}, expected data by module, `{{module: data}}`. "
                "Sort the columns by modules first."
            )
        for module_id, data in by_module.items():
            modules.setdefault(module_id, {})[column] = data
    return modules
