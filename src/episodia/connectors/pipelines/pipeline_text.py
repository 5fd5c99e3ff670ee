"""How a pipeline looks: a line for each piece, with what it reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from episodia.connectors.piece_arguments import settings_of
from episodia.connectors.pipelines.piece_lookup import Place, walk
from episodia.connectors.pipelines.piece_names import SEPARATOR
from episodia.trees import shortened

if TYPE_CHECKING:
    from collections.abc import Collection

    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2

_MOST_ROWS = 60
_LONGEST_CELL = 60
_DECLARED = frozenset({"reads", "writes", "fills", "alters", "lookback", "kind", "is_stateful"})


def pipeline_text(pipeline: ConnectorPipelineV2) -> str:
    """Return the pieces of a pipeline, one line each: index, name, columns read and written, and what else is declared."""
    rows = _rows(pipeline)
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [headline(pipeline)]
    for row in rows[:_MOST_ROWS]:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append(("  " + "  ".join([*padded, row[3]])).rstrip())
    if len(rows) > _MOST_ROWS:
        lines.append(f"  ... and {len(rows) - _MOST_ROWS} more pieces")
    return "\n".join(lines)


def headline(pipeline: ConnectorPipelineV2) -> str:
    """Return what a pipeline is, in one line."""
    count = len(pipeline.connectors)
    pieces = "1 piece" if count == 1 else f"{count} pieces"
    return f"{type(pipeline).__name__}: {pieces}, lookback {pipeline.lookback}"


def _rows(pipeline: ConnectorPipelineV2) -> list[tuple[str, str, str, str]]:
    return [_row(place) for place in walk(pipeline)]


def _row(place: Place) -> tuple[str, str, str, str]:
    piece, indent = place.piece, "  " * (len(place.indices) - 1)
    index = indent + str(place.index)
    if piece._pieces is not None:
        return index, indent + title_of(place), "", ""
    flow = f"{columns_text(piece.reads)} -> {columns_text(piece.writes)}"
    return index, indent + title_of(place), flow, ", ".join(facts_of(piece))


def title_of(place: Place) -> str:
    """Return the name of a piece, with its class if it has another name."""
    name, kind = place.path.rsplit(SEPARATOR, 1)[-1], type(place.piece).__name__
    return name if name == kind else f"{name}: {kind}"


def facts_of(piece: ConnectorV2) -> list[str]:
    """Return the settings of a piece, and what it declares beside its columns."""
    settings = settings_text(piece)
    facts = [settings] if settings else []
    facts += [f"lookback {piece.lookback}"] if piece.lookback else []
    return [*facts, "stateful"] if piece.is_stateful else facts


def settings_text(piece: ConnectorV2) -> str:
    """Return the settings of a piece in one line: `num_frames=4, axis=0`; declarations have columns of their own."""
    settings = [f"{name}={value}" for name, value in settings_of(piece).items() if name not in _DECLARED]
    return shortened(", ".join(settings), _LONGEST_CELL)


def columns_text(columns: Collection[str] | None) -> str:
    """Return the names of columns; a question mark if they are not declared."""
    if columns is None:
        return "?"
    text = ", ".join(sorted(columns)) or "-"
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 3]}..."
