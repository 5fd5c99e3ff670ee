"""Stages of what is delivered: only what is fresh enough, and only what some modules have done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

from episodia.arguments import checked_whole, names_nearest_argument
from episodia.dataflow.deliveries import Delivery
from episodia.dataflow.runner_group import RunnerGroup
from episodia.episodes import EpisodeList
from episodia.episodes.lists.joined_rows import joined_lists
from episodia.errors import FlowError


@names_nearest_argument
@final
class DropStale:
    """A stage that drops deliveries of old weights, and counts them as `stale` in `group.counts`.

    Dropping starves slow runners and biases what is learned from; a bound of requests in flight is the gentler way.

    Args:
        group: The group.
        max_lag: How many versions of the weights a delivery may be behind.

    Raises:
        FlowError: If `max_lag` is invalid.
    """

    def __init__(self, group: RunnerGroup, max_lag: int) -> None:
        self._group = group
        self._max_lag = checked_whole(FlowError, "DropStale", "max_lag", max_lag, 0)

    def __repr__(self) -> str:
        return f"DropStale({self._group!r}, max_lag={self._max_lag})"

    def __call__(self, delivery: Delivery) -> Iterable[Delivery]:
        """Return the delivery if it is fresh enough."""
        if self._group.weights_version - delivery.version <= self._max_lag:
            return (delivery,)
        self._group.counts["stale"] += 1
        return ()


def select_modules(*module_ids: str) -> Callable[[EpisodeList[Any]], EpisodeList[Any]]:
    """Return a function that selects, of a list of episodes, those of the agents that some modules act for."""

    def select(episodes: EpisodeList[Any]) -> EpisodeList[Any]:
        groups = episodes.groups()
        return joined_lists(groups[module_id] for module_id in module_ids if module_id in groups)

    return select
