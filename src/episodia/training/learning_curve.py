"""Figures of the learning curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from episodia.arguments import checked_each, is_number
from episodia.display import plotting
from episodia.errors import TrainingError
from episodia.training.training import Record
from episodia.trees import shown

_DRAWN = ("steps", "return_mean")


def learning_curve(history: Sequence[Record], *, title: str = "", target: float | None = None) -> Any:
    """Return a matplotlib figure of the mean return over the environment steps; notebooks show it.

    Args:
        history: The records of a training.
        title: The title of the figure.
        target: Where to draw a horizontal line; None draws no line.

    Raises:
        TrainingError: If an argument has the wrong type.
        MissingExtraError: If matplotlib is not installed.
    """
    _check(history, title, target)
    figure = plotting.new_figure(7.0, 4.0)
    axes = figure.add_subplot()
    axes.plot([record["steps"] for record in history], [record["return_mean"] for record in history], linewidth=2.0)
    if target is not None:
        axes.axhline(target, color=plotting.GREY, linestyle="--", linewidth=1.0)
    axes.set(xlabel="environment steps", ylabel="mean return of the last episodes", title=title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    return plotting.readable(figure)


def _check(history: Sequence[Record], title: object, target: object) -> None:
    checked_each(TrainingError, "learning_curve", "history", history, _is_record, "records of a training")
    if not isinstance(title, str) or not (target is None or is_number(target)):
        raise TrainingError(
            f"learning_curve: found `title={shown(title)}` and `target={shown(target)}`, expected a string, and a number or "
            "None. Correct them."
        )


def _is_record(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(value.get(name), (int, float)) for name in _DRAWN)


def save_learning_curve(path: Path, history: Sequence[Record], *, title: str = "", target: float | None = None) -> None:
    """Write the figure that `learning_curve` returns to the file `path`, as PNG.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    plotting.save(learning_curve(history, title=title, target=target), path)
