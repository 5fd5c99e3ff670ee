"""The last few steps of all lanes of a recorder, from its current block: one gather, and no episode is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.episodes.columns.filling import Fills
from episodia.episodes.lists.gather import taken
from episodia.episodes.recorder.recorded_chunk import Chunk
from episodia.episodes.recorder.recorder import Recorder
from episodia.episodes.recorder.recorder_columns import RecorderColumn

_IN_BLOCK = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS)


def recent_windows(recorder: Recorder, column: str, shifts: Sequence[int], fill: Any) -> Any:
    """Return the items of `column` at `shifts` from the last observation of each lane: leaves `[lanes, K, ...]`.

    Returns:
        None where episodes have to be asked: what is wanted is not in the block, or somebody wrote into an episode.
    """
    found = _column_in_block(recorder, column)
    chunks = recorder._chunks
    if found is None or not all(_is_in(chunk, recorder) for chunk in chunks):
        return None
    known = [_place(chunk, recorder) for chunk in chunks if chunk is not None]
    cursors, starts, births = np.array(known, np.int64).T[:, :, None]
    slots = cursors + np.asarray(shifts, np.int64)
    outside = (slots < births) | (slots > cursors - (not found.is_track))
    if ((slots < starts) & ~outside).any():
        return None
    block = recorder._tape.block
    places = np.where(outside, 0, slots + np.arange(len(known))[:, None] * block.slots)
    values = found.nested([leaf.flat for leaf in block.leaves(found)])
    fills = fill if isinstance(fill, Fills) else Fills((fill,) * len(shifts))
    return taken(values, places, outside if outside.any() else None, fills)


def _column_in_block(recorder: Recorder, name: str) -> RecorderColumn | None:
    layout = recorder._layout
    if name not in _IN_BLOCK and name not in layout.extras:
        return None
    if (name == Columns.ACTIONS and layout.actions is None) or (name == Columns.REWARDS and layout.rewards is None):
        return None  # before the first step
    column = layout.column(name)
    return None if column.written or any(leaf.dtype.hasobject for leaf in column.leaves) else column


def _is_in(chunk: Chunk | None, recorder: Recorder) -> bool:
    """Tell whether what a lane has recorded last is in the current block, and nobody can have changed it."""
    return chunk is not None and chunk.block is recorder._tape.block and not (chunk.is_handed_out or chunk._shorter)


def _place(chunk: Chunk, recorder: Recorder) -> tuple[int, int, int]:
    """Return the slot of the last observation, the first slot in the block, and that of the episode's first observation."""
    cursor = chunk.cursor if chunk.lane in recorder._idle else recorder._tape.cursor_of(chunk.lane)
    return cursor, chunk.start, -chunk.t_at_slot_0
