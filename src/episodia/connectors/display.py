"""How a pipeline looks: a line for each piece, with what it reads and writes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from episodia.connectors.names import SEPARATOR
from episodia.connectors.places import Place, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from episodia.connectors.connector_pipeline import ConnectorPipelineV2

_MOST_ROWS = 60
_LONGEST_CELL = 60


def pipeline_text(pipeline: ConnectorPipelineV2) -> str:
    """Return the pieces of a pipeline, one line each: index, name, columns read and written, and what else is declared."""
    rows = _rows(pipeline)
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [_headline(pipeline)]
    for row in rows[:_MOST_ROWS]:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append(("  " + "  ".join([*padded, row[3]])).rstrip())
    if len(rows) > _MOST_ROWS:
        lines.append(f"  ... and {len(rows) - _MOST_ROWS} more pieces")
    return "\n".join(lines)


def pipeline_html(pipeline: ConnectorPipelineV2) -> str:
    """Return the pieces of a pipeline as a table; all text from outside is escaped."""
    rows = _rows(pipeline)
    return html_table(
        _headline(pipeline), ("", "piece", "reads → writes", ""), rows[:_MOST_ROWS], len(rows) - _MOST_ROWS
    )


def html_table(headline: str, titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], hidden: int = 0) -> str:
    """Return a table with a headline; spaces at the begin of a cell are kept as indentation."""
    style = "style='text-align:left;white-space:pre'"
    head = "".join(f"<th {style}>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td {style}>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    more = f"<p>... and {hidden} more rows</p>" if hidden > 0 else ""
    return (
        f"<div><b>{escape(headline)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}</div>"
    )


def _headline(pipeline: ConnectorPipelineV2) -> str:
    count = len(pipeline.connectors)
    pieces = "1 piece" if count == 1 else f"{count} pieces"
    return f"{type(pipeline).__name__}: {pieces}, lookback {pipeline.lookback}"


def _rows(pipeline: ConnectorPipelineV2) -> list[tuple[str, str, str, str]]:
    return [_row(place) for place in walk(pipeline)]


def _row(place: Place) -> tuple[str, str, str, str]:
    piece, indent = place.piece, "  " * (len(place.indices) - 1)
    name = place.path.rsplit(SEPARATOR, 1)[-1]
    kind = type(piece).__name__
    title = name if name == kind else f"{name}: {kind}"
    index = indent + str(place.index)
    if piece._pieces is not None:
        return index, indent + title, "", ""
    facts = [f"lookback {piece.lookback}"] if piece.lookback else []
    facts += ["stateful"] if piece.is_stateful else []
    return index, indent + title, f"{_columns(piece.reads)} -> {_columns(piece.writes)}", ", ".join(facts)


def _columns(columns: Collection[str] | None) -> str:
    if columns is None:
        return "?"
    text = ", ".join(sorted(columns)) or "-"
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 3]}..."
