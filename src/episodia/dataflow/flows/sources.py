"""Sources of flows: only they know about waiting, so no stage ever sees that something is not ready."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import islice
from typing import Any, Final, NamedTuple, final

from episodia.dataflow.engines.engine import Call, Engine
from episodia.dataflow.flows.pictures import FlowPicture
from episodia.errors import FlowError, FlowStalledError

# How long to look at one of several engines before the next.
_GLANCE_S = 0.002


class _Nothing(Enum):
    NOTHING = "nothing"


# What `poll` returns if there is nothing yet.
NOTHING: Final = _Nothing.NOTHING


class Pending(NamedTuple):
    """Something that is on the way: a call, and how long until it has to be looked at even if it is not over."""

    engine: Engine
    call: Call
    limit_s: float | None = None


class Source(ABC):
    """Something that items come from."""

    name: str = ""

    @abstractmethod
    def poll(self) -> Any:
        """Return the next item; `NOTHING` if there is none yet. It does not wait for other workers.

        Raises:
            StopIteration: If there will be no more.
        """

    def pending(self) -> list[Pending]:
        """Return what is on the way here."""
        return []

    def why_nothing(self) -> str:
        """Return why there is no item, or an empty text."""
        return ""

    def inner_flows(self) -> list[FlowPicture]:
        """Return the pictures of the flows that items come from."""
        return []

    def get_state(self) -> Any:
        """Return what the source remembers, for saving a flow; most remember nothing."""
        return None

    def set_state(self, state: Any) -> None:  # noqa: B027  # most remember nothing
        """Go on from `state`."""


@final
class Items(Source):
    """A source of the items of an iterable.

    A flow that is resumed goes on after the items that were read. An iterator cannot begin again: it goes on where it is.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._iterable, self._num_read = items, 0
        try:
            self._items: Iterator[Any] = iter(items)
        except TypeError as error:
            raise FlowError(f"Items: found {items!r} ({error}), expected an iterable. Pass one.") from error

    def poll(self) -> Any:
        """Return the next item."""
        item = next(self._items)
        self._num_read += 1
        return item

    def get_state(self) -> int:
        """Return how many items were read."""
        return self._num_read

    def set_state(self, state: int) -> None:
        """Go on after so many items."""
        if self._items is not self._iterable:
            self._items = islice(self._iterable, state, None)
            self._num_read = state


@final
class Pulled(Source):
    """A source that calls a function for each item, such as a draw from a replay buffer."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def poll(self) -> Any:
        """Return what the function returns."""
        return self._function()


def wait_for(source: Source) -> None:
    """Wait until something that is on the way to `source` may have arrived.

    Raises:
        FlowStalledError: If nothing is on the way, so that this would be for ever.
    """
    pending = source.pending()
    engines = list({id(one.engine): one.engine for one in pending}.values())
    limits = [one.limit_s for one in pending if one.limit_s is not None]
    over: list[Call] = []
    for engine in engines:
        own = [one.call for one in pending if one.engine is engine]
        # One of several engines gets a glance; the caller polls again.
        over = engine.wait(own, min(limits, default=None) if len(engines) == 1 else _GLANCE_S)
        if over:
            return
    if not engines or (len(engines) == 1 and not limits):
        why = source.why_nothing() or "nothing is on the way"
        raise FlowStalledError(
            f"flow: found that it would wait for ever ({why}), expected an item. Open a gate, or feed what it waits for."
        )
