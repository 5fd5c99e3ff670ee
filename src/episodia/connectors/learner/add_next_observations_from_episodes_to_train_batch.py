"""Adds the next observation of each step, taken from the observations in the batch, shifted by one, with its action mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import rows_of_modules
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.batches.module_outputs import ModuleOutputs, needed_column
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.connectors.kinds import Kind
from episodia.connectors.pipelines.column_piece import ColumnPiece
from episodia.connectors.pipelines.current_run import Run
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError, PipelineError
from episodia.modules.masks_in_batches import mask_in

if TYPE_CHECKING:
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


class AddNextObservationsFromEpisodesToTrainBatch(ColumnPiece):
    """Adds the next observation of each step, taken from the observations in the batch, shifted by one.

    Where masks of allowed actions came from infos, or from observations that a piece has made something else of, the mask of
    the next observation becomes the column `new_action_mask`. A mask of an info is known if an action follows.
    """

    reads = frozenset({Columns.OBS})
    writes = frozenset({Columns.NEXT_OBS, Columns.NEXT_ACTION_MASK})
    fills = frozenset({Columns.NEXT_ACTION_MASK})
    lookback = 0
    kind = Kind.FORWARD_LOOKING

    def check_place(self, pipeline: ConnectorPipelineV2) -> None:
        """Reject a place where the observation after the last step is no longer in the batch."""
        check_tracks(self, pipeline)

    def work(self, run: Run) -> None:
        """Add the observations of the next steps."""
        for module_id, columns, rows in rows_of_modules(run):
            outputs = ModuleOutputs(module_id, columns, None)
            found = needed_column(outputs, Columns.OBS, "`AddObservationsFromEpisodesToBatch`")
            track = as_track(as_ragged(found, rows), type(self).__name__)
            following = columns[Columns.NEXT_OBS] = track.following()
            masks = next_masks(columns, rows, following)
            if masks is not None:
                columns[Columns.NEXT_ACTION_MASK] = masks


def next_masks(columns: Mapping[str, Any], rows: EpisodeList, observations: Ragged) -> Ragged | None:
    """Return the mask of the actions that are allowed after each step, None if there is none beside the observations."""
    if Columns.NEXT_ACTION_MASK in columns:
        return as_ragged(columns[Columns.NEXT_ACTION_MASK], rows)
    if mask_in(observations.values) is not None:
        return None
    if rows.has(Columns.ACTION_MASK):  # recorded with the actions that the masks of infos allow
        following = rows.windows(Columns.ACTION_MASK, shifts=[1], fill=1)
        return following.map(lambda masks: masks[:, 0])
    if not rows.has_in_observations(Columns.ACTION_MASK):
        return None
    raw = rows.flat(Columns.OBS, tail=True)
    return raw.with_values(mask_in(raw.values)).following()


def check_tracks(piece: ConnectorV2, pipeline: ConnectorPipelineV2) -> None:
    """Reject a place of `piece` after a piece that drops the observation after the last step of each episode.

    Raises:
        PipelineError: If there is such a piece before it; it names both, and the remedy.
    """
    places = leaves(pipeline)
    own = next(place for place in places if place.piece is piece)
    for place in places[: places.index(own)]:
        if isinstance(place.piece, BatchIndividualItems):
            raise PipelineError(
                f"{type(pipeline).__name__}, {own}: it needs the observation after the last step of each episode, which is not "
                f"in the column {Columns.OBS!r} any more after {place}. Move {own.path!r} before {place.path!r}."
            )


def as_track(column: Any, who: str) -> Ragged:
    """Return a column of observations with the one after the last step of each episode, which `who` needs.

    Raises:
        BatchError: If the column lacks it.
    """
    if not isinstance(column, Ragged) or not column.tail:
        raise BatchError(
            f"found observations without the one after the last step ({column!r}), expected a track: {who} needs it. Let the "
            "piece that writes observations keep it (`windows(..., tail=True)`, `flat(..., tail=True)`), add them with "
            "`AddObservationsFromEpisodesToBatch`, and place this piece before `BatchIndividualItems`."
        )
    return column
