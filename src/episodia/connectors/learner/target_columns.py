"""Columns that targets are computed from: ends of episodes, tracks, flat values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from episodia.columns import Columns
from episodia.connectors.batches.batch_columns import Batch, missing_column
from episodia.connectors.batches.collected_items import as_ragged
from episodia.connectors.common.finite_numbers import check_made
from episodia.episodes import EpisodeList, Ragged
from episodia.errors import BatchError


def ends(flags: Ragged) -> np.ndarray:
    """Return the flag at the last step of each stretch; False for one without steps."""
    at_ends = np.zeros(len(flags), np.bool_)
    has_steps = flags.lengths > 0
    at_ends[has_steps] = flags.values[flags.offsets[1:][has_steps] - 1]
    return at_ends


def track_of(columns: Batch, who: str) -> Ragged:
    """Return the observations with the one after the last step of each episode."""
    column = columns.get(Columns.OBS)
    if not isinstance(column, Ragged) or not column.tail:
        raise BatchError(
            f"found observations without the one after the last step, expected a track: {who} needs it. Place it before "
            "`BatchIndividualItems`, and add observations with `AddObservationsFromEpisodesToBatch`."
        )
    return column


def made_column(piece: str, name: str, made: np.ndarray, of: Mapping[str, Ragged], rows: EpisodeList) -> Ragged:
    """Return what was computed from the columns `of`, for the same steps as the first, if it is finite as float32."""
    with np.errstate(over="ignore"):
        as_stored = made.astype(np.float32)
    check_made(piece, name, as_stored, of, rows)
    return next(iter(of.values())).with_values(as_stored)


def flat_column(columns: Batch, name: str, rows: EpisodeList) -> Ragged:
    """Return the column `name` with one row per step."""
    if name not in columns:
        raise missing_column(name, columns)
    return as_ragged(columns[name], rows).body()
