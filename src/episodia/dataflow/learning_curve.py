"""The learning curve, as a picture."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from episodia.dataflow.training import Record
from episodia.errors import MissingExtraError


def learning_curve(history: Sequence[Record], *, title: str = "", target: float | None = None) -> Any:
    """Return a matplotlib figure of the mean return over the steps taken; notebooks show it.

    Args:
        history: Records of a training.
        title: What stands above.
        target: A line at this return.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    # Without pyplot: it would choose a window system, and remember every figure.
    figure = _matplotlib("figure").Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([record["steps"] for record in history], [record["return_mean"] for record in history], linewidth=2.0)
    if target is not None:
        axes.axhline(target, color="0.5", linestyle="--", linewidth=1.0)
    axes.set(xlabel="environment steps", ylabel="mean return of the last episodes", title=title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    return figure


def save_learning_curve(path: Path, history: Sequence[Record], *, title: str = "", target: float | None = None) -> None:
    """Write the picture that `learning_curve` returns into the file `path`, as PNG.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    figure = learning_curve(history, title=title, target=target)
    _matplotlib("backends.backend_agg").FigureCanvasAgg(figure)
    figure.savefig(path, dpi=120, format="png")


def _matplotlib(name: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise MissingExtraError(
            "learning curve: found no matplotlib, expected it to be installed. Install `episodia[train]`."
        ) from error
