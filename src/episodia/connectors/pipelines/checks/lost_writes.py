"""What learner pieces write into episodes: for later pieces only, so a write that none of them reads is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

from episodia.columns import Columns
from episodia.connectors.batches.batch_descriptions import columns_of
from episodia.connectors.pipelines.current_run import Run, copied
from episodia.connectors.pipelines.piece_lookup import leaves
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.watched_columns import is_unread, mark_unread
from episodia.episodes.lists.ragged import Ragged
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.errors import BatchError
from episodia.trees import equal
from episodia.types import AnyBatch

if TYPE_CHECKING:
    from episodia.connectors.connector_v2 import ConnectorV2
    from episodia.connectors.pipelines.connector_pipeline import ConnectorPipelineV2


class _Write(NamedTuple):
    """A column of an episode that a piece wrote."""

    piece: str
    eps_id: str
    column: str
    buffer: LookbackBuffer


@final
class Writes:
    """The writes into episodes during one run of a learner pipeline."""

    def __init__(self, noted: list[LookbackBuffer]) -> None:
        """Begin without writes; `noted` is the list to which `noted_writes` adds columns."""
        self._noted = noted
        self._given: Mapping[Any, Any] = {}
        self._writes: list[_Write] = []

    def begin(self, batch: AnyBatch) -> None:
        """Note that a piece is about to be called with `batch`."""
        self._noted.clear()
        self._given = copied(batch)

    def end(self, piece: ConnectorV2, run: Run) -> None:
        """Keep what the piece wrote into the episodes of the list; from now on somebody has to read it.

        A column that the piece changed in the batch, too, has reached the batch already.
        """
        noted = {id(buffer) for buffer in self._noted}
        if not noted or run.episodes is None:
            return
        for episode in run.episodes.agent_episodes:
            for name, buffer in _columns(episode):
                if id(buffer) in noted and not self._has_changed(name, run.batch):
                    mark_unread(buffer)
                    self._writes.append(_Write(piece.name, str(episode.id_), name, buffer))

    def _has_changed(self, name: str, batch: Mapping[Any, Any]) -> bool:
        before, after = dict(_named(name, self._given)), dict(_named(name, batch))
        return before.keys() != after.keys() or not all(_same(before[key], after[key]) for key in after)

    def check(self, pipeline: ConnectorPipelineV2, run: Run) -> None:
        """Check, at the end of the run, that all writes were read; writes into episodes that were dropped do not matter.

        Raises:
            BatchError: If one was not.
        """
        if not self._writes:
            return
        listed = {id(buffer) for episode in run.episodes.agent_episodes for _, buffer in _columns(episode)}
        lost = [write for write in self._writes if is_unread(write.buffer) and id(write.buffer) in listed]
        if not lost:
            return
        first = lost[0]
        raise BatchError(
            f"{type(pipeline).__name__}: found that piece {first.piece!r} wrote {first.column!r} into the episode "
            f"{first.eps_id!r}, and no later piece has read it; expected one that does, as the caller's episodes stay "
            f"unchanged. Move {first.piece!r} in front of {_reader(pipeline, first.column)}, or let it change the column of "
            "the batch."
        )


def _columns(episode: SingleAgentEpisode) -> Iterator[tuple[str, LookbackBuffer]]:
    yield Columns.OBS, episode.observations
    yield Columns.ACTIONS, episode.actions
    yield Columns.REWARDS, episode.rewards
    yield Columns.INFOS, episode.infos
    yield from episode.extra_model_outputs.items()


def _named(name: str, batch: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the column `name` of each module."""
    return ((key, column) for key, column in columns_of(batch) if key == name or key.endswith(f"/{name}"))


def _same(before: Any, after: Any) -> bool:
    old, new = (column.values if isinstance(column, Ragged) else column for column in (before, after))
    return old is new or (type(old) is type(new) and equal(old, new))


def _reader(pipeline: ConnectorPipelineV2, column: str) -> str:
    """Return the name of the first piece that adds `column` to the batch."""
    writers = (place.piece.name for place in leaves(pipeline) if column in (place.piece.writes or ()))
    name = next(writers, None)
    return "the pieces that read episodes" if name is None else repr(name)
