"""One column of one agent of a multi-agent episode: where it is stored, and what is pending of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.multi_agent.agent_record import AgentRecord
from episodia.episodes.multi_agent.pending_step import NOTHING, PendingStep
from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode
from episodia.stacking import SCALAR_DTYPES


@dataclass(frozen=True, slots=True)
class AgentColumn:
    """A column of every agent: where it is, and what a pending step has of it."""

    name: str
    column: Callable[[SingleAgentEpisode], LookbackBuffer | None]
    pending: Callable[[PendingStep], Any] | None  # None for observations and infos, which are never pending


def _reward_so_far(pending: PendingStep) -> Any:
    """Return what has added up for an action; nothing for an agent that has not acted."""
    if pending.action is NOTHING:
        return NOTHING
    return 0.0 if pending.reward is None else pending.reward


OBSERVATIONS = AgentColumn("observations", lambda single: single.observations, None)
INFOS = AgentColumn("infos", lambda single: single.infos, None)
ACTIONS = AgentColumn("actions", lambda single: single.actions, lambda pending: pending.action)
REWARDS = AgentColumn("rewards", lambda single: single.rewards, _reward_so_far)


def extra_output(key: str) -> AgentColumn:
    """Return the source of one extra model output."""
    return AgentColumn(
        key,
        lambda single: single.extra_model_outputs.get(key),
        lambda pending: (pending.extra_model_outputs or {}).get(key, NOTHING),
    )


def pending_item(record: AgentRecord, source: AgentColumn) -> Any:
    """Return what is pending of the column of an agent that has acted, `NOTHING` if nothing is."""
    pending = record.pending
    if source.pending is None or pending is None or pending.action is NOTHING:
        return NOTHING
    return source.pending(pending)


def column_with_pending(record: AgentRecord, source: AgentColumn, *, only_end: bool = False) -> LookbackBuffer | None:
    """Return the column of one agent, with what is pending as its last item.

    With `only_end`, and if something is pending, it may begin late: only the last item counts.
    """
    single = record.episode
    if single is None:
        return None
    column = source.column(single)
    item = pending_item(record, source)
    if item is NOTHING:
        return column
    if column is None:
        column = LookbackBuffer()
        if single.is_finalized:
            column.finalize()
    if only_end:
        # One item more, because rows of an array have one dtype.
        return extended(column, max(0, column.len_incl_lookback() - 1), item)
    column = column.fork()
    column.append(item)
    return column


def extended(column: LookbackBuffer, start: int, item: Any) -> LookbackBuffer:
    """Return the items of `column` from position `start` on, and `item` after them."""
    rows = column.lend() if column.finalized else None
    dtype = SCALAR_DTYPES.get(type(item))
    if dtype is not None and isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype == dtype:
        # The most frequent case: a number of the same dtype, which needs no check.
        storage = ArrayStorage(np.append(rows[start:], item), owned=True)
        return LookbackBuffer.adopt(storage, 0, column.space, finalized=True)
    column = column.share(slice(start, column.len_incl_lookback()), 0)
    column.append(item)
    return column
