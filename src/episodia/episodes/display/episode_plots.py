"""Pictures of an episode: its columns over time, one panel below the other.

A panel is a set of lines, or, where items are images, a strip of frames. The lookback is shaded; a line, or the last frame,
tells how the episode ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from episodia.columns import Columns
from episodia.display import plotting
from episodia.episodes.display.episode_tables import columns_of
from episodia.errors import EpisodeError, EpisodeKeyError
from episodia.trees import leaves

if TYPE_CHECKING:
    from episodia.episodes.columns.lookback_buffer import LookbackBuffer
    from episodia.episodes.single_agent.single_agent_episode import SingleAgentEpisode


_MOST_LINES = 8
_MOST_STRIPS = 4
_MOST_DOTS = 60


@final
@dataclass(frozen=True)
class Panel:
    """The contents of one axes: lines of a column, or one part of it that consists of images."""

    column: str
    title: str
    first_t: int  # the time step of the first item, those of the lookback included
    parts: list[tuple[str, np.ndarray]]  # path and items of each part
    is_frames: bool


def plot(episode: SingleAgentEpisode, columns: Sequence[str], ax: Any) -> Any:
    """Draw `columns` of `episode`, or observations, actions and rewards if none is named, and return the figure.

    Raises:
        EpisodeKeyError: If there is no such column.
        EpisodeError: If a column has nothing in it that can be drawn.
        MissingExtraError: If matplotlib is not installed.
    """
    panels = _panels(episode, columns)
    figure, all_axes = plotting.panels(
        [panel.title for panel in panels], ax, heights=[1.6 if panel.is_frames else 1.9 for panel in panels]
    )
    for panel, axes in zip(panels, all_axes, strict=True):
        axes.set_ylabel(plotting.plain(panel.title))
        if panel.is_frames:
            [(_, frames)] = panel.parts
            _draw_frames(axes, frames, panel.first_t, now=episode.t_started, ending=ending_of(episode))
        else:
            _draw_lines(axes, panel)
            mark_time(axes, episode.t_started - episode.observations.lookback, episode.t_started, episode.t)
            mark_end(axes, episode.t, ending_of(episode))
            axes.set_xlabel("time step" if axes is all_axes[-1] else "")
    if ax is None:
        figure.suptitle(
            f"{plotting.plain(episode.id_)}: {len(episode)} steps, return {episode.get_return():g}", fontsize=11
        )
        plotting.readable(figure)
    return figure


def ending_of(episode: Any) -> str:
    """Return how an episode ended, an empty string if it is running."""
    flags = (("terminated", episode.is_terminated), ("truncated", episode.is_truncated))
    return ", ".join(name for name, flag in flags if flag)


def check_columns(episode_id: str, columns: Sequence[object], known: list[str]) -> None:
    """Raise `EpisodeKeyError` unless all `columns` are among the known ones."""
    for column in columns:
        # An object that cannot be hashed is not a name either.
        if not isinstance(column, str) or column not in known:
            raise EpisodeKeyError(
                f"episode {episode_id!r}: found the column {column!r}, expected one of {known}. Pass such names."
            )


# --- Contents ------------------------------------------------------------------------------------------------------


def _panels(episode: SingleAgentEpisode, columns: Sequence[str]) -> list[Panel]:
    known = columns_of(episode)
    check_columns(episode.id_, columns, list(known))
    # A default column without numbers is left out; rewards are always numbers.
    asked = columns or [
        column for column in (Columns.OBS, Columns.ACTIONS, Columns.REWARDS) if _numbers(known[column])[0]
    ]
    return [panel for column in asked for panel in _panels_of(episode, column, known[column])]


def _panels_of(episode: SingleAgentEpisode, name: str, column: LookbackBuffer) -> list[Panel]:
    found, reason = _numbers(column)
    if not found:
        raise EpisodeError(
            f"episode {episode.id_!r}, column {name!r}: found {reason}, expected numbers to draw. Pass other columns."
        )
    first_t = episode.t_started - column.lookback
    strips = [(path, leaf) for path, leaf in found if is_image(leaf)]
    lines = [(path, leaf) for path, leaf in found if not is_image(leaf)]
    panels = [Panel(name, name + path, first_t, [(path, leaf)], True) for path, leaf in strips[:_MOST_STRIPS]]
    title = name + lines[0][0] if len(lines) == 1 else name
    return [*panels, Panel(name, title, first_t, lines, False)] if lines else panels


def _numbers(column: LookbackBuffer) -> tuple[list[tuple[str, np.ndarray]], str]:
    """Return the parts of a column that consist of numbers, and the reason if there are no such parts."""
    try:
        stored: Any = column.stacked()
    except ValueError as error:  # items that do not stack
        return [], str(error)
    parts = list(leaves(stored.arrays))
    found = [(path, leaf) for path, leaf in parts if leaf.dtype.kind in "biuf" and _size(leaf)]
    return found, f"items of {sorted({str(leaf.dtype) for _, leaf in parts})}"


def _size(leaf: np.ndarray) -> int:
    return int(np.prod(leaf.shape[1:]))


# --- Drawing ---------------------------------------------------------------------------------------------------------


def _draw_lines(axes: Any, panel: Panel) -> None:
    count = sum(_size(leaf) for _, leaf in panel.parts)
    drawn = 0
    for path, leaf in panel.parts:
        lines = leaf.reshape(len(leaf), _size(leaf))
        for number in range(min(_size(leaf), _MOST_LINES - drawn)):
            label = path + (f"[{number}]" if leaf.ndim > 1 else "")
            draw_line(axes, panel.first_t + np.arange(len(leaf)), lines[:, number], label=label)
            drawn += 1
    if all(leaf.dtype.kind != "f" for _, leaf in panel.parts):
        plotting.count(axes.yaxis)
    if count > 1:
        more = f"{drawn} of {count}" if drawn < count else None
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=7, frameon=False, title=more, title_fontsize=7
        )


def draw_line(axes: Any, times: Sequence[int] | np.ndarray, values: np.ndarray, **style: Any) -> None:
    """Draw one line: as steps for integers, straight for floats, and with dots if it is short."""
    if "label" in style:
        style["label"] = plotting.plain(style["label"])
    marker = "." if len(values) <= _MOST_DOTS else ""
    drawstyle = "default" if values.dtype.kind == "f" else "steps-post"
    axes.plot(times, values.astype(np.float64), marker=marker, linewidth=1.2, drawstyle=drawstyle, **style)


def mark_time(axes: Any, first_t: int, now: int, last_t: int) -> None:
    """Show all time steps from `first_t` to `last_t` in `axes`, those before `now` shaded."""
    axes.set_xlim(first_t - 0.5, last_t + 0.5)
    plotting.count(axes.xaxis)
    if first_t < now:
        axes.axvspan(first_t - 0.5, now - 0.5, color="0.5", alpha=0.2, linewidth=0)
        axes.annotate("lookback", (first_t - 0.4, 1.0), xycoords=_of_panel(axes), fontsize=7, va="bottom")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def mark_end(axes: Any, t: int, ending: str) -> None:
    """Draw a line at time step `t` that says how it ended; nothing, if it has not."""
    if ending:
        axes.axvline(t, color=plotting.GREY, linestyle="-" if ending == "terminated" else "--", linewidth=1.2)
        axes.annotate(ending, (t, 1.0), xycoords=_of_panel(axes), fontsize=7, ha="right", va="bottom")


def _of_panel(axes: Any) -> Any:
    """Return coordinates that are time steps from left to right, and go from 0 to 1 from the bottom to the top."""
    return axes.get_xaxis_transform()


_MOST_FRAMES = 8
_SMALLEST_SIDE = 8
_MOST_CHANNELS = 16
_GAP = 0.05


def is_image(column: np.ndarray) -> bool:
    """Tell whether the items of a column look like images: numbers on a grid, alone or with a few channels.

    >>> is_image(np.zeros((5, 84, 84, 4))), is_image(np.zeros((5, 3, 64, 64))), is_image(np.zeros((5, 20, 3)))
    (True, True, False)
    """
    shape = column.shape[1:]
    if len(shape) == 3:
        channels = shape[_channel_axis(shape)]
        shape = tuple(side for axis, side in enumerate(shape) if axis != _channel_axis(shape))
        if not 1 <= channels <= _MOST_CHANNELS:
            return False
    return len(shape) == 2 and min(shape) >= _SMALLEST_SIDE


def _channel_axis(shape: tuple[int, ...]) -> int:
    return 0 if shape[0] < shape[2] else 2


def pictures(frames: np.ndarray) -> np.ndarray:
    """Return images as they can be drawn: `[N, height, width, 3]` in colour, `[N, height, width]` in grey.

    Three channels are colours; of any other number, such as four stacked frames, the last is shown.
    """
    if frames.ndim == 4:
        frames = np.moveaxis(frames, 1 + _channel_axis(frames.shape[1:]), -1)
        if frames.shape[-1] != 3:
            frames = frames[..., -1]
    if frames.dtype == np.uint8:
        return frames / 255.0
    values = frames.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    return np.clip(np.nan_to_num((values - low) / ((high - low) or 1.0)), 0.0, 1.0)


def _draw_frames(axes: Any, column: np.ndarray, first_t: int, *, now: int, ending: str) -> None:
    """Draw some frames of `column` side by side, the first and the last among them, with their time steps below.

    Args:
        axes: Where to draw.
        column: Images, the first one of time step `first_t`.
        first_t: See `column`.
        now: Frames before this time step are the lookback, and shaded.
        ending: What stands below the last frame beside its time step.
    """
    chosen = np.unique(np.linspace(0, len(column) - 1, min(_MOST_FRAMES, len(column))).round().astype(int))
    shown = pictures(column[chosen])
    height = shown.shape[1] / shown.shape[2] if shown.size else 1.0
    labels = [f"t={first_t + number}" for number in chosen]
    for place, picture in enumerate(shown):
        extent = (place, place + 1 - _GAP, 0.0, height)
        axes.imshow(picture, extent=extent, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
        if first_t + chosen[place] < now:
            axes.axvspan(place, place + 1 - _GAP, color="0.5", alpha=0.5, linewidth=0)
            labels[place] += "\nlookback"
    if ending and labels:
        labels[-1] += f"\n{ending}"
    axes.set(xlim=(-_GAP, max(1, len(shown))), ylim=(0.0, height), aspect="equal", yticks=[])
    axes.set_xticks([place + (1 - _GAP) / 2 for place in range(len(shown))], labels, fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


_MARKERS = {"terminated": "o", "truncated": "s", "not ended": "."}


def plot_list(episodes: Sequence[Any], ax: Any) -> Any:
    """Draw the return and the length of each episode, with how it ended, and return the figure.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    figure, (returns, lengths) = plotting.panels(["returns", "lengths"], ax)
    endings = [ending_of(episode).split(",")[0] or "not ended" for episode in episodes]
    for axes, title, values in (
        (returns, "return", [episode.get_return() for episode in episodes]),
        (lengths, "length", [len(episode) for episode in episodes]),
    ):
        axes.plot(values, color=plotting.GREY, alpha=0.6, linewidth=0.8)
        for number, (ending, marker) in enumerate(_MARKERS.items()):
            places = [place for place, found in enumerate(endings) if found == ending]
            if places:
                axes.plot(
                    places, [values[place] for place in places], marker, color=f"C{number}", markersize=5, label=ending
                )
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        plotting.count(axes.xaxis)
    if episodes:
        returns.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=7, frameon=False)
    lengths.set_xlabel("episode")
    if ax is None:
        steps = sum(len(episode) for episode in episodes)
        figure.suptitle(f"{len(episodes)} episodes, {steps} steps", fontsize=11)
        plotting.readable(figure)
    return figure
