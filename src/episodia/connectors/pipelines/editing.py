"""Edits of a pipeline's pieces; an edit that fails leaves pieces, names and spaces unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import ref

from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.pipelines.checks.build_checks import check_pipeline
from episodia.connectors.pipelines.piece_lookup import checked_name, names_for, walk, with_inner
from episodia.errors import PipelineError

if TYPE_CHECKING:
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


def set_pieces(pipeline: ConnectorPipelineV2, pieces: Iterable[ConnectorV2]) -> None:
    """Set the pieces of `pipeline`, then update the spaces of the outermost pipeline and check it.

    Raises:
        PipelineError: If an item is not a piece, a piece is given twice, names clash, a piece rejects
            its input spaces, or the pieces do not fit together. Nothing is changed then.
    """
    if not isinstance(pieces, Iterable):
        raise PipelineError(
            f"{type(pipeline).__name__}: found {pieces!r} as its pieces, expected a list of them. Pass `[piece]` for one."
        )
    pieces = tuple(pieces)
    _check_are_pieces(pipeline, pieces)
    outermost = outermost_of(pipeline)
    with _unchanged_on_failure([*_whole(outermost), *with_inner(pieces)]):
        _adopt(pipeline, pieces)
        for root in outermost:
            _check_once_only(root)
            root._thread_spaces()
            check_pipeline(root)
        pipeline.forget_plan()


def set_own_spaces(pipeline: ConnectorPipelineV2, own: tuple[Any, Any]) -> None:
    """Set `own` as the input spaces of `pipeline` where no other spaces are known, and pass them through its pieces.

    Raises:
        PipelineError: If a piece rejects its input spaces. Nothing is changed then.
    """
    outermost = outermost_of(pipeline)
    with _unchanged_on_failure(_whole(outermost)):
        pipeline._own_spaces = own
        for root in outermost:
            root._thread_spaces()
        pipeline.forget_plan()


def outermost_of(pipeline: ConnectorPipelineV2) -> list[ConnectorPipelineV2]:
    """Return the outermost pipelines that contain `pipeline`; `pipeline` itself if it is not nested."""
    around = pipeline._pipelines()
    if not around:
        return [pipeline]
    roots = [root for outer in around for root in outermost_of(outer)]
    return list({id(root): root for root in roots}.values())


def _adopt(pipeline: ConnectorPipelineV2, pieces: tuple[ConnectorV2, ...]) -> None:
    before = pipeline.connectors
    for piece in before:
        if not any(piece is other for other in pieces):
            piece._owners = tuple(owner for owner in piece._owners if owner() is not pipeline)
            if not piece._pipelines():
                # The next pipeline that the piece joins gives it a new name.
                piece._pipeline_name = None
    settled = [piece for piece in pieces if piece._pipelines()]
    for piece, name in zip(pieces, names_for(pieces, settled), strict=True):
        piece._pipeline_name = name
        if not any(owner is pipeline for owner in piece._pipelines()):
            piece._owners = (*(owner for owner in piece._owners if owner() is not None), ref(pipeline))
    pipeline.inner_pieces = pieces
    for piece in pieces:
        # A plugin may have an attribute `name` of its own.
        pipeline._check_new_name(piece, checked_name(piece.name))


@contextmanager
def _unchanged_on_failure(pieces: list[Any]) -> Iterator[None]:
    """Restore the attributes of the pieces (names, spaces and inner pieces too) if the block raises."""
    saved = [(piece, dict(vars(piece))) for piece in pieces]
    try:
        yield
    except BaseException:
        for piece, attributes in saved:
            vars(piece).clear()
            vars(piece).update(attributes)
        raise


def _whole(outermost: list[ConnectorPipelineV2]) -> list[ConnectorV2]:
    return [*outermost, *(place.piece for root in outermost for place in walk(root))]


def _check_are_pieces(pipeline: ConnectorPipelineV2, pieces: tuple[Any, ...]) -> None:
    for position, piece in enumerate(pieces):
        if not isinstance(piece, ConnectorV2):
            found = f"the class {piece.__name__}" if isinstance(piece, type) else repr(piece)
            remedy = f"Pass `{piece.__name__}()`" if isinstance(piece, type) else "Pass a piece"
            raise PipelineError(
                f"{type(pipeline).__name__}, at {position}: found {found}, expected a piece, an instance of ConnectorV2. "
                f"{remedy}."
            )
    if any(piece is pipeline for piece in with_inner(pieces)):
        raise PipelineError(
            f"{type(pipeline).__name__}: found the pipeline itself among its pieces, expected other pieces. Make a second "
            "pipeline."
        )
    _check_distinct(pipeline, list(with_inner(pieces)))


def _check_once_only(root: ConnectorPipelineV2) -> None:
    _check_distinct(root, [place.piece for place in walk(root)])


def _check_distinct(pipeline: ConnectorPipelineV2, pieces: list[ConnectorV2]) -> None:
    seen: set[int] = set()
    for piece in pieces:
        if id(piece) in seen:
            raise PipelineError(
                f"{type(pipeline).__name__}: found the same object, {piece.name!r}, in two places, expected it once: a piece "
                f"has one name, one place and one state. Make a second {type(piece).__name__}."
            )
        seen.add(id(piece))
