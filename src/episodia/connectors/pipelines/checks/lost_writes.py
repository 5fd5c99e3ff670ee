"""Writes of learner pieces into episodes: only later pieces see them, so a write that no later piece reads is an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

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
        self._flags: dict[str, np.ndarray] = {}
        self._set_flag: tuple[str, str] | None = None  # the piece that was called last, and the flag

    def begin(self, run: Run) -> None:
        """Note that a piece is about to be called in `run`; it may read what earlier pieces have written."""
        self._noted.clear()
        self._given = copied(run.batch)
        self._flags, self._set_flag = _flags(run), None

    def end(self, piece: ConnectorV2, run: Run) -> None:
        """Keep what the piece wrote into the episodes of the list; from now on a piece has to read it.

        A column that the piece changed in the batch, too, has reached the batch already.
        """
        self._set_flag = self._late_flag(piece, run)
        noted = {id(buffer) for buffer in self._noted}
        if not noted or run.episodes is None:
            return
        for episode in run.episodes.agent_episodes:
            for name, buffer in _columns(episode):
                if id(buffer) in noted and not self._has_changed(name, run.batch):
                    mark_unread(buffer)
                    self._writes.append(_Write(piece.name, str(episode.id_), name, buffer))

    def _late_flag(self, piece: ConnectorV2, run: Run) -> tuple[str, str] | None:
        """Return the flag of an episode that the piece set, although the batch has the column already."""
        if not self._flags:
            return None
        now = _flags(run)
        changed = (
            name
            for name, flags in self._flags.items()
            if name in now and not np.array_equal(flags, now[name]) and not self._has_changed(name, run.batch)
        )
        return next(((piece.name, name) for name in changed), None)

    def _has_changed(self, name: str, batch: Mapping[Any, Any]) -> bool:
        before, after = dict(_named(name, self._given)), dict(_named(name, batch))
        return before.keys() != after.keys() or not all(_same(before[key], after[key]) for key in after)

    def check(self, pipeline: ConnectorPipelineV2, run: Run) -> None:
        """Check, at the end of the run, that all writes were read; writes into episodes that were dropped do not matter.

        Raises:
            BatchError: If one was not.
        """
        if self._set_flag is not None:
            raise _lost(pipeline, *self._set_flag, "an episode")
        if not self._writes:
            return
        listed = {id(buffer) for episode in run.episodes.agent_episodes for _, buffer in _columns(episode)}
        lost = [write for write in self._writes if is_unread(write.buffer) and id(write.buffer) in listed]
        if not lost:
            return
        raise _lost(pipeline, lost[0].piece, lost[0].column, f"the episode {lost[0].eps_id!r}")


def _lost(pipeline: ConnectorPipelineV2, piece: str, column: str, where: str) -> BatchError:
    return BatchError(
        f"{type(pipeline).__name__}: found that piece {piece!r} wrote {column!r} into {where}, and no later piece has read it; "
        f"expected one that does, as the caller's episodes stay unchanged. Move {piece!r} in front of "
        f"{_reader(pipeline, column)}, or let it change the column of the batch."
    )


def _flags(run: Run) -> dict[str, np.ndarray]:
    """Return the flags of all agent episodes, by the column of the batch that has them already."""
    there = {name.rpartition("/")[2] for name, _ in columns_of(run.batch)}
    if run.episodes is None or Columns.TERMINATEDS not in there:
        return {}
    return {Columns.TERMINATEDS: run.episodes.is_terminated, Columns.TRUNCATEDS: run.episodes.is_truncated}


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
