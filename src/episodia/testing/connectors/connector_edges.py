"""Laws about few rows: no episodes at all, episodes of one step, episodes without steps, rows that do not count."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.connectors import AddLossMask, ConnectorV2, Kind, as_ragged
from episodia.connectors.batches.batch_columns import module_batches
from episodia.episodes import EpisodeList, SingleAgentEpisode
from episodia.errors import PipelineError
from episodia.testing.connectors.batch_comparing import compare_batches
from episodia.testing.connectors.connector_running import LEARNER, Rows, count_rows, front_of, open_places, rows_of
from episodia.testing.connectors.connector_samples import episode_without_steps
from episodia.testing.connectors.connector_subject import Subject
from episodia.testing.laws_and_checks import NotApplicableError
from episodia.trees import map_batch

Episodes = Sequence[SingleAgentEpisode]


def it_runs_without_episodes(subject: Subject, _: Episodes) -> None:
    """Of no episodes it makes no rows."""
    for place in open_places(subject):
        _check_count("it runs without episodes", place, rows_of(subject, place, []), 0)


def it_runs_on_single_steps(subject: Subject, episodes: Episodes) -> None:
    """Of an episode of one step it makes one row."""
    for place in open_places(subject):
        for episode in episodes:
            if len(episode):
                _check_count("it runs on single steps", place, rows_of(subject, place, [episode[:1]]), 1)


def it_runs_on_episodes_without_steps(subject: Subject, episodes: Episodes) -> None:
    """An episode that has only been reset has no rows for a learner, one for a runner, and leaves others alone."""
    law = "it runs on episodes without steps"
    for place in open_places(subject):
        empty = episode_without_steps(episodes[0])
        _check_count(law, place, rows_of(subject, place, [empty]), 0 if place == LEARNER else 1)
        if place == LEARNER and not subject.connector.is_stateful:
            expected = rows_of(subject, place, episodes)
            found = rows_of(subject, place, [empty, *episodes, empty])
            compare_batches(law, expected, found, f"{place}, between two without steps", 1e-5)


def _check_count(law: str, place: str, columns: Rows, expected: int) -> None:
    for name, count in count_rows(columns).items():
        if count != expected:
            raise AssertionError(f"{law} ({place}), column {name!r}: found {count} rows, expected {expected}.")


# --- Rows that do not count -------------------------------------------------------------------------------------------


class _MaskSome(ConnectorV2):
    """Excludes every third row from the loss, and writes other numbers there if it is told to."""

    reads = writes = frozenset({Columns.LOSS_MASK})
    lookback = 0

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__()
        self.columns = columns

    def __call__(self, *, batch: dict[str, Any], episodes: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the batch with the mask, and with other numbers in `columns` where it excludes a row."""
        for _, columns, rows in list(module_batches(batch, EpisodeList.of(episodes))):
            mask = columns[Columns.LOSS_MASK]
            counted = np.arange(mask.num_steps) % 3 != 1
            columns[Columns.LOSS_MASK] = mask.with_values(counted)
            for name in self.columns:
                if name in columns and name != Columns.LOSS_MASK:
                    column = as_ragged(columns[name], rows).body()
                    disturbed = partial(_disturbed, counted=counted)
                    columns[name] = column.with_values(map_batch(disturbed, column.values))
        return batch


def _disturbed(leaf: Any, counted: np.ndarray) -> Any:
    if not isinstance(leaf, np.ndarray) or leaf.dtype.kind != "f":
        return leaf
    other = leaf.copy()
    other[~counted] = 7 - 5 * other[~counted]
    return other


def masked_rows_do_not_count(subject: Subject, episodes: Episodes) -> None:
    """What stands in rows that the loss mask excludes has no influence on the others."""
    piece = subject.connector
    if piece.kind is not Kind.BATCH_WIDE:
        raise NotApplicableError(f"it is {piece.kind.value}: rows depend on their own episode only")
    open_places(subject, LEARNER)
    if Columns.LOSS_MASK in (piece.writes or ()):
        raise NotApplicableError("it writes the loss mask itself")
    expected, found = (_masked_rows(subject, episodes, columns) for columns in ((), tuple(piece.reads or ())))
    mask = found[Columns.LOSS_MASK]
    written = set(piece.writes or found) & found.keys()
    wanted, got = (
        {name: map_batch(lambda leaf: leaf[mask], rows[name]) for name in written} for rows in (expected, found)
    )
    compare_batches("masked rows do not count", wanted, got, "other numbers in masked rows", 1e-5)


def _masked_rows(subject: Subject, episodes: Episodes, columns: Sequence[str]) -> Rows:
    *before, piece = subject.make()
    # The front comes first, because the masking piece disturbs what it has added.
    pieces = [*front_of([*before, piece]), *before, AddLossMask(), _MaskSome(columns), piece]
    try:
        return rows_of(subject, LEARNER, episodes, pieces)
    except PipelineError as error:
        raise NotApplicableError(f"no mask can be put in front of it: {error}") from error
