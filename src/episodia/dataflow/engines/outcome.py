"""The outcome of a call: a value or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, final

from episodia.errors import WorkerDiedError


@final
class Outcome:
    """A value, or the error that came instead.

    >>> Outcome.of(max, 3, 4).result()
    4
    """

    __slots__ = ("_value", "error")

    def __init__(self, value: Any = None, error: BaseException | None = None) -> None:
        self._value = value
        self.error = error

    @classmethod
    def of(cls, function: Callable[..., Any], *arguments: Any) -> Self:
        """Call `function`, and return how that ended; an interrupt is raised, because it is not the function's own."""
        try:
            return cls(function(*arguments))
        except Exception as error:  # noqa: BLE001  # raised again when the result is read
            return cls(error=error)

    @classmethod
    def of_method(cls, made: Outcome, method: str, arguments: tuple[Any, ...]) -> Self:
        """Call a method of the object that was made; if making it failed, return that error."""
        return cls.of(lambda: getattr(made.result(), method)(*arguments))

    @classmethod
    def died(cls, why: str) -> Self:
        """Return the end of a call whose worker is gone."""
        return cls(error=WorkerDiedError(f"found a worker that {why}, expected an answer. Start another one."))

    def result(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self._value

    def close(self) -> None:
        """Close the value, if it is an object that can be closed."""
        close = getattr(self._value, "close", None)
        if close is not None:
            close()
