"""Checks of a pipeline when it is built: each piece finds the columns that it reads, with the values that it expects.

A piece that does not declare what it writes may write anything. After such a piece, the checks report no missing columns and
no clashes with writers before it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from episodia.columns import Columns
from episodia.connectors.batches.module_outputs import is_container, is_stateful, members
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.checks.forbidden_changes import check_places_of_changes
from episodia.connectors.pipelines.piece_lookup import Place, leaves
from episodia.errors import PipelineError
from episodia.modules.protocol import Modules

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


def check_pipeline(pipeline: ConnectorPipelineV2) -> None:
    """Check that the pieces of an outermost pipeline fit together.

    Raises:
        PipelineError: If a piece reads a column that no earlier piece writes, if a piece overwrites a column that it does
            not read, if a piece changes a column from which an earlier piece has derived values, if a declaration
            is invalid, or if a piece rejects its place.
    """
    places = leaves(pipeline)
    for place in places:
        _check_declarations(pipeline, place)
        place.piece.check_place(pipeline)
    check_places_of_changes(pipeline, places)
    is_open = pipeline.given_columns is None
    writers: dict[str, Place | None] = dict.fromkeys(pipeline.given_columns or ())
    for position, place in enumerate(places):
        reads, writes = place.piece.reads, place.piece.writes
        if reads is not None and not is_open:
            _check_reads(pipeline, place, writers.keys(), places[position + 1 :])
        if writes is None:
            # The piece may have written or removed any column.
            is_open, writers = True, {}
            continue
        if reads is not None:
            _check_writes(pipeline, place, writers)
        writers |= dict.fromkeys(writes, place)
    _check_order(pipeline, places)


def _check_reads(pipeline: ConnectorPipelineV2, place: Place, known: Collection[str], later: list[Place]) -> None:
    for column in sorted(set(place.piece.reads or ()) - set(known)):
        writer = next((other for other in later if column in (other.piece.writes or ())), None)
        there = f"the columns there are {sorted(known)}" if known else "there are no columns yet"
        if writer is None:
            problem = f"which no piece before it writes ({there})"
            remedy = f"Insert a piece that writes {column!r} before it, or correct what it declares to read"
        else:
            problem = f"which is only written later, by {writer}"
            remedy = f"Move {place.path!r} after {writer.path!r}"
        raise PipelineError(f"{type(pipeline).__name__}, {place}: it reads the column {column!r}, {problem}. {remedy}.")


def _check_writes(pipeline: ConnectorPipelineV2, place: Place, writers: dict[str, Place | None]) -> None:
    overwritten = set(place.piece.writes or ()) - set(place.piece.reads or ()) - set(place.piece.fills)
    for column in sorted(overwritten & writers.keys()):
        writer = writers[column]
        move = "Remove"
        if writer is not None and column in {*(writer.piece.reads or ()), *writer.piece.fills}:
            move = f"Move {place.path!r} before {writer.path!r}, which changes what it finds, or remove"
        raise PipelineError(
            f"{type(pipeline).__name__}, {place}: it writes the column {column!r} without reading it, and "
            f"{writer or 'the caller'} has already written that column, whose values would be lost. {move} one of the two; "
            f"if this piece changes the existing values, declare {column!r} in `reads` too (or in `fills`, if optional)."
        )


def _check_order(pipeline: ConnectorPipelineV2, places: list[Place]) -> None:
    """Check that no column changes after a forward-looking piece has derived values from it.

    Otherwise advantages of raw observations could stand beside filtered observations. A forward-looking piece that writes
    what it reads (n-step rewards in place of rewards) gives the column another meaning: values derived earlier stay correct,
    but no later piece may look ahead in that column or alter it.
    """
    readers: dict[str, Place] = {}
    replacers: dict[str, Place] = {}
    for place in places:
        looks_ahead = place.piece.kind is Kind.FORWARD_LOOKING
        reads, altered = set(place.piece.reads or ()), _altered(place.piece)
        for column in sorted(reads if looks_ahead else altered):
            first = (replacers if looks_ahead else readers).get(column)
            if first is not None:
                raise _misordered(pipeline, place, first, column)
        if looks_ahead:
            # The error names the first reader, because the piece has to move before it.
            readers = dict.fromkeys(reads, place) | readers
            replacers |= dict.fromkeys(reads & altered, place)


def _altered(piece: ConnectorV2) -> set[str]:
    """Return the existing columns whose values a piece changes."""
    return set(piece.writes or ()) - set(piece.fills) if piece.alters is None else set(piece.alters)


def _misordered(pipeline: ConnectorPipelineV2, place: Place, first: Place, column: str) -> PipelineError:
    is_replaced = column in _altered(first.piece)
    done = "replaced by values of later steps" if is_replaced else "used to look ahead"
    does = "looks ahead in" if place.piece.kind is Kind.FORWARD_LOOKING else "changes"
    return PipelineError(
        f"{type(pipeline).__name__}, {place}: it {does} the column {column!r}, which {first} has already {done}: the two do "
        f"not fit together. Move {place.path!r} before {first.path!r}."
    )


def _check_declarations(pipeline: ConnectorPipelineV2, place: Place) -> None:
    for attribute in ("reads", "writes", "fills", "alters"):
        declared = getattr(place.piece, attribute)
        if declared is not None and not _are_columns(declared):
            raise PipelineError(
                f"{type(pipeline).__name__}, {place}: found `{attribute} = {declared!r}`, expected a set of column names, such "
                'as `frozenset({"obs"})`, or None if it is not declared. Correct the declaration.'
            )
    _check_parts_of_writes(pipeline, place)
    kind: Any = place.piece.kind
    if not isinstance(kind, Kind):
        raise PipelineError(
            f"{type(pipeline).__name__}, {place}: found `kind = {kind!r}`, expected one of {', '.join(map(str, Kind))}. "
            "Correct the declaration."
        )
    changes: Any = place.piece.changes_episodes
    if changes is not None and not isinstance(changes, bool):
        raise PipelineError(
            f"{type(pipeline).__name__}, {place}: found `changes_episodes = {changes!r}`, expected True, False, or None if "
            "it is not declared. Correct the declaration."
        )
    lookback: Any = place.piece.lookback
    if not isinstance(lookback, int) or isinstance(lookback, bool) or lookback < 0:
        raise PipelineError(
            f"{type(pipeline).__name__}, {place}: found `lookback = {lookback!r}`, expected a number of steps, 0 or more. "
            "Correct the declaration."
        )


def _check_parts_of_writes(pipeline: ConnectorPipelineV2, place: Place) -> None:
    for attribute in ("fills", "alters"):
        others = sorted(set(getattr(place.piece, attribute) or ()) - set(place.piece.writes or ()))
        if others:
            raise PipelineError(
                f"{type(pipeline).__name__}, {place}: found {others} in `{attribute}` and not in `writes`, expected some of "
                "the columns that it writes. Declare them in `writes` too."
            )


def _are_columns(declared: Any) -> bool:
    # A string is also a collection of strings: `reads = "obs"` would mean the columns o, b and s.
    return (
        not isinstance(declared, str) and isinstance(declared, Collection) and all(isinstance(c, str) for c in declared)
    )


def outside_columns(pipeline: ConnectorPipelineV2) -> frozenset[str] | None:
    """Return the columns that a whole pipeline reads; None if a piece before the last read does not declare its columns."""
    read: set[str] = set()
    written: set[str] = set()
    for place in leaves(pipeline):
        if place.piece.reads is None:
            return None
        read |= set(place.piece.reads) - written
        written |= set(place.piece.writes or ())
    return frozenset(read)


def all_written(pipeline: ConnectorPipelineV2) -> frozenset[str] | None:
    """Return the columns that the pieces of a pipeline write; None if a piece does not declare them."""
    written: set[str] = set()
    for place in leaves(pipeline):
        if place.piece.writes is None:
            return None
        written |= set(place.piece.writes)
    return frozenset(written)


def check_module_fits(pipeline: ConnectorPipelineV2, rl_module: Modules) -> None:
    """Check that a pipeline writes `state_in` for a stateful module, and that each piece can work with the module.

    Raises:
        PipelineError: If the module, or one of several, is stateful and no piece writes `state_in`, or if a piece
            cannot work with the module.
    """
    _check_states(pipeline, rl_module)
    for place in leaves(pipeline):
        try:
            place.piece.check_module(rl_module)
        except PipelineError as error:
            what = str(error).removeprefix(f"{place.piece.name}: ")
            raise PipelineError(f"{type(pipeline).__name__}, {place}: {what}") from error


def _check_states(pipeline: ConnectorPipelineV2, rl_module: Modules) -> None:
    if pipeline.given_columns is None or Columns.STATE_IN in pipeline.given_columns:
        return
    written = all_written(pipeline)
    if written is None or Columns.STATE_IN in written:
        return
    named = {repr(key) if is_container(rl_module) else key: module for key, module in members(rl_module).items()}
    stateful = [name for name, module in named.items() if is_stateful(module)]
    if stateful:
        raise PipelineError(
            f"{type(pipeline).__name__}: found a stateful module ({', '.join(stateful)}), expected a piece that writes the "
            f"column {Columns.STATE_IN!r} among its pieces {[place.path for place in leaves(pipeline)]}. Insert "
            "`AddStatesFromEpisodesToBatch()`, after the piece that adds the observations."
        )
