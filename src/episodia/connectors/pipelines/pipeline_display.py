"""Display of a pipeline as text and as notebook boxes: one line or box per piece, with the columns that it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from episodia.connectors.piece_arguments import settings_of
from episodia.connectors.pipelines.piece_lookup import SEPARATOR, Place, walk
from episodia.display.notebook_html import block, folded, text
from episodia.trees import shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2
    from episodia.connectors.pipelines.explaining import Columns, Trace


_MOST_ROWS = 60
_LONGEST_CELL = 60
_DECLARED = frozenset({"reads", "writes", "fills", "alters", "lookback", "kind", "is_stateful"})


def pipeline_text(pipeline: ConnectorPipelineV2) -> str:
    """Return the pieces of a pipeline, one line each: index, name, columns read and written, other declarations."""
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
    """Return a description of a pipeline in one line."""
    count = len(pipeline.connectors)
    pieces = "1 piece" if count == 1 else f"{count} pieces"
    return f"{type(pipeline).__name__}: {pieces}, lookback {pipeline.lookback}"


def _rows(pipeline: ConnectorPipelineV2) -> list[tuple[str, str, str, str]]:
    return [_row(place) for place in walk(pipeline)]


def _row(place: Place) -> tuple[str, str, str, str]:
    piece, indent = place.piece, "  " * (len(place.indices) - 1)
    index = indent + str(place.index)
    if piece.inner_pieces is not None:
        return index, indent + _title_of(place), "", ""
    flow = f"{_columns_text(piece.reads)} -> {_columns_text(piece.writes)}"
    return index, indent + _title_of(place), flow, ", ".join(facts_of(piece))


def _title_of(place: Place) -> str:
    """Return the name of a piece, followed by its class if the two differ."""
    name, kind = place.path.rsplit(SEPARATOR, 1)[-1], type(place.piece).__name__
    return name if name == kind else f"{name}: {kind}"


def facts_of(piece: ConnectorV2) -> list[str]:
    """Return the settings of a piece and its declarations other than columns."""
    settings = settings_text(piece)
    facts = [settings] if settings else []
    facts += [f"lookback {piece.lookback}"] if piece.lookback else []
    return [*facts, "stateful"] if piece.is_stateful else facts


def settings_text(piece: ConnectorV2, longest: int = _LONGEST_CELL) -> str:
    """Return the settings of a piece in one line: `num_frames=4, axis=0`; declarations are shown elsewhere."""
    settings = [f"{name}={value}" for name, value in settings_of(piece).items() if name not in _DECLARED]
    return shortened(", ".join(settings), longest)


def _columns_text(columns: Collection[str] | None) -> str:
    """Return the names of columns; a question mark if they are not declared."""
    if columns is None:
        return "?"
    text = ", ".join(sorted(columns)) or "-"
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 3]}..."


_MOST_PIECES = 60
_MOST_COLUMNS = 12
_LONGEST_CONTENT = 80

_BOX = "display:table;border:1px solid;border-radius:4px;padding:2px 10px;margin:2px 0"
_ARROW = "margin:0 0 0 14px;font-size:90%;line-height:1.35"


def pipeline_html(pipeline: ConnectorPipelineV2, trace: Trace | None) -> str:
    """Return the boxes of a pipeline; nested pipelines are nested boxes.

    Args:
        pipeline: The pipeline to display.
        trace: The batches of a run; without a trace, the arrows have no columns.
    """
    places = list(walk(pipeline))
    diagram = _Diagram(places[:_MOST_PIECES], trace)
    parts = list(diagram.parts(()))
    if len(places) > _MOST_PIECES:
        parts.append(f"<p>... and {len(places) - _MOST_PIECES} more pieces</p>")
    parts.append(f"<p>{_HINT}</p>" if trace is None else diagram.arrow(trace.returned, "returns"))
    return block(headline(pipeline), *parts)


_HINT = "After a run, or <code>explain(episodes)</code>, the arrows show the columns with their shapes."


@final
class _Diagram:
    """The boxes and arrows of a pipeline, in the order in which its pieces run."""

    def __init__(self, places: list[Place], trace: Trace | None) -> None:
        self._inside: dict[tuple[int, ...], list[Place]] = {}
        for place in places:
            self._inside.setdefault(place.indices[:-1], []).append(place)
        self._trace = trace
        self._before: Columns = {}

    def parts(self, outer: tuple[int, ...]) -> Iterator[str]:
        """Yield the boxes directly in the pipeline at `outer`, with an arrow between two boxes."""
        places = self._inside.get(outer, [])
        if not outer and self._trace is not None and self._trace.given:
            yield self.arrow(self._trace.given, "given")
        for place in places:
            yield self._box(place)
            if place is not places[-1]:
                yield self.arrow(self._made_by(place))

    def _box(self, place: Place) -> str:
        if place.piece.inner_pieces is not None:
            inner = "".join(self.parts(place.indices))
            return f"<div style='{_BOX}'><i>{text(_title_of(place))}</i>{inner}</div>"
        reads, writes = _columns_text(place.piece.reads), _columns_text(place.piece.writes)
        facts = "".join(f"<br>{text(fact)}" for fact in facts_of(place.piece))
        inside = f"<small>reads {text(reads)}<br>writes {text(writes)}{facts}</small>"
        return f"<div style='{_BOX}'>{folded(_title_of(place), inside)}</div>"

    def _made_by(self, place: Place) -> Columns:
        """Return the batch after a piece, or after the last piece of a pipeline."""
        inside = self._inside.get(place.indices)
        if inside:
            return self._made_by(inside[-1])
        # An empty pipeline does not change the batch.
        return self._before if self._trace is None else self._trace.after.get(place.indices, self._before)

    def arrow(self, now: Columns, label: str = "") -> str:
        """Return the arrow to the next box, with the columns that are new or changed since the last arrow."""
        before, self._before = self._before, now
        return _arrow(now, before, label)


def _arrow(now: Columns, before: Columns, label: str) -> str:
    """Return an arrow with the new and changed columns; unchanged columns are folded."""
    changed = [name for name in now if before.get(name) != now[name]]
    same = [name for name in now if before.get(name) == now[name]]
    gone = [name for name in before if name not in now]
    lines = [f"↓ {label}".rstrip()]
    lines += [_column(name, now[name]) for name in changed[:_MOST_COLUMNS]]
    if len(changed) > _MOST_COLUMNS:
        lines.append(f"... and {len(changed) - _MOST_COLUMNS} more columns")
    if gone:
        lines.append(f"<small>without {text(', '.join(gone))}</small>")
    shown = "<br>".join(lines)
    if same:
        inside = "<br>".join(_column(name, now[name]) for name in same[:_MOST_COLUMNS])
        more = f"<br>... and {len(same) - _MOST_COLUMNS} more" if len(same) > _MOST_COLUMNS else ""
        shown += f"<small>{folded(f'{len(same)} of the same shape as before', inside + more)}</small>"
    return f"<div style='{_ARROW}'>{shown}</div>"


def _column(name: str, content: str) -> str:
    return f"&nbsp;&nbsp;<b>{text(shortened(name, 60))}</b> {text(content, _LONGEST_CONTENT)}"
