"""A compiled pipeline: a flat list of functions, compiled once for the pieces, the module and the layout.

A piece with a column form (`ConnectorV2.compile`) contributes that form; every other piece is called. The result is the same
as that of calling the pieces one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Any, Protocol, final

from episodia.connectors.batches.items_by_episode import with_items, without_items
from episodia.connectors.batches.rows_by_key import KeyedBatch, without_keys
from episodia.connectors.pipelines.checks.forbidden_changes import (
    check_changed_episodes,
    check_late_actions,
    derived_actions,
    num_edits_of,
)
from episodia.connectors.pipelines.current_run import RUNNING, Run
from episodia.connectors.pipelines.piece_failures import cause_of, failure

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.column_piece import ColumnPiece
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2

# Runs one piece on the batch of a run.
Step = Callable[[Run], None]


@dataclass(frozen=True)
class Layout:
    """The module, the episodes and the next piece that a plan is compiled for.

    Attributes:
        rl_module: The module, or modules by their ids.
        episodes: The class of the list of episodes. `LiveEpisodes` guarantees at least one episode, one row per episode,
            and one module for all of them.
        next_piece: The next piece in the pipeline if it has a column form; None otherwise.
        is_last: Whether no piece follows, also in the pipelines around.
        follows_module: Whether the batch holds outputs of the module, as in a module-to-env pipeline.
    """

    rl_module: Any
    episodes: type[Any]
    next_piece: ConnectorV2 | None = None
    is_last: bool = True
    follows_module: bool = False

    def is_followed_by(self, kind: type[ColumnPiece]) -> bool:
        """Return whether the next piece does exactly the work of `kind`, not that of a subclass that overrides it."""
        next_kind = type(self.next_piece)
        return issubclass(next_kind, kind) and next_kind.work is kind.work and next_kind.compile is kind.compile


class Watching(Protocol):
    """Called before and after each piece when a pipeline is explained or runs for the first time."""

    def enter(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Record the `batch` that `piece` gets."""

    def leave(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Record the `batch` that `piece` returned."""


@final
class Plan:
    """The steps of a pipeline, in the order in which they run. The step of a nested pipeline is its own plan.

    Attributes:
        rl_module: The module that the plan was compiled for.
    """

    __slots__ = ("_calls_pieces", "_pieces", "_pipeline", "_steps", "rl_module")

    def __init__(self, pipeline: ConnectorPipelineV2, layout: Layout) -> None:
        """Compile `pipeline` for `layout`."""
        self.rl_module = layout.rl_module
        self._pipeline = pipeline
        self._pieces = pipeline.connectors
        compiled = _compiled(self._pieces, layout)
        self._steps = [
            _calling(piece, layout) if step is None else _watching_episodes(piece, step)
            for piece, step in zip(self._pieces, compiled, strict=True)
        ]
        # The static helpers of called pieces look up the current run.
        self._calls_pieces = None in compiled

    def __call__(self, run: Run) -> None:
        """Run all steps; the result is `run.batch`.

        Raises:
            ConnectorError: If a step fails; `__cause__` is the error of the piece.
        """
        token = RUNNING.set(run) if self._calls_pieces else None
        steps = iter(self._steps)
        try:
            for step in steps:
                step(run)
        except Exception as error:  # noqa: BLE001  # every error of a piece is reported
            position = len(self._steps) - 1 - length_hint(steps)
            raise failure(self._pipeline, position, self._pieces[position], run, error) from cause_of(error)
        finally:
            if token is not None:
                RUNNING.reset(token)

    def watched(self, run: Run, watcher: Watching) -> None:
        """Run all steps, and call `watcher` for those that are not pipelines."""
        told = copy(self)
        told._steps = [_watched(*step, watcher) for step in zip(self._steps, self._pieces, strict=True)]
        told(run)


def _compiled(pieces: Sequence[ConnectorV2], layout: Layout) -> list[Step | None]:
    """Return the column form of each piece; compiled from last to first, because each needs to know its next piece."""
    steps: list[Step | None] = []
    next_piece: ConnectorV2 | None = None
    is_last: bool = True
    for piece in reversed(pieces):
        is_last = layout.is_last and not steps
        steps.append(_column_form(piece, replace(layout, next_piece=next_piece, is_last=is_last)))
        next_piece = None if steps[-1] is None else piece
    return steps[::-1]


def _column_form(piece: ConnectorV2, layout: Layout) -> Step | None:
    """Return the column form of `piece`; None if there is no such form, or if a subclass overrides `__call__`."""
    mro = type(piece).__mro__
    called = next(index for index, kind in enumerate(mro) if "__call__" in vars(kind))
    compiled = next(index for index, kind in enumerate(mro) if "compile" in vars(kind))
    return piece.compile(layout) if compiled <= called else None


def _calling(piece: ConnectorV2, layout: Layout) -> Step:
    """Return the step that calls a piece."""
    follows_module = layout.follows_module
    takes_items = piece.takes_items
    called = piece.__call__ if piece.inner_pieces is None else partial(piece.__call__, _nested=True)

    def call(run: Run) -> None:
        given, episodes, writes = run.batch, run.episodes, run.writes
        # The piece changes a dict of its own.
        run.given, run.at_episode = given, None
        num_edits = 0 if episodes is None else episodes.num_edits
        if writes is not None:
            writes.begin(run)
        derived = derived_actions(given) if follows_module else None
        if takes_items:
            run.batch = batch = with_items(run, follows_module=follows_module)
        elif type(given) is dict:
            run.batch = batch = KeyedBatch(given)
            batch.origin = run, ()
        else:
            batch, run.given = given, given.copy()
        made = called(
            rl_module=run.rl_module,
            batch=batch,
            data=batch,  # the name that older plugins have for the batch
            episodes=episodes,
            explore=run.explore,
            shared_data=run.shared_data,
            metrics=run.metrics,
            **run.others,
        )
        run.batch = given
        if not isinstance(made, dict):
            raise _no_batch(made)
        run.replace(without_items(made, run, follows_module=follows_module) if takes_items else without_keys(made))
        if derived:
            check_late_actions(derived, run.batch)
        if episodes is not None and episodes.num_edits != num_edits:
            check_changed_episodes(piece, run.given)
        if writes is not None:
            writes.end(piece, run)
        run.given = None

    return call


def _no_batch(made: object) -> TypeError:
    return TypeError(
        f"found {type(made).__name__} as the return value of the piece, expected the batch, a dict. End its `__call__` with "
        "`return batch`."
    )


def _watching_episodes(piece: ConnectorV2, step: Step) -> Step:
    """Return the step of a piece with a column form; if it changes the list of episodes, later pieces see other rows."""
    if not piece.changes_episodes or isinstance(step, Plan):
        return step

    def changing(run: Run) -> None:
        given, num_edits = run.batch.copy(), num_edits_of(run)
        step(run)
        if num_edits_of(run) != num_edits:
            check_changed_episodes(piece, given)
            run.replace(run.batch)

    return changing


def _watched(step: Step, piece: ConnectorV2, watcher: Watching) -> Step:
    if isinstance(step, Plan):
        return lambda run: step.watched(run, watcher)

    def watched(run: Run) -> None:
        watcher.enter(piece, run.batch)
        step(run)
        watcher.leave(piece, run.batch)

    return watched
