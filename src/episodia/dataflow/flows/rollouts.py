"""The source of what a group of runners plays."""

from __future__ import annotations

from typing import Any, cast, final

from episodia.arguments import checked_choice
from episodia.dataflow.deliveries import Wanted
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.sources import NOTHING, Pending, Source
from episodia.dataflow.runner_group import RunnerGroup
from episodia.dataflow.runner_host import Then
from episodia.errors import FlowError


def rollouts(group: RunnerGroup, mode: str = "bulk_sync", *, then: Then | None = None, **wanted: Any) -> Flow:
    """Return a flow of what a group plays.

    Args:
        group: The group.
        mode: `"bulk_sync"`: a list of deliveries for each round. `"async"`: deliveries as they come. `"raw"`: as they come
            too, but only what `then` has made of the episodes.
        then: Makes, of a runner, a function that is applied to each list of episodes where the runner lives; None keeps that of
            the group.
        **wanted: Arguments of a runner's `sample`, for each runner, or functions that return them.

    Raises:
        FlowError: If there is no such mode, or no group.
    """
    if not isinstance(cast("object", group), RunnerGroup):
        raise FlowError(f"rollouts: found {group!r}, expected a `RunnerGroup`. Make one of your runner.")
    checked_choice(FlowError, "rollouts", "mode", mode, ("bulk_sync", "async", "raw"))
    if then is not None:
        group.apply_there(then)
    source = _InRounds(group, wanted) if mode == "bulk_sync" else _AsTheyCome(group, wanted)
    flow = Flow(source, name=f"rollouts({mode})")
    return flow.for_each(made_there) if mode == "raw" else flow


def made_there(delivery: Any) -> Any:
    """Return the episodes of a delivery, or what was made of them where the runner lives."""
    return delivery.episodes


@final
class _InRounds(Source):
    def __init__(self, group: RunnerGroup, wanted: Wanted) -> None:
        self._group, self._wanted = group, wanted

    def poll(self) -> Any:
        return self._group.sample_round(**self._wanted)


@final
class _AsTheyCome(Source):
    def __init__(self, group: RunnerGroup, wanted: Wanted) -> None:
        self._group, self._wanted = group, wanted

    def poll(self) -> Any:
        found = self._group.poll(self._wanted, 0)
        return NOTHING if found is None else found

    def pending(self) -> list[Pending]:
        group = self._group
        return [Pending(group.engine, call, group.limit_s) for call in group.first_calls()]
