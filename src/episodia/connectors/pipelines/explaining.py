"""Reports of a pipeline's run: the columns after each piece with shapes and dtypes, time and bytes."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, final

from episodia.connectors.batches.batch_descriptions import bytes_of, columns_of, describe_column
from episodia.connectors.batches.tracked_batch import fingerprint
from episodia.connectors.pipelines.current_run import Run, copied, unwrapped
from episodia.connectors.pipelines.piece_lookup import walk
from episodia.connectors.pipelines.pipeline_display import settings_text
from episodia.display.notebook_html import block, bytes_text, row, table
from episodia.episodes.lists.episode_list import Episodes
from episodia.modules.protocol import Modules

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


Change = Literal["new", "changed", "same", "gone"]

_MOST_ROWS = 300
# Nothing that fits into memory is cut off.
_ANY_LENGTH = sys.maxsize
_NOTE = "ragged: the rows of all episodes, one after another; a stretch is the rows of one episode."
_NOTE_ON_TAILS = "tails: one more row for each episode, of the observation after its last step."


@dataclass(frozen=True, kw_only=True)
class ColumnDescription:
    """A column after a piece."""

    name: str
    change: Change
    content: str  # shapes and dtypes; empty if the column was removed
    nbytes: int


@dataclass(frozen=True, kw_only=True)
class PieceReport:
    """The report of one piece."""

    piece: str
    settings: str  # `num_frames=4, axis=0`; empty if all are defaults
    place: tuple[int, ...]
    seconds: float
    columns: tuple[ColumnDescription, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of all columns after the piece."""
        return sum(column.nbytes for column in self.columns)

    @property
    def contents(self) -> dict[str, str]:
        """The columns after the piece, with their shapes and dtypes."""
        return {column.name: column.content for column in self.columns if column.change != "gone"}


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation:
    """The reports of all pieces of a pipeline. It prints as a table, and notebooks display a table."""

    pipeline: str
    pieces: tuple[PieceReport, ...]
    batch: dict[str, Any]  # the batch that the pipeline returned
    trace: Trace = field(repr=False)

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[column]) for row in [_TITLES, *rows]) for column in range(len(_TITLES))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in [_TITLES, *rows]]
        return "\n".join([self._headline(), *lines, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self._rows()
        hidden = f"{len(rows) - _MOST_ROWS} more rows" if len(rows) > _MOST_ROWS else ""
        shown = (row(cells, _ANY_LENGTH) for cells in rows[:_MOST_ROWS])
        return block(self._headline(), table(_TITLES, shown, hidden), *(f"<p>{note}</p>" for note in self._notes()))

    def _notes(self) -> list[str]:
        contents = " ".join(column.content for report in self.pieces for column in report.columns)
        return [note for word, note in (("stretches", _NOTE), ("tails", _NOTE_ON_TAILS)) if word in contents]

    def _headline(self) -> str:
        return f"{self.pipeline}: {_time_text(sum(piece.seconds for piece in self.pieces))}"

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for report in self.pieces:
            where, spent, total = (
                ".".join(map(str, report.place)),
                _time_text(report.seconds),
                bytes_text(report.nbytes),
            )
            settings = f"({report.settings})" if report.settings else ""
            rows.append((where, report.piece + settings, spent, total, "", "", ""))
            rows += [("", "", "", "", _MARKS[column.change], column.name, column.content) for column in report.columns]
        return rows


_TITLES = ("", "piece", "time", "bytes", "", "column", "content")
_MARKS: dict[Change, str] = {"new": "+", "changed": "*", "same": " ", "gone": "-"}


def _time_text(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def explain(
    pipeline: ConnectorPipelineV2,
    episodes: Episodes | None,
    rl_module: Modules,
    *,
    batch: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Explanation:
    """Run a copy of `pipeline` on copy-on-write forks of `episodes`, and return the report of each piece."""
    with _stand_in(pipeline) as trial:
        trial.check_module(rl_module)
        prepared = trial.prepared(episodes)
        forks = None if prepared is None else prepared.forked()
        watcher = PieceWatcher(trial)
        run = _run(copied(batch), forks, rl_module, **kwargs)
        trial.plan_for(run).watched(run, watcher)
    reports, returned = tuple(watcher.reports), unwrapped(run.batch)
    trace = Trace(described(batch or {}), {report.place: report.contents for report in reports}, described(returned))
    return Explanation(pipeline=type(pipeline).__name__, pieces=reports, batch=returned, trace=trace)


def _run(
    batch: dict[str, Any],
    episodes: Episodes | None,
    rl_module: Modules,
    *,
    explore: bool | None = None,
    shared_data: dict[Any, Any] | None = None,
    metrics: object = None,
    **others: Any,
) -> Run:
    return Run(batch, episodes, rl_module, explore, {} if shared_data is None else shared_data, metrics, others)


@contextmanager
def _stand_in(pipeline: ConnectorPipelineV2) -> Iterator[ConnectorPipelineV2]:
    """Yield a copy of `pipeline`; if it cannot be copied, yield `pipeline` and restore its state afterwards."""
    try:
        trial = copy.deepcopy(pipeline)
    except Exception:  # noqa: BLE001  # plugins may hold anything that cannot be copied
        state = copy.deepcopy(pipeline.get_state())
        try:
            yield pipeline
        finally:
            pipeline.set_state(state)
    else:
        yield trial


@final
class PieceWatcher:
    """Watcher that keeps a report of each piece that is not a pipeline."""

    def __init__(self, pipeline: ConnectorPipelineV2) -> None:
        self.reports: list[PieceReport] = []
        self._places = {id(place.piece): place for place in walk(pipeline)}
        self._before: dict[str, Any] = {}
        self._began = 0.0

    def enter(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Record the batch before `piece` runs."""
        if piece.inner_pieces is None:
            self._before = {name: fingerprint(column) for name, column in columns_of(batch)}
            self._began = perf_counter()

    def leave(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Record the batch after `piece`."""
        if piece.inner_pieces is not None:
            return
        seconds = perf_counter() - self._began
        place = self._places[id(piece)]
        columns = [self._report(name, column) for name, column in columns_of(batch)]
        there = {column.name for column in columns}
        gone = [
            ColumnDescription(name=name, change="gone", content="", nbytes=0)
            for name in self._before
            if name not in there
        ]
        self.reports.append(
            PieceReport(
                piece=place.path,
                settings=settings_text(piece, _ANY_LENGTH),
                place=place.indices,
                seconds=seconds,
                columns=(*columns, *gone),
            )
        )

    def _report(self, name: str, column: Any) -> ColumnDescription:
        change: Change = "new"
        if name in self._before:
            change = "same" if fingerprint(column) == self._before[name] else "changed"
        content = describe_column(column, _ANY_LENGTH)
        return ColumnDescription(name=name, change=change, content=content, nbytes=bytes_of(column))


# The columns of a batch, each with a description of its shapes and dtypes.
Columns = Mapping[str, str]


@final
@dataclass(frozen=True)
class Trace:
    """The batches of one run of a pipeline.

    Attributes:
        given: The batch that the pipeline was given.
        after: The batch after each piece that is not a pipeline, by the place of the piece.
        returned: The batch that the pipeline returned.
    """

    given: Columns
    after: Mapping[tuple[int, ...], Columns]
    returned: Columns


@final
class Tracer:
    """Watcher that records the batch after each piece."""

    def __init__(self, pipeline: ConnectorPipelineV2, batch: Mapping[Any, Any] | None) -> None:
        self._places = {id(place.piece): place.indices for place in walk(pipeline)}
        self._given = described(batch or {})
        self._after: dict[tuple[int, ...], Columns] = {}

    def enter(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Do nothing: the batch before a piece is the batch after the previous piece."""

    def leave(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Record the batch after `piece`."""
        # If a piece edits its pipeline during the run, pieces run that were not there before.
        if piece.inner_pieces is None and id(piece) in self._places:
            self._after[self._places[id(piece)]] = described(batch)

    def trace(self, returned: Mapping[Any, Any]) -> Trace:
        """Return the recorded batches and the batch that the pipeline returned."""
        return Trace(self._given, self._after, described(returned))


def described(batch: Mapping[Any, Any]) -> Columns:
    """Return a description of each column of `batch`.

    >>> described({"obs": [1, 2]})
    {'obs': 'list of 2 (1)'}
    """
    try:
        return {name: describe_column(column) for name, column in columns_of(batch)}
    except Exception:  # noqa: BLE001  # an object without a working repr must not stop a run
        return {str(name): "?" for name in batch}
