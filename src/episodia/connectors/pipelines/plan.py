"""A compiled pipeline: its pieces as a flat list of functions, made once for the pieces, the module and the layout.

A piece that has a form for whole columns (`ConnectorV2.compile`) takes part with it; every other piece is called as it is. What
the plan does is what calling the pieces one after another does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, final

from episodia.connectors.pipelines.current_run import RUNNING, Run
from episodia.connectors.pipelines.piece_failures import cause_of, failure

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2

# Does the work of one piece on the batch of a run.
Step = Callable[[Run], None]


@dataclass(frozen=True)
class Layout:
    """What a plan is made for, beside its pieces.

    Attributes:
        rl_module: The module, or modules by their ids.
        episodes: The class of the list of episodes. Of `LiveEpisodes` it is known that they have one row each, that there are
            some, and that all belong to one module.
        next_piece: The piece that comes next in the pipeline, if that has a column form; None otherwise.
        is_last: Whether no piece comes after the one that is compiled, also in the pipelines around it.
    """

    rl_module: Any
    episodes: type[Any]
    next_piece: ConnectorV2 | None = None
    is_last: bool = True


class Watching(Protocol):
    """Told before and after each piece, when a pipeline is explained or runs for the first time."""

    def enter(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Take note that `piece` gets `batch`."""

    def leave(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Take note that `piece` has made `batch`."""


@final
class Plan:
    """The steps of a pipeline, in the order in which they run. A nested pipeline is a step, too: its own plan.

    Attributes:
        rl_module: The module that the plan was made for.
    """

    __slots__ = ("_calls_pieces", "_pieces", "_pipeline", "_steps", "rl_module")

    def __init__(self, pipeline: ConnectorPipelineV2, layout: Layout) -> None:
        """Compile `pipeline` for `layout`."""
        self.rl_module = layout.rl_module
        self._pipeline = pipeline
        self._pieces = pipeline.connectors
        compiled = _compiled(self._pieces, layout)
        self._steps = [step or _calling(piece) for piece, step in zip(self._pieces, compiled, strict=True)]
        # The static helpers of pieces that are called look for the run around them.
        self._calls_pieces = None in compiled

    def __call__(self, run: Run) -> None:
        """Do all steps; the result is `run.batch`.

        Raises:
            ConnectorError: If a step fails; `__cause__` is what it raised.
        """
        token = RUNNING.set(run) if self._calls_pieces else None
        position = 0
        try:
            for step in self._steps:
                step(run)
                position += 1
        except Exception as error:  # noqa: BLE001  # whatever a piece raises is reported
            raise failure(self._pipeline, position, self._pieces[position], run, error) from cause_of(error)
        finally:
            if token is not None:
                RUNNING.reset(token)

    def watched(self, run: Run, watcher: Watching) -> None:
        """Do all steps, and tell `watcher` of those that are not pipelines themselves."""
        told = copy(self)
        told._steps = [_watched(*step, watcher) for step in zip(self._steps, self._pieces, strict=True)]
        told(run)


def _compiled(pieces: Sequence[ConnectorV2], layout: Layout) -> list[Step | None]:
    """Return the column form of each piece, from the last to the first: each is told which piece comes next."""
    steps: list[Step | None] = []
    next_piece: ConnectorV2 | None = None
    is_last: bool = True
    for piece in reversed(pieces):
        is_last = layout.is_last and not steps
        steps.append(column_form(piece, replace(layout, next_piece=next_piece, is_last=is_last)))
        next_piece = None if steps[-1] is None else piece
    return steps[::-1]


def column_form(piece: ConnectorV2, layout: Layout) -> Step | None:
    """Return the form of `piece` for whole columns; None if it has none, or if a subclass changes how it is called."""
    mro = type(piece).__mro__
    called = next(index for index, kind in enumerate(mro) if "__call__" in vars(kind))
    compiled = next(index for index, kind in enumerate(mro) if "compile" in vars(kind))
    return piece.compile(layout) if compiled <= called else None


def _calling(piece: ConnectorV2) -> Step:
    """Return the step that calls a piece as it is."""
    nested: dict[str, Any] = {} if piece._pieces is None else {"_nested": True}

    def call(run: Run) -> None:
        run.given, run.at_episode = run.batch.copy(), None
        made = piece(**run.arguments(), **nested)
        if not isinstance(made, dict):
            raise TypeError(
                f"found {type(made).__name__} as what the piece returned, expected the batch, a dict. End its `__call__` with "
                "`return batch`."
            )
        run.replace(made)
        run.given = None

    return call


def _watched(step: Step, piece: ConnectorV2, watcher: Watching) -> Step:
    if isinstance(step, Plan):
        return lambda run: step.watched(run, watcher)

    def watched(run: Run) -> None:
        watcher.enter(piece, run.batch)
        step(run)
        watcher.leave(piece, run.batch)

    return watched
