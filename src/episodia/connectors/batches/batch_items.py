"""Items that plugins add to a batch one by one, and the columns that are gathered from them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from episodia.arguments import is_whole
from episodia.columns import DEFAULT_MODULE_ID
from episodia.connectors.batches.batch_arguments import check_batch, check_column_name, not_an_episode
from episodia.connectors.batches.batch_descriptions import describe_column, is_collected, is_tensor, stacked
from episodia.connectors.batches.other_episodes import other_keys, rejected
from episodia.connectors.pipelines.current_run import mark, owner_of
from episodia.episodes import EpisodeList
from episodia.episodes.lists.ragged import Ragged, counted, offsets_of
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import BatchError
from episodia.trees import as_rows, batch_length, describe, leaves, map_batch
from episodia.types import Item


class BatchedNdArray(np.ndarray):
    """An array whose first axis counts items: it is joined to its neighbours in a column, not stacked with them.

    >>> BatchedNdArray([[1, 2], [3, 4]]).shape
    (2, 2)
    """

    def __new__(cls, array: Any) -> BatchedNdArray:
        """Return a view of `array`; nothing is copied."""
        return as_rows(array).view(cls)


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
        BatchError: If the column is not collected item by item, if the batch is sorted by modules already, or if an argument
            is of another kind.

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
        num_items: The number of items.
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
    if not is_whole(num_items) or found != num_items:
        raise _rejection(
            f"found {found} items, expected {describe(num_items)} as `num_items` says. Pass the number of items.",
            column,
            single_agent_episode,
        )
    given = items_to_add if isinstance(items_to_add, list) else [map_batch(BatchedNdArray, items_to_add)]
    _items_for(batch, column, single_agent_episode).extend(given)


def _rows(batch: Any) -> int:
    return batch_length(map_batch(np.asarray, batch))


def _items_for(batch: dict[str, Any], column: str, episode: SingleAgentEpisode | None) -> list[Any]:
    """Return the list in `batch` that an item of `episode` belongs to; the list is created if it is missing."""
    given: Any = batch
    # Without an error, `try` costs nothing, and this is the hot path of plugins. The batch of a pipeline would make a column
    # whose rows are found by keys.
    try:
        found = dict.get(given, column) if isinstance(given, dict) else given.get(column)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):  # arrays, tensors and texts among them
        check_batch("add_batch_item", batch)
        check_column_name("add_batch_item", column)
        raise
    key: tuple[Any, ...] | None = None
    if episode is not None:
        if not isinstance(episode, SingleAgentEpisode):
            raise not_an_episode("add_batch_item", episode)
        module_id = DEFAULT_MODULE_ID if episode.module_id is None else episode.module_id
        if module_id in batch and isinstance(batch[module_id], dict):
            raise _rejection(_sorted_by_modules(batch), column, episode)
        key = (episode.id_,) if episode.agent_id is None else owner_of(episode).key
    if found is None:
        if not (isinstance(given, dict) and type(column) is str):  # else there is nothing to check
            check_batch("add_batch_item", batch)
            check_column_name("add_batch_item", column)
        items: list[Any] = []
        batch[column] = items if key is None else {key: items}
        return items
    # All keys are alike: only this function writes such a column.
    if isinstance(found, dict) and key is not None and isinstance(next(iter(found), key), tuple):
        return found.setdefault(key, [])  # type: ignore[no-any-return]  # the lists of a collected column
    if isinstance(found, list) and key is None:
        return found
    raise _rejection(_cannot_add(found, key), column, episode)


def _sorted_by_modules(batch: dict[str, Any]) -> str:
    return (
        f"found a batch that is sorted by modules ({list(batch)}), expected one of columns. Items of episodes are added "
        "before the batch is sorted: place this piece before `AgentToModuleMapping`."
    )


def _rejection(message: str, column: str, episode: SingleAgentEpisode | None) -> BatchError:
    error = BatchError(f"column {column!r}: {message}")
    mark(error, column, None if episode is None else episode.id_)
    return error


def _cannot_add(found: Any, key: tuple[Any, ...] | None) -> str:
    if isinstance(found, Ragged):
        return (
            f"found whole stretches of episodes ({describe_column(found)}), expected a column that is "
            "collected item by item. Add items to a column of another name, or change the items that are there with "
            "`foreach_batch_item_change_in_place`. For rows of other episodes, such as mirrored ones, "
            "add these to the list with `episodes.extend(...)`, in front of all pieces that write columns."
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
    check_batch("switch_batch_from_column_to_module_ids", batch)
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


def as_ragged(column: Item, rows: EpisodeList) -> Ragged:
    """Return `column`, in any of its forms, as the rows of the episodes `rows`.

    There must be one item for each row, or one more for each episode: the item after its last step, which becomes its tail.

    Raises:
        BatchError: If the number of items is another one, if items belong to other episodes, or if `column` has no rows.
        EpisodeError: If `rows` are not episodes.
    """
    if isinstance(column, Ragged):
        return column
    rows = EpisodeList.of(rows)
    if is_collected(column):
        return _from_episodes(column, rows)
    values = batch_of(column) if isinstance(column, list) else column
    counts = rows.row_counts
    return _fitted(values, counts, _length(values), column)


def _from_episodes(column: dict[tuple[Any, ...], list[Any]], rows: EpisodeList) -> Ragged:
    if rows.is_current:
        items = one_each(column, rows)
        if items:
            return Ragged(stacked(items), counted(len(items) + 1))
    _check_lists(column)
    counts = rows.row_counts
    others = other_keys(column, rows)
    if others:
        raise rejected(others, rows)
    batches = {key: batch_of(items) for key, items in column.items() if items}
    keys = [_key_in(batches, episode) for episode in rows.agent_episodes]
    for episode, key, count in zip(rows.agent_episodes, keys, counts.tolist(), strict=True):
        if key is None and count:
            raise BatchError(
                f"found no items for the episode {episode.id_!r} in a column of {list(column)}, expected one for each of its "
                "rows. Add items for every episode of `single_agent_episode_iterator`."
            )
    # Two chunks of one episode share a list: each takes its part of it, in order.
    found = sum(_length(batches[key]) for key in {*keys} - {None})
    tail = int(found != int(counts.sum()))
    taken = dict.fromkeys(batches, 0)
    parts = []
    for key, count in zip(keys, (counts + tail).tolist(), strict=True):
        if key is not None:
            part = slice(taken[key], taken[key] + count)
            parts.append(map_batch(lambda leaf, part=part: leaf[part], batches[key]))
            taken[key] += count
    if found == int((counts + tail).sum()):
        _check_shares(batches, {key: taken[key] for key in keys if key is not None})
    values = map_batch(lambda *leaves_: _joined(leaves_), *parts) if parts else np.empty(0)
    return _fitted(values, counts, found, column)


def one_each(column: dict[Any, Any], rows: EpisodeList) -> list[Any] | None:
    """Return the only item of each episode, the usual case at the present moment; None if it is another case."""
    episodes = rows.agent_episodes
    if len(column) != len(episodes):
        return None
    found = []
    for episode in episodes:
        items = column.get((episode.id_,) if episode.agent_id is None else owner_of(episode).key)
        if not isinstance(items, list) or len(items) != 1:
            return None
        [item] = items
        if type(item) is not np.ndarray and _is_batch(item):
            return None
        found.append(item)
    return found


def _check_shares(batches: dict[tuple[Any, ...], Any], wanted: dict[tuple[Any, ...], int]) -> None:
    """Reject as many items as there are rows in all, if one episode has too many of them and another one too few."""
    for key, count in wanted.items():
        if _length(batches[key]) != count:
            raise BatchError(
                f"found {_length(batches[key])} items for the episode {key}, expected {count}: one for each of its rows. Add "
                "each item with the episode that it belongs to."
            )


def _check_lists(column: dict[tuple[Any, ...], Any]) -> None:
    for key, items in column.items():
        if not isinstance(items, list):
            raise BatchError(
                f"found {describe_column(items)} for the episode {key}, expected a list of items. Add items with "
                "`add_batch_item`."
            )


def _key_in(batches: dict[tuple[Any, ...], Any], episode: Any) -> Any:
    owner = owner_of(episode)
    return next((key for key in ((owner.eps_id,), tuple(owner)) if key in batches), None)


def _fitted(values: Item, counts: np.ndarray, found: int, column: Item) -> Ragged:
    total = int(counts.sum())
    if found == total:
        return Ragged(values, offsets_of(counts))
    if found == total + len(counts):
        return Ragged(values, offsets_of(counts + 1), tail=1)
    raise BatchError(
        f"found {found} items in a column of {describe_column(column)}, expected {total}: one for each of the rows of "
        f"{len(counts)} episodes (or {total + len(counts)}, with the item after the last step of each). Add `len(episode)` "
        "items for each episode in a learner pipeline, and one in an env-to-module pipeline."
    )


def batch_of(items: list[Any]) -> Any:
    """Return items, some of which may be batches of items already, as one batch."""
    if not items:
        return np.empty(0)
    parts = []
    for is_batch, group in groupby(items, _is_batch):
        run = list(group)
        parts += [map_batch(np.asarray, batch) for batch in run] if is_batch else [stacked(run)]
    return parts[0] if len(parts) == 1 else map_batch(lambda *leaves_: _joined(leaves_), *parts)


def num_items(items: list[Any]) -> int:
    """Return the number of items in a list, some of which may be batches of items."""
    return sum(_length(item) if _is_batch(item) else 1 for item in items)


def _is_batch(item: Item) -> bool:
    if type(item) is np.ndarray:
        return False
    first = next(leaves(item), (None, None))[1]
    return isinstance(first, BatchedNdArray)


def _joined(parts: tuple[Any, ...]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if is_tensor(parts[0]):
        import torch  # noqa: PLC0415  # only where tensors were made, so it is imported already

        return torch.cat(parts)
    return np.concatenate(parts)


def _length(batch: Any) -> int:
    first = next(leaves(batch), (None, None))[1]
    try:
        return len(first)  # type: ignore[arg-type]  # what has no length is an error of the caller
    except TypeError as error:
        raise BatchError(
            f"found {describe_column(batch)} as a column, expected rows: arrays, nested or not, or items. Return one row for "
            "each step of each episode."
        ) from error
