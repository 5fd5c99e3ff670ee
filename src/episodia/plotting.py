"""matplotlib, which is optional: this is the only file that imports it, and not before something is drawn.

Figures are made without pyplot, which would choose a window system and remember each of them for ever. They are ordinary
figures that can be drawn into and saved, and notebooks show them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from episodia.errors import EpisodeError, MissingExtraError
from episodia.trees import shortened

_DOTS_PER_INCH = 110


def panels(
    titles: Sequence[str], ax: Any = None, *, heights: Sequence[float] | None = None, width: float = 8.0
) -> tuple[Any, list[Any]]:
    """Return a figure, and one axes of it for each of `titles`, from top to bottom.

    Args:
        titles: What the panels show; they are not written into them, messages name them.
        ax: Draw here: an axes, or as many as there are titles. By default a new figure is made.
        heights: Of each panel, in inches.
        width: Of the figure, in inches.

    Raises:
        MissingExtraError: If matplotlib is not installed.
        EpisodeError: If `ax` is something else.
    """
    kind = _matplotlib("axes").Axes
    if ax is not None:
        given = [ax] if isinstance(ax, kind) else _listed(ax)
        if len(given) != len(titles) or not all(isinstance(axes, kind) for axes in given):
            raise EpisodeError(
                f"plot: found `ax={ax!r}`, expected {len(titles)} axes of matplotlib, for {', '.join(titles)}. Pass as many, "
                "or say which columns to draw: `plot('rewards', ax=ax)`."
            )
        return given[0].figure, given
    heights = [2.0] * len(titles) if heights is None else heights
    figure = new_figure(width, sum(heights) + 0.5)
    grid = figure.add_gridspec(len(titles), height_ratios=list(heights))
    return figure, [figure.add_subplot(grid[position]) for position in range(len(titles))]


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure, with its size in inches.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    figure = _shown_by_notebooks(_matplotlib("figure").Figure)
    return figure(figsize=(width, height), layout="constrained", dpi=_DOTS_PER_INCH)


def save(figure: Any, path: Path) -> None:
    """Write `figure` into the file `path`, as PNG."""
    path.write_bytes(_png(figure))


def plain(label: object, longest: int = 40) -> str:
    """Return text for a figure: matplotlib takes what is between dollar signs for a formula, and fails if it is none."""
    return shortened(str(label), longest).replace("$", r"\$")


def count(axis: Any) -> None:
    """Let the ticks of `axis`, one of an axes, be whole numbers."""
    axis.set_major_locator(_matplotlib("ticker").MaxNLocator("auto", integer=True))


def _listed(ax: Any) -> list[Any]:
    try:
        return list(getattr(ax, "flat", ax))
    except TypeError:
        return []


def _png(figure: Any) -> bytes:
    file = BytesIO()
    # Figures made without pyplot have a canvas that writes every format.
    figure.savefig(file, format="png")
    return file.getvalue()


@cache
def _shown_by_notebooks(figure: type[Any]) -> type[Any]:
    """Return a kind of figure that notebooks show as a picture; those of pyplot are the only ones that they know otherwise."""
    return type("Figure", (figure,), {"_repr_png_": _png, "__module__": __name__})


def _matplotlib(name: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise MissingExtraError(
            'plot: found no matplotlib, expected it to be installed. Run `pip install "episodia[plot]"`.'
        ) from error
