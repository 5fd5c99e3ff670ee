"""One flow as several branches, which all see each item."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, cast, final

from episodia.arguments import checked_whole
from episodia.dataflow.flows.flow import Flow
from episodia.dataflow.flows.pictures import FlowPicture
from episodia.dataflow.flows.sources import NOTHING, Pending, Source
from episodia.dataflow.kept_deliveries import held_from, held_state
from episodia.errors import FlowError


def duplicate(flow: Flow, count: int = 2, *, max_skew: int = 16) -> list[Flow]:
    """Return `count` flows that give each item of `flow`.

    Args:
        flow: The flow, which must not be pulled by others any more.
        count: How many branches.
        max_skew: How many items a branch may be ahead of the slowest one; it has nothing until that one has caught up.

    Raises:
        FlowError: If a number is invalid.

    >>> left, right = duplicate(Flow(range(5)))
    >>> left.take(2), right.take(1)
    ([0, 1], [0])
    """
    if not isinstance(cast("object", flow), Flow):
        raise FlowError(f"duplicate: found {flow!r}, expected a `Flow`. Make one of it first.")
    checked_whole(FlowError, "duplicate", "count", count, 1)
    trunk = _Trunk(flow, count, checked_whole(FlowError, "duplicate", "max_skew", max_skew, 1))
    return [Flow(_Branch(trunk, number), name=f"{flow.name}[{number}]") for number in range(count)]


@final
class _Trunk:
    def __init__(self, flow: Flow, count: int, max_skew: int) -> None:
        self.flow = flow
        self.queues: list[deque[Any]] = [deque() for _ in range(count)]
        self._max_skew = max_skew

    @property
    def has_room(self) -> bool:
        return all(len(queue) < self._max_skew for queue in self.queues)

    def poll(self, number: int) -> Any:
        own = self.queues[number]
        if not own:
            item = self.flow.poll() if self.has_room else NOTHING
            if item is NOTHING:
                return NOTHING
            for queue in self.queues:
                queue.append(item)
        return own.popleft()


@final
class _Branch(Source):
    def __init__(self, trunk: _Trunk, number: int) -> None:
        self._trunk = trunk
        self._number = number

    def poll(self) -> Any:
        return self._trunk.poll(self._number)

    def pending(self) -> list[Pending]:
        return self._trunk.flow.pending() if self._trunk.has_room else []

    def why_nothing(self) -> str:
        return self._trunk.flow.why_nothing() if self._trunk.has_room else "waits for a slower branch"

    def inner_flows(self) -> list[FlowPicture]:
        return [self._trunk.flow.drawn()]

    def get_state(self) -> Any:
        # The flow before the branches is saved with the first one.
        flow = self._trunk.flow.get_state() if not self._number else None
        return {"held": [held_state(item) for item in self._trunk.queues[self._number]], "flow": flow}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._trunk.queues[self._number] = deque(map(held_from, state["held"]))
        if not self._number:
            self._trunk.flow.set_state(state["flow"])
