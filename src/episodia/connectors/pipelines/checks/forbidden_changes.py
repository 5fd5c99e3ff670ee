"""Changes that pieces may not make: of the list of episodes, and of actions from which others were derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.piece_lookup import Place
from episodia.errors import BatchError, PipelineError
from episodia.trees import equal, leaves, map_batch

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2

# What is recorded, and what the environment gets.
_PAIR = (Columns.ACTIONS, Columns.ACTIONS_FOR_ENV)


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


def derived_actions(batch: Mapping[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    """Return copies of the actions and of the actions for the environment, by module or None, where both exist."""
    return {
        module_id: (map_batch(np.copy, pair[0]), map_batch(np.copy, pair[1]))
        for module_id, pair in _pairs(batch).items()
    }


def _pairs(batch: Mapping[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    parts = {None: batch} if Columns.ACTIONS in batch else batch
    return {
        module_id: (columns[Columns.ACTIONS], columns[Columns.ACTIONS_FOR_ENV])
        for module_id, columns in parts.items()
        if isinstance(columns, Mapping) and all(name in columns and _is_arrays(columns[name]) for name in _PAIR)
    }


def _is_arrays(column: Any) -> bool:
    return all(isinstance(leaf, np.ndarray) for _, leaf in leaves(column))


def check_late_actions(derived: Mapping[Any, tuple[Any, Any]], batch: Mapping[Any, Any]) -> None:
    """Check that a piece did not change `actions` alone; `derived` is what `derived_actions` returned before the piece.

    Raises:
        BatchError: If the environment would get actions that were derived from others than those that are recorded.
    """
    for module_id, (earlier, earlier_for_env) in derived.items():
        actions, for_env = _pairs(batch).get(module_id, (earlier, earlier_for_env))
        if equal(for_env, earlier_for_env) and not equal(actions, earlier):
            raise BatchError(
                "found changed `actions`, and `actions_for_env` of the earlier ones; expected that the environment "
                "gets the actions that are recorded. Place the piece before the one that writes `actions_for_env` "
                "(`NormalizeAndClipActions`), or let it change `actions_for_env` too."
            )
