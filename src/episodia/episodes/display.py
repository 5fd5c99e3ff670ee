"""How buffers and episodes look: one line of text, and a table in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from episodia.trees import describe, is_nested, leaves

if TYPE_CHECKING:
    from episodia.episodes.lookback_buffer import LookbackBuffer
    from episodia.episodes.single_agent_episode import SingleAgentEpisode

_MOST_ITEMS = 8
_MOST_ROWS = 200
_LONGEST_TEXT = 120


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
    """Return what an episode is in one line."""
    facts = [f"len={len(episode)}"]
    if episode.rewards.lookback:
        facts.append(f"lookback={episode.rewards.lookback}")
    if episode.t_started:
        facts.append(f"t={episode.t_started}..{episode.t}")
    facts += [f"return={episode.get_return():g}", *_ending(episode)]
    if episode.is_finalized:
        facts.append("finalized")
    facts += [f"{name}={value!r}" for name, value in _ids(episode) if value is not None]
    return f"{type(episode).__name__}({', '.join(facts)})"


def _ids(episode: SingleAgentEpisode) -> list[tuple[str, Any]]:
    return [("agent_id", episode.agent_id), ("module_id", episode.module_id), ("id_", episode.id_)]


def _ending(episode: SingleAgentEpisode) -> list[str]:
    flags = (("terminated", episode.is_terminated), ("truncated", episode.is_truncated))
    return [name for name, flag in flags if flag]


def episode_html(episode: SingleAgentEpisode) -> str:
    """Return a table of the columns with what is in them; all text from outside is escaped."""
    columns = {
        "observations": episode.observations,
        "actions": episode.actions,
        "rewards": episode.rewards,
        **episode.extra_model_outputs,
    }
    rows = [row for name, column in columns.items() for row in _column_rows(name, column)]
    shown = (
        (*titles, *(_facts(leaf) if isinstance(leaf, np.ndarray) else (leaf,))) for *titles, leaf in rows[:_MOST_ROWS]
    )
    infos = sum(1 for info in episode.get_infos() if info)
    head = "".join(f"<th style='text-align:left'>{title}</th>" for title in _TITLES)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in shown)
    hidden = f"<p>... and {len(rows) - _MOST_ROWS} more columns</p>" if len(rows) > _MOST_ROWS else ""
    return (
        f"<div><b>{escape(_shorten(repr(episode)))}</b>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{hidden}"
        f"<p>{infos} of {len(episode.infos)} infos have content.</p></div>"
    )


_TITLES = ("column", "items", "lookback", "type", "min", "max", "NaN", "bytes")


def _column_rows(name: str, column: LookbackBuffer) -> list[tuple[Any, ...]]:
    """Return for each leaf its name, how many items it has, and its array, or what is wrong with it."""
    counts = (str(len(column)), str(column.lookback))
    try:
        stored: Any = column.stacked()
        found = list(leaves(stored.arrays))
    except ValueError as error:  # items that do not stack yet
        return [(_shorten(name), *counts, _shorten(str(error)))]
    return [(_shorten(name + path), *counts, leaf) for path, leaf in found]


def _facts(leaf: np.ndarray) -> tuple[str, ...]:
    kind = f"{leaf.dtype}{list(leaf.shape[1:])}"
    if not leaf.size or leaf.dtype.kind not in "biuf":
        return kind, "", "", "", str(leaf.nbytes)
    nans = int(np.isnan(leaf).sum()) if leaf.dtype.kind == "f" else 0
    if nans == leaf.size:
        return kind, "nan", "nan", str(nans), str(leaf.nbytes)
    lowest, highest = (np.nanmin(leaf), np.nanmax(leaf)) if nans else (leaf.min(), leaf.max())
    return kind, f"{lowest:.6g}", f"{highest:.6g}", str(nans), str(leaf.nbytes)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."


def episodes_text(episodes: Sequence[Any]) -> str:
    """Return what a list of episodes is in one line."""
    if not episodes:
        return "EpisodeList(no episodes)"
    steps = sum(len(episode) for episode in episodes)
    done = sum(episode.is_done for episode in episodes)
    kind = type(episodes[0]).__name__
    plural = "s" if len(episodes) != 1 else ""
    return f"EpisodeList({len(episodes)} {kind}{plural}, {steps} steps, {done} done)"


def episodes_html(episodes: Sequence[Any]) -> str:
    """Return a table with one row for each episode; all text from outside is escaped."""
    titles = ("episode", "time steps", "length", "return", "end")
    head = "".join(f"<th style='text-align:left'>{title}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _episode_cells(episode)) + "</tr>"
        for episode in episodes[:_MOST_ROWS]
    )
    hidden = f"<p>... and {len(episodes) - _MOST_ROWS} more episodes</p>" if len(episodes) > _MOST_ROWS else ""
    return (
        f"<div><b>{escape(episodes_text(episodes))}</b>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{hidden}</div>"
    )


def _episode_cells(episode: Any) -> tuple[str, ...]:
    last = episode.env_t if hasattr(episode, "env_t") else episode.t
    times = f"{last - len(episode)} .. {last}"
    end = ", ".join(_ending(episode)) or "running"
    return _shorten(str(episode.id_)), times, str(len(episode)), f"{episode.get_return():g}", end
