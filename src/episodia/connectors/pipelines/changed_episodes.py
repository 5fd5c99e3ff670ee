"""Pieces that add, drop or replace episodes: where they may stand, and what they may do to the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.piece_lookup import Place
from episodia.errors import BatchError, PipelineError

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


def check_places_of_changes(pipeline: ConnectorPipelineV2, places: Sequence[Place]) -> None:
    """Check that pieces which declare to change the list of episodes stand where they may.

    Raises:
        PipelineError: If the pipeline is one of a runner, or if a piece before it writes columns, whose rows would be those of
            the earlier list.
    """
    writer: Place | None = None
    for place in places:
        if place.piece.changes_episodes and pipeline.has_fixed_episodes:
            raise PipelineError(
                f"{type(pipeline).__name__}, {place}: it changes the list of episodes, and each episode of a runner needs "
                "an action; expected such a piece in a learner pipeline only. Move it there."
            )
        if place.piece.changes_episodes and writer is not None:
            raise PipelineError(
                f"{type(pipeline).__name__}, {place}: it changes the list of episodes, and {writer} has already written rows "
                f"({sorted(writer.piece.writes or ())}) for the earlier list. Move {place.path!r} before {writer.path!r}."
            )
        writer = writer or (place if place.piece.writes else None)


def num_edits_of(run: Run) -> int:
    """Return how often the list of episodes has been changed."""
    return 0 if run.episodes is None else run.episodes.num_edits


def check_changed_episodes(piece: ConnectorV2, given: Mapping[Any, Any] | None) -> None:
    """Check a piece that has changed the list of episodes in a run; `given` is the batch that it was given.

    Raises:
        PipelineError: If the piece declares to leave the list alone.
        BatchError: If the batch has columns, whose rows are those of the earlier list.
    """
    if piece.changes_episodes is False:
        raise PipelineError(
            "found another list of episodes after the piece, expected the same one, because `changes_episodes` is False. "
            "Declare `changes_episodes = True`."
        )
    if given:
        raise BatchError(
            f"found that the piece changed the list of episodes, and the columns {list(given)} with rows of the earlier list; "
            "expected no columns yet. Place this piece in front of the pieces that write columns."
        )
