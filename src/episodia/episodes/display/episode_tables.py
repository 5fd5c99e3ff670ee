"""Buffers and episodes as one line of text, and as tables in notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.columns import Columns
from episodia.display.notebook_html import block, bytes_text, folded_row, row, table
from episodia.trees import describe, is_nested, leaves, shortened

if TYPE_CHECKING:
    from episodia.episodes.columns.lookback_buffer import LookbackBuffer
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode

_MOST_ITEMS = 8
_MOST_COLUMNS = 60
_MOST_ROWS = 180
_MOST_EPISODES = 100


def buffer_text(buffer: LookbackBuffer) -> str:
    """Return the items of a buffer in one line, the lookback apart; long ones are shortened."""
    past = _items_text(buffer.get(slice(-buffer.lookback, 0), neg_index_as_lookback=True) if buffer.lookback else [])
    return f"{type(buffer).__name__}({past} <- lookback({buffer.lookback}) | {_items_text(buffer.get())})"


def _items_text(items: Any) -> str:
    if isinstance(items, np.ndarray) and items.ndim == 1:
        items = items[: _MOST_ITEMS + 1].tolist() + [None] * max(0, len(items) - _MOST_ITEMS - 1)
    if is_nested(items) or isinstance(items, np.ndarray):
        return describe(items)
    shown = ", ".join(describe(item) for item in items[:_MOST_ITEMS])
    hidden = len(items) - _MOST_ITEMS
    return f"[{shown}{f', ... {hidden} more' if hidden > 0 else ''}]"


def episode_text(episode: SingleAgentEpisode) -> str:
    """Describe an episode in one line."""
    facts = [f"len={len(episode)}"]
    if episode.rewards.lookback:
        facts.append(f"lookback={episode.rewards.lookback}")
    if episode.t_started:
        facts.append(f"t={episode.t_started}..{episode.t}")
    facts += [f"return={episode.get_return():g}", *_ending(episode)]
    if episode.is_finalized:
        facts.append("finalized")
    facts += [f"{name}={shortened(repr(value))}" for name, value in _ids(episode) if value is not None]
    return f"{type(episode).__name__}({', '.join(facts)})"


def _ids(episode: SingleAgentEpisode) -> list[tuple[str, Any]]:
    return [("agent_id", episode.agent_id), ("module_id", episode.module_id), ("id_", episode.id_)]


def _ending(episode: SingleAgentEpisode) -> list[str]:
    flags = (("terminated", episode.is_terminated), ("truncated", episode.is_truncated))
    return [name for name, flag in flags if flag]


def columns_of(episode: SingleAgentEpisode) -> dict[str, LookbackBuffer]:
    """Return the columns that can hold numbers, under the names that views and batches know them by."""
    return {
        **episode.extra_model_outputs,
        Columns.OBS: episode.observations,
        Columns.ACTIONS: episode.actions,
        Columns.REWARDS: episode.rewards,
    }


def episode_html(episode: SingleAgentEpisode) -> str:
    """Return a table of the columns and their contents; nested ones are folded, text from users is escaped."""
    shown, size = columns_html(columns_of(episode))
    infos = sum(1 for info in episode.get_infos() if info)
    return block(repr(episode), shown, f"<p>{bytes_text(size)}, {infos} of {len(episode.infos)} infos have content</p>")


_TITLES = ("column", "items", "lookback", "dtype", "shape", "min", "max", "NaN", "memory")


def columns_html(columns: Mapping[str, LookbackBuffer], most_rows: int = _MOST_ROWS) -> tuple[str, int]:
    """Return a table of columns with about `most_rows` rows, and how many bytes they have in all."""
    order = [name for name in (Columns.OBS, Columns.ACTIONS, Columns.REWARDS) if name in columns]
    order += [name for name in columns if name not in order]
    shown = order[: min(_MOST_COLUMNS, most_rows)]
    most_parts = max(1, most_rows // max(1, len(shown)))
    made = [_column_row(name, columns[name], most_parts) for name in shown]
    rows, size = [html for html, _ in made], sum(nbytes for _, nbytes in made)
    hidden = len(order) - len(shown)
    return table(_TITLES, rows, f"{hidden} more columns" if hidden > 0 else ""), size


def _column_row(name: str, column: LookbackBuffer, most_parts: int) -> tuple[str, int]:
    counts = (str(len(column)), str(column.lookback))
    try:
        stored: Any = column.stacked()
        found = list(leaves(stored.arrays))
    except ValueError as error:  # items that do not stack yet
        return row((name, *counts, str(error))), 0
    size = sum(leaf.nbytes for _, leaf in found)
    if len(found) == 1 and not found[0][0]:
        return row((name, *counts, *_facts(found[0][1]))), size
    parts = (row((shortened(path), *counts, *_facts(leaf))) for path, leaf in found[:most_parts])
    hidden = f"{len(found) - most_parts} more parts" if len(found) > most_parts else ""
    summary = f"{shortened(name, 60)}: {len(found)} parts, {counts[0]} items, {bytes_text(size)}"
    return folded_row(summary, table(("part", *_TITLES[1:]), parts, hidden), len(_TITLES)), size


def _facts(leaf: np.ndarray) -> tuple[str, ...]:
    """Return dtype, shape of an item, range, how many are NaN, and bytes."""
    kind, shape, size = str(leaf.dtype), str(list(leaf.shape[1:])), bytes_text(leaf.nbytes)
    if not leaf.size or leaf.dtype.kind not in "biuf":
        return kind, shape, "", "", "", size
    nans = int(np.isnan(leaf).sum()) if leaf.dtype.kind == "f" else 0
    if nans == leaf.size:
        return kind, shape, "nan", "nan", str(nans), size
    lowest, highest = (np.nanmin(leaf), np.nanmax(leaf)) if nans else (leaf.min(), leaf.max())
    # Adding 0 makes -0 a plain 0.
    return kind, shape, f"{lowest + 0.0:.6g}", f"{highest + 0.0:.6g}", str(nans), size


def episodes_text(episodes: Sequence[Any]) -> str:
    """Describe a list of episodes in one line."""
    if not episodes:
        return "EpisodeList(no episodes)"
    steps = sum(len(episode) for episode in episodes)
    done = sum(episode.is_done for episode in episodes)
    return counts_text(type(episodes[0]).__name__, len(episodes), steps, done)


def counts_text(kind: str, num: int, num_steps: int, num_done: int) -> str:
    """Describe a list of `num` episodes of a class in one line."""
    return f"EpisodeList({num} {kind}{'s' if num != 1 else ''}, {num_steps} steps, {num_done} done)"


def episodes_html(episodes: Sequence[Any], *, is_multi_agent: bool) -> str:
    """Return a table with one row for each episode; all text from outside is escaped."""
    rows = (row(_episode_cells(episode, is_multi_agent)) for episode in episodes[:_MOST_EPISODES])
    hidden = f"{len(episodes) - _MOST_EPISODES} more episodes" if len(episodes) > _MOST_EPISODES else ""
    return block(
        episodes_text(episodes), table(("episode", "time steps", "length", "lookback", "return", "end"), rows, hidden)
    )


def _episode_cells(episode: Any, is_multi_agent: bool) -> tuple[str, ...]:
    last = episode.env_t if is_multi_agent else episode.t
    lookback = episode.env_lookback if is_multi_agent else episode.rewards.lookback
    end = ", ".join(_ending(episode)) or "running"
    times = f"{last - len(episode)} .. {last}"
    return str(episode.id_), times, str(len(episode)), str(lookback), f"{episode.get_return():g}", end
