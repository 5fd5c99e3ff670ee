"""What notebooks show: small pieces of HTML without scripts, in the colours of whatever theme surrounds them.

Everything that comes from outside goes through `text`, which cuts it short and escapes it. No colour is ever named: lines are
drawn in the colour of the text, so they can be seen on dark and on light pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from episodia.trees import shortened

LONGEST_TEXT = 120


def text(value: str, longest: int = LONGEST_TEXT) -> str:
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


def row(cells: Iterable[str]) -> str:
    """Return a row of a table; the cells are any text."""
    return "<tr>" + "".join(f"<td style='{_CELL}'>{text(cell)}</td>" for cell in cells) + "</tr>"


def folded_row(summary: str, inside: str, width: int) -> str:
    """Return a row over `width` columns that shows `summary`, any text, and when it is opened `inside`, which is HTML."""
    return f"<tr><td style='{_CELL}' colspan='{width}'>{folded(summary, inside)}</td></tr>"


def folded(summary: str, inside: str) -> str:
    """Return what shows `summary`, any text, and when it is opened `inside`, which is HTML."""
    return f"<details><summary>{text(summary)}</summary>{inside}</details>"


def table(titles: Sequence[str], rows: Iterable[str], hidden: str = "") -> str:
    """Return a table of rows that `row` and `folded_row` have made.

    Args:
        titles: What stands above the columns.
        rows: The rows, as HTML.
        hidden: What is left out, such as "3 more agents"; empty if nothing is.
    """
    head = "".join(f"<th style='{_CELL}'>{text(title)}</th>" for title in titles)
    more = f"<p>... and {text(hidden)}</p>" if hidden else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


def block(headline: str, *parts: str) -> str:
    """Return parts, which are HTML, under a headline, which is any text; what is too wide can be scrolled."""
    return f"<div style='overflow-x:auto'><b>{text(headline, 2 * LONGEST_TEXT)}</b>{''.join(parts)}</div>"


# Spaces at the begin of a cell are indentation.
_CELL = "text-align:left;white-space:pre"
