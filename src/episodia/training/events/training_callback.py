"""`TrainingCallback`, a class with methods for the events of a training, and the calls of all callbacks of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, final

from episodia.arguments import checked_each
from episodia.episodes import EpisodeList
from episodia.errors import TrainingError

if TYPE_CHECKING:
    from episodia.training.training import Record, Training


class TrainingCallback:
    """Told what happens in a run; override what you need.

    A plain function is a callback too: it is called with each record, like `on_record`, but without the training.
    """

    def on_begin(self, training: Training) -> None:
        """The run begins, or goes on."""

    def on_collected(self, training: Training, episodes: EpisodeList[Any]) -> None:
        """Episodes were collected, and not learned from yet; with a group of runners, once for each delivery."""

    def on_evaluated(self, training: Training, returns: Sequence[float]) -> None:
        """Whole episodes were played by `Training.evaluate`, with these returns."""

    def on_record(self, training: Training, record: Record) -> bool | None:
        """An update is complete; numbers that are added to `record` are part of the metrics.

        Returns:
            True to stop the run.
        """
        return None

    def on_end(self, training: Training) -> None:
        """The run has stopped: `training.stopped_by` says why."""


# A function of the record that may return True to stop the run, or a `TrainingCallback`.
Callback: TypeAlias = "Callable[[Record], object] | TrainingCallback"


@final
class RunCallbacks:
    """Calls all callbacks of a run in order.

    If one fails, the others are called all the same, and the first error is raised when the update is complete, with a note
    that names the callback: neither an update nor a line of metrics is lost.
    """

    def __init__(self, training: Training, callbacks: Sequence[Callback] = ()) -> None:
        self._training = training
        self._callbacks = checked_callbacks("run", callbacks)
        self._errors: list[Exception] = []

    def tell(self, event: str, *arguments: Any) -> bool:
        """Call a method of all callbacks that have it; return whether one wants to stop."""
        wants_stop = False
        for callback in self._callbacks:
            try:
                if isinstance(callback, TrainingCallback):
                    wants_stop |= getattr(callback, event)(self._training, *arguments) is True
                elif event == "on_record":
                    wants_stop |= callback(*arguments) is True
            except Exception as error:  # noqa: BLE001  # it is raised when nothing can be lost
                name = getattr(callback, "__qualname__", type(callback).__name__)
                error.add_note(f"Raised by the callback {name} (`{event}`) after update {self._training.iteration}.")
                self._errors.append(error)
        return wants_stop

    def raise_errors(self) -> None:
        """Raise the first error, if there is one; the others are forgotten."""
        if self._errors:
            first, self._errors = self._errors[0], []
            raise first


def checked_callbacks(where: str, callbacks: object) -> list[Callback]:
    """Return callbacks as a list.

    Raises:
        TrainingError: If one is neither a function nor a `TrainingCallback`.
    """
    expected = "functions or `TrainingCallback`s, not classes; callbacks for events of episodes belong to a runner"
    return list(checked_each(TrainingError, where, "callbacks", callbacks, _is_callback, expected))


def _is_callback(value: object) -> bool:
    return not isinstance(value, type) and (callable(value) or isinstance(value, TrainingCallback))
