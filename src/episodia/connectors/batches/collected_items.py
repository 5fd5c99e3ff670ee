"""Items that plugins added to a batch one by one, gathered into a column for all episodes.

`ConnectorV2.add_batch_item` files items in one list, or in a list for each episode under `(episode id,)` or
`(multi-agent episode id, agent id, module id)`. Here they become the `Ragged` that shipped pieces work on.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from episodia.connectors.batches.batch_descriptions import describe_column, is_collected
from episodia.connectors.batches.batch_items import BatchedNdArray
from episodia.connectors.batches.row_items import is_tensor, stacked
from episodia.connectors.pipelines.current_run import owner_of
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.lists.ragged import offsets_of
from episodia.errors import BatchError
from episodia.trees import leaves, map_batch
from episodia.types import Item


def as_ragged(column: Item, rows: EpisodeList) -> Ragged:
    """Return `column`, in whatever form it was written, as the rows of the episodes `rows`.

    There must be one item for each row, or one more for each episode: the item after its last step, which becomes its tail.

    Raises:
        BatchError: If the number of items is another one.
    """
    if isinstance(column, Ragged):
        return column
    if is_collected(column):
        return _from_episodes(column, rows)
    values = _batch_of(column) if isinstance(column, list) else column
    counts = rows.row_counts
    return _fitted(values, counts, _length(values), column)


def _from_episodes(column: dict[tuple[Any, ...], list[Any]], rows: EpisodeList) -> Ragged:
    counts = rows.row_counts
    batches = {key: _batch_of(items) for key, items in column.items() if items}
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


def _check_shares(batches: dict[tuple[Any, ...], Any], wanted: dict[tuple[Any, ...], int]) -> None:
    """Refuse as many items as there are rows in all, if one episode has too many of them and another one too few."""
    for key, count in wanted.items():
        if _length(batches[key]) != count:
            raise BatchError(
                f"found {_length(batches[key])} items for the episode {key}, expected {count}: one for each of its rows. Add "
                "each item with the episode that it belongs to."
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


def _batch_of(items: list[Any]) -> Any:
    """Return items, some of which may be batches of items already, as one batch."""
    if not items:
        return np.empty(0)
    parts = []
    for is_batch, group in groupby(items, _is_batch):
        run = list(group)
        parts += [map_batch(np.asarray, batch) for batch in run] if is_batch else [stacked(run)]
    return parts[0] if len(parts) == 1 else map_batch(lambda *leaves_: _joined(leaves_), *parts)


def _is_batch(item: Item) -> bool:
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
    return len(next(leaves(batch))[1])
