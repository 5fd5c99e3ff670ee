"""What flows between the pieces of a pipeline, noted during its first run, to be drawn later.

Only the first run after the pieces were chosen is watched, so a run costs no more than without this. Descriptions are kept,
never what they describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from episodia.connectors.batches.batch_descriptions import columns_of, describe_column
from episodia.connectors.pipelines.piece_lookup import walk

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2

# The columns of a batch, each with its shapes and dtypes in words.
Columns = Mapping[str, str]


@final
@dataclass(frozen=True)
class Trace:
    """The batches of one run of a pipeline.

    Attributes:
        given: What came in.
        after: What each piece that is no pipeline made of it, by its place.
        returned: What came out.
    """

    given: Columns
    after: Mapping[tuple[int, ...], Columns]
    returned: Columns


@final
class Tracer:
    """Told by a running pipeline after each piece, as the `Watcher` of `explain` is."""

    def __init__(self, pipeline: ConnectorPipelineV2, batch: Mapping[Any, Any] | None) -> None:
        self._places = {id(place.piece): place.indices for place in walk(pipeline)}
        self._given = described(batch or {})
        self._after: dict[tuple[int, ...], Columns] = {}

    def enter(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Do nothing: what is there before a piece is what the one before has made."""

    def leave(self, piece: ConnectorV2, batch: dict[str, Any]) -> None:
        """Note what `piece` has made of the batch."""
        # A piece that edits its pipeline while it runs has pieces run that were not there before.
        if piece._pieces is None and id(piece) in self._places:
            self._after[self._places[id(piece)]] = described(batch)

    def trace(self, returned: Mapping[Any, Any]) -> Trace:
        """Return all that was noted, and what the pipeline has returned."""
        return Trace(self._given, self._after, described(returned))


def described(batch: Mapping[Any, Any]) -> Columns:
    """Return the columns of `batch` in words.

    >>> described({"obs": [1, 2]})
    {'obs': 'list of 2 (1)'}
    """
    try:
        return {name: describe_column(column) for name, column in columns_of(batch)}
    except Exception:  # noqa: BLE001  # a plugin's object that cannot even be shown must not stop a run
        return {str(name): "?" for name in batch}
