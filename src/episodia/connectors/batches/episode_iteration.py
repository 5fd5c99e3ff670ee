"""Going through single-agent episodes one by one, also inside of multi-agent ones, together with a batch column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, overload

import numpy as np

from episodia.connectors.batches.batch_descriptions import describe_column, is_nested_batch, rows_of
from episodia.connectors.pipelines.current_run import RUNNING, Run, owner_of
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged
from episodia.episodes.multi_agent.multi_agent_episode import MultiAgentEpisode
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import BatchError
from episodia.types import Item


@overload
def single_agent_episode_iterator(
    episodes: Iterable[Any], agents_that_stepped_only: bool = True, zip_with_batch_column: None = None
) -> Iterator[SingleAgentEpisode]: ...
@overload
def single_agent_episode_iterator(
    episodes: Iterable[Any], agents_that_stepped_only: bool = True, *, zip_with_batch_column: Item
) -> Iterator[tuple[SingleAgentEpisode, Item]]: ...
def single_agent_episode_iterator(
    episodes: Iterable[Any], agents_that_stepped_only: bool = True, zip_with_batch_column: Item = None
) -> Iterator[Any]:
    """Yield single-agent episodes: the given ones, or the agents' of the given multi-agent ones.

    Args:
        episodes: Single-agent or multi-agent episodes.
        agents_that_stepped_only: Of multi-agent episodes, only yield agents with an observation at the last environment step.
        zip_with_batch_column: A column with an item for each episode; pairs `(episode, item)` are yielded then. It is a list
            of items in the order of the episodes, arrays with such rows, or items by episode (the first is taken, and the
            next one for another chunk of the same episode), or whole stretches of one row each. Agents without a row are
            left out.

    Raises:
        BatchError: If the column does not have an item for each episode.

    >>> walks = [SingleAgentEpisode("walk"), SingleAgentEpisode("run")]
    >>> [(episode.id_, item) for episode, item in single_agent_episode_iterator(walks, True, [5, 6])]
    [('walk', 5), ('run', 6)]
    """
    found = agent_episodes(episodes, agents_that_stepped_only)
    run = RUNNING.get() or Run({}, None, None, None, None, None, {})
    if zip_with_batch_column is None:
        for episode in found:
            run.at_episode = episode
            yield episode
    else:
        for episode, item in _zipped(episodes, found, zip_with_batch_column):
            run.at_episode = episode
            yield episode, item
    # Skipped when an exception leaves the loop: the error report reads the episode from the run.
    run.at_episode = None


def agent_episodes(episodes: Iterable[Any], stepped_only: bool) -> list[SingleAgentEpisode]:
    """Return what `single_agent_episode_iterator` yields, as a list of its own."""
    if stepped_only is not True and stepped_only is not False:
        raise BatchError(
            f"single_agent_episode_iterator: found `agents_that_stepped_only={describe_column(stepped_only)}`, expected True "
            "or False. Pass one of them."
        )
    # As in `EpisodeList.of`: `isinstance` is slow with abstract classes.
    if EpisodeList in type(episodes).__mro__ and not episodes.is_multi_agent:  # type: ignore[attr-defined]  # it is one
        return [*episodes.agent_episodes]  # type: ignore[attr-defined]
    found: list[SingleAgentEpisode] = []
    for episode in EpisodeList.of(episodes):
        if isinstance(episode, MultiAgentEpisode):
            stepped = episode.get_agents_that_stepped() if stepped_only else episode.agent_ids
            found += [single for agent, single in episode.agent_episodes.items() if agent in stepped]
        else:
            found.append(episode)
    return found


def _zipped(episodes: Any, found: list[SingleAgentEpisode], column: Any) -> Iterator[tuple[SingleAgentEpisode, Any]]:
    if isinstance(column, Ragged):
        yield from _zipped_with_stretches(episodes, found, column)
        return
    item_of = _item_getter(found, column)
    for position, episode in enumerate(found):
        yield episode, item_of(position, episode)


def _item_getter(found: list[SingleAgentEpisode], column: Any) -> Callable[[int, SingleAgentEpisode], Any]:
    column = rows_of(column) if is_nested_batch(column) else column
    if not isinstance(column, dict):
        num_items = _num_items(column)
        if num_items != len(found):
            raise BatchError(_no_fit(f"{num_items} items for {len(found)} episodes", column))
        return lambda position, _: column[position]
    taken: dict[tuple[Any, ...], int] = {}

    def item_of(_: int, episode: SingleAgentEpisode) -> Any:
        key = owner_of(episode).key
        position = taken.get(key, 0)
        taken[key] = position + 1
        items = column.get(key, ())
        if position >= _num_items(items):
            raise BatchError(_no_fit(f"no item for the episode {key}", column))
        return items[position]

    return item_of


def _num_items(items: Any) -> int:
    """Return how many items there are; 0 for a value that is not a list of items."""
    return len(items) if np.iterable(items) else 0  # type: ignore[arg-type]  # the check narrows to what has no length


def _zipped_with_stretches(
    episodes: Any, found: list[SingleAgentEpisode], column: Ragged
) -> Iterator[tuple[SingleAgentEpisode, Any]]:
    listed = EpisodeList.of(episodes).agent_episodes
    if len(listed) != len(column):
        raise BatchError(_no_fit(f"{len(column)} stretches for {len(listed)} episodes", column))
    if column.tail or (column.lengths != 1).any():
        raise BatchError(
            _no_fit("stretches of other lengths than one row", column)
            + " The rows of each episode are in `column.split()`."
        )
    items = {id(episode): item for episode, item in zip(listed, rows_of(column.values), strict=True)}
    yield from ((episode, items[id(episode)]) for episode in found if id(episode) in items)


def _no_fit(what: str, column: Any) -> str:
    return (
        f"`zip_with_batch_column`: found {what} ({describe_column(column)}), expected one item for each episode. Pass the "
        "column that was made of these episodes."
    )
