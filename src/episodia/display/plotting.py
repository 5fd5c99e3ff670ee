"""Figures of matplotlib, which is optional: only this file imports it, when a figure is drawn.

Figures are made without pyplot, which would open a window system and keep every figure in memory. They can be edited and
saved like other figures, and notebooks show them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from episodia.errors import EpisodeError, MissingExtraError
from episodia.trees import shortened, shown

_DOTS_PER_INCH = 110

#: The colour of texts and marks: a grey that is seen on white and on black.
GREY = "#808080"


def panels(
    titles: Sequence[str], ax: Any = None, *, heights: Sequence[float] | None = None, width: float = 8.0
) -> tuple[Any, list[Any]]:
    """Return a figure with one axes per title, from top to bottom.

    Args:
        titles: The names of the panels in error messages; they are not drawn.
        ax: One axes, or one per title, to draw into. None makes a new figure.
        heights: The height of each panel, in inches.
        width: The width of the figure, in inches.

    Raises:
        MissingExtraError: If matplotlib is not installed.
        EpisodeError: If `ax` is not as many axes as there are titles.
    """
    kind = _matplotlib("axes").Axes
    if ax is not None:
        given = [ax] if isinstance(ax, kind) else _listed(ax)
        if len(given) != len(titles) or not all(isinstance(axes, kind) for axes in given):
            raise EpisodeError(
                f"plot: found `ax={shown(ax)}`, expected {len(titles)} matplotlib axes, for {', '.join(titles)}. Pass as many, "
                "or choose columns: `plot('rewards', ax=ax)`."
            )
        return given[0].figure, given
    heights = [2.0] * len(titles) if heights is None else heights
    figure = new_figure(width, sum(heights) + 0.5)
    grid = figure.add_gridspec(len(titles), height_ratios=list(heights))
    return figure, [figure.add_subplot(grid[position]) for position in range(len(titles))]


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size, in inches.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    figure = _shown_by_notebooks(_matplotlib("figure").Figure)
    return figure(figsize=(width, height), layout="constrained", dpi=_DOTS_PER_INCH)


def readable(figure: Any) -> Any:
    """Make a figure of `panels` or `new_figure` readable on light and dark pages, and return it: grey on no background."""
    figure.patch.set_alpha(0.0)
    for text in figure.findobj(_matplotlib("text").Text):
        text.set_color(GREY)
    for axes in figure.axes:
        axes.patch.set_alpha(0.0)
        axes.tick_params(colors=GREY)
        for spine in axes.spines.values():
            spine.set_edgecolor(GREY)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write `figure` to the file `path`, as PNG."""
    path.write_bytes(_png(figure))


def plain(label: object, longest: int = 40) -> str:
    """Return `label` as text with escaped dollar signs, which matplotlib would read as the limits of a formula."""
    return shortened(str(label), longest).replace("$", r"\$")


def count(axis: Any) -> None:
    """Place the ticks of `axis`, such as `axes.xaxis`, at integers."""
    axis.set_major_locator(_matplotlib("ticker").MaxNLocator("auto", integer=True))


def _listed(ax: Any) -> list[Any]:
    try:
        return list(getattr(ax, "flat", ax))
    except TypeError:
        return []


def _png(figure: Any) -> bytes:
    file = BytesIO()
    # Figures without pyplot have a canvas that writes all formats.
    figure.savefig(file, format="png")
    return file.getvalue()


@cache
def _shown_by_notebooks(figure: type[Any]) -> type[Any]:
    """Return a subclass of `figure` that notebooks show as a picture, which they do only for pyplot otherwise."""
    return type("Figure", (figure,), {"_repr_png_": _png, "__module__": __name__})


def _matplotlib(name: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ImportError as error:
        raise MissingExtraError(
            'plot: found that matplotlib is not installed, expected it. Run `pip install "episodia[plot]"`.'
        ) from error
