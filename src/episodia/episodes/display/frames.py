"""Images of an episode, as a strip of frames."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def draw_frames(axes: Any, column: np.ndarray, first_t: int, *, now: int, ending: str) -> None:
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
