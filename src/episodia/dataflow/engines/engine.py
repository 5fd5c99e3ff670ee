"""The protocol of engines: they start workers, queue calls to them, and say which calls are over.

    worker = engine.start(make)             # make() runs where the worker will live
    call = worker.call("method", ...)       # queued; calls of one worker run one after another, in order
    over = engine.wait(calls, timeout_s)    # those that are over; at least one, unless the time is up or none can end
    call.result()                           # what the method returned; raises what it raised, or `WorkerDiedError`
    handle = engine.share(value)            # put once, read by many: `fetch(handle)`, where the worker lives

A call is over exactly once: with a result, with the method's own error, or with the death of its worker. It never runs twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self

from episodia.errors import EngineError


class Call(ABC):
    """One call of a method of a worker."""

    @abstractmethod
    def result(self) -> Any:
        """Return what the method returned; asked for only when the call is over.

        Raises:
            WorkerDiedError: If the worker died before it answered. Whether the method ran is not known.
            Exception: What the method raised.
        """


class Worker(ABC):
    """An object that lives where the engine has put it; its methods are called by their names."""

    _is_beginning = False  # as far as it is known

    @abstractmethod
    def call(self, method: str, *arguments: Any) -> Call:
        """Queue a call, and return at once. If the worker has died, the call is over."""

    def may_take_longer(self) -> bool:
        """Tell whether a call whose time is up may take as long again, because the object was not made when its time began."""
        beginning, self._is_beginning = self._is_beginning, self._is_beginning and not self.is_made()
        return beginning

    def is_made(self) -> bool:
        """Tell whether the object is made, or cannot be."""
        return True

    @abstractmethod
    def kill(self) -> None:
        """Give the worker up: its calls that are not over end with a `WorkerDiedError`. A second time does nothing."""


class Handle(Protocol):
    """A value that was shared with workers."""

    def fetch(self) -> Any:
        """Return the value, where the worker lives."""


class Engine(ABC):
    """Starts workers; see the module for the protocol, and `episodia.testing.check_engine` for its laws.

    Attributes:
        is_serial: Whether calls run one after another while the caller waits, so that no time limit can end one.
        is_in_process: Whether workers live in this process, so that what they get is not copied.
    """

    is_serial: ClassVar[bool] = False
    is_in_process: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def start(self, make: Callable[[], Any]) -> Worker:
        """Return a worker with the object that `make` makes. If `make` fails, so does each call, with its error."""

    @abstractmethod
    def wait(self, calls: Sequence[Call], timeout_s: float | None = None) -> list[Call]:
        """Return those of `calls` that are over, as soon as there is one; none if the time is up, or if none can ever end.

        Args:
            calls: Calls of workers of this engine.
            timeout_s: How long to wait; 0 only looks, None waits for ever.
        """

    def share(self, value: Any) -> Handle:
        """Put `value` where all workers can read it."""
        return Direct(value)

    @abstractmethod
    def now(self) -> float:
        """Return the time in seconds; only differences mean something."""

    @abstractmethod
    def close(self) -> None:
        """Kill all workers; a second time does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Direct:
    """The handle of engines whose workers live in this process."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def fetch(self) -> Any:
        """Return the value itself."""
        return self._value


def result_of_call(engine: Engine, call: Call) -> Any:
    """Wait for one call, and return its result.

    Raises:
        EngineError: If the engine says that the call never ends.
    """
    if not engine.wait([call]):
        raise EngineError(
            f"{type(engine).__name__}: found a call that never ends, expected a result or an error. Kill its worker."
        )
    return call.result()
