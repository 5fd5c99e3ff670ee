"""Errors of failing pieces: the place of the piece, the batch that it was given, the column and the episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from episodia.connectors.batches.batch_descriptions import columns_of, describe_batch
from episodia.connectors.pipelines.current_run import Run, mark_of
from episodia.connectors.pipelines.piece_lookup import SEPARATOR
from episodia.errors import ConnectorError

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


def failure(
    pipeline: ConnectorPipelineV2, position: int, piece: ConnectorV2, run: Run, error: Exception
) -> ConnectorError:
    """Return the error to raise, from `cause_of(error)`, when a piece has raised `error`.

    Args:
        pipeline: The pipeline that directly contains the piece.
        position: The index of the piece.
        piece: The piece.
        run: The run. Its batch is the one that the piece was given if the piece was called, else the batch that it left.
        error: The error of the piece. If a pipeline inside the piece raised it, the place is extended.
    """
    given = run.batch if run.given is None else run.given
    if _is_placed(error):
        path, place, detail = f"{piece.name}{SEPARATOR}{error.piece}", (position, *error.place), error.detail
        column, episode_id = error.column, error.episode_id
    else:
        path, place = piece.name, (position,)
        column, episode_id = _column(error, given), _episode_id(error, run)
        detail = _detail(error, column, episode_id, given)
    where = f"{type(pipeline).__name__}, piece {path!r} at {'.'.join(map(str, place))}"
    return ConnectorError(
        f"{where}: {detail}", piece=path, place=place, column=column, episode_id=episode_id, detail=detail
    )


def cause_of(error: Exception) -> BaseException | None:
    """Return the original error of the piece."""
    return error.__cause__ if _is_placed(error) else error


def _is_placed(error: Exception) -> TypeGuard[ConnectorError]:
    """Return whether a pipeline raised `error`, and not the piece itself."""
    return isinstance(error, ConnectorError) and bool(error.place)


def _column(error: Exception, given: dict[str, Any]) -> str | None:
    marked, _ = mark_of(error)
    if marked is not None or type(error) is not KeyError or len(error.args) != 1:
        return marked
    key = error.args[0]
    return key if isinstance(key, str) and key not in given else None


def _episode_id(error: Exception, run: Run) -> str | None:
    _, marked = mark_of(error)
    if marked is not None:
        return str(marked)
    return None if run.at_episode is None else str(run.at_episode.id_)


def _detail(error: Exception, column: str | None, episode_id: str | None, given: dict[str, Any]) -> str:
    lines = [f"{type(error).__name__}: {error}"]
    if type(error) is KeyError and column is not None:
        present = ", ".join(name for name, _ in columns_of(given)) or "none"
        lines.append(f"the batch that it was given has no column {column!r}; it has: {present}")
    elif column is not None:
        lines.append(f"column: {column!r}")
    if episode_id is not None:
        lines.append(f"episode: {episode_id!r} (the last one that it was at)")
    lines.append(f"it was given: {describe_batch(given)}")
    return "\n  ".join(lines)
