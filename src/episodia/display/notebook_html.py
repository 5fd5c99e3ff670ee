"""HTML for notebooks: rows, tables and foldable blocks, without scripts and without colours.

Data passes through `text`, which shortens and escapes it. Lines have the colour of the text, so they are visible on dark and
light pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from episodia.trees import shortened

_LONGEST_TEXT = 120


def text(value: str, longest: int = _LONGEST_TEXT) -> str:
    """Return `value` as HTML, at most `longest` characters of it.

    >>> text("<b>"), text("x" * 100, 8)
    ('&lt;b&gt;', 'xxxxx...')
    """
    return escape(shortened(value, longest))


def bytes_text(count: int) -> str:
    """Return a number of bytes with a unit.

    >>> bytes_text(12), bytes_text(1_500), bytes_text(2_500_000_000)
    ('12 B', '1.5 kB', '2.5 GB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} GB"


def row(cells: Iterable[str], longest: int = _LONGEST_TEXT) -> str:
    """Return a row of a table; `cells` are plain text, of which at most `longest` characters are shown."""
    return "<tr>" + "".join(f"<td style='{_CELL}'>{text(cell, longest)}</td>" for cell in cells) + "</tr>"


def folded_row(summary: str, inside: str, width: int) -> str:
    """Return a row over `width` columns that shows the text `summary`, and the HTML `inside` when it is opened."""
    return f"<tr><td style='{_CELL}' colspan='{width}'>{folded(summary, inside)}</td></tr>"


def folded(summary: str, inside: str) -> str:
    """Return a block that shows the text `summary`, and the HTML `inside` when it is opened."""
    return f"<details><summary>{text(summary)}</summary>{inside}</details>"


def table(titles: Sequence[str], rows: Iterable[str], hidden: str = "") -> str:
    """Return a table of rows from `row` and `folded_row`.

    Args:
        titles: The titles of the columns.
        rows: The rows, as HTML.
        hidden: The rows that are left out, such as "3 more agents"; empty if all rows are shown.
    """
    head = "".join(f"<th style='{_CELL}'>{text(title)}</th>" for title in titles)
    more = f"<p>... and {text(hidden)}</p>" if hidden else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def block(headline: str, *parts: str) -> str:
    """Return the HTML `parts` under the text `headline`; wide parts can be scrolled."""
    return f"<div style='overflow-x:auto'><b>{text(headline, 2 * _LONGEST_TEXT)}</b>{''.join(parts)}</div>"


# Leading spaces of a cell are indentation.
_CELL = "text-align:left;white-space:pre"
