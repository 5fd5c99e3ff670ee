"""Stages that flows are made of: functions of an item that return the items that come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, final, runtime_checkable

from episodia.arguments import checked_whole
from episodia.dataflow.kept_deliveries import held_from, held_state
from episodia.errors import FlowError
from episodia.trees import shown

# Of an item, all items that come out.
Stage: TypeAlias = Callable[[Any], Iterable[Any]]


@runtime_checkable
class Remembers(Protocol):
    """A stage with a memory, which is saved with its flow."""

    def get_state(self) -> Any:
        """Return the memory."""

    def set_state(self, state: Any) -> None:
        """Go on from `state`."""


class Memory(ABC):
    """The common state of several stages or gates, which are its methods; it is saved with their flows."""

    @abstractmethod
    def get_state(self) -> Any:
        """Return the memory."""

    @abstractmethod
    def set_state(self, state: Any) -> None:
        """Go on from `state`."""


def memory_of(stage: object) -> Remembers | None:
    """Return what remembers: a stage or the function that it calls, or the `Memory` whose method that is."""
    function = getattr(stage, "__wrapped__", stage)
    if isinstance(function, Remembers):
        return function
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, Memory) else None


def checked_function(where: str, name: str, value: object) -> None:
    """Check that `value` is a function.

    Raises:
        FlowError: If it is not.
    """
    if not callable(value):
        raise FlowError(f"{where}: found `{name}={shown(value)}`, expected a function. Pass one.")


def _named(stage: Stage, verb: str, function: Callable[..., Any]) -> Stage:
    checked_function(verb, "function", function)
    stage.__name__ = f"{verb} {name_of(function)}"
    stage.__dict__["__wrapped__"] = function
    return stage


def name_of(function: Callable[..., Any]) -> str:
    """Return how pictures and errors call a function.

    >>> name_of(len), name_of(Batch(3))
    ('len', 'Batch')
    """
    return getattr(function, "__name__", type(function).__name__)


def each(function: Callable[[Any], Any]) -> Stage:
    """Return a stage of what `function` returns."""
    return _named(lambda item: (function(item),), "for_each", function)


def kept(keep: Callable[[Any], bool]) -> Stage:
    """Return a stage of the items that `keep` is true of."""
    return _named(lambda item: (item,) if keep(item) else (), "filter", keep)


def tapped(function: Callable[[Any], object]) -> Stage:
    """Return a stage that calls `function` with each item, and passes it on."""

    def tap(item: Any) -> tuple[Any]:
        function(item)
        return (item,)

    return _named(tap, "tap", function)


def flatten(item: Any) -> Iterable[Any]:
    """Return the items of an item."""
    return item  # type: ignore[no-any-return]  # what the caller says


def zip_with_source(item: Any) -> tuple[tuple[int, Any]]:
    """Return a delivery with its runner."""
    return ((item.runner, item),)


@final
class Batch:
    """A stage of lists of so many items."""

    def __init__(self, count: int) -> None:
        self._count = checked_whole(FlowError, "Batch", "count", count, 1)
        self._held: list[Any] = []

    def __call__(self, item: Any) -> Iterable[Any]:
        """Hold the item, and return a list when there are enough."""
        self._held.append(item)
        if len(self._held) < self._count:
            return ()
        held, self._held = self._held, []
        return (held,)

    def get_state(self) -> list[Any]:
        """Return the items that are held."""
        return [held_state(item) for item in self._held]

    def set_state(self, state: list[Any]) -> None:
        """Hold these items."""
        self._held = [held_from(item) for item in state]
