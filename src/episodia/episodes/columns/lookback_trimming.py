"""Lookbacks that are trimmed: columns of chunks and slices, with as much of the past as was asked for.

Nothing is copied: the new columns share the items.
"""

from __future__ import annotations

from episodia.episodes.columns.lookback_buffer import LookbackBuffer


def trimmed_tail(column: LookbackBuffer, lookback: int, current: int) -> LookbackBuffer:
    """Return the last `current` items of `column` with `lookback` items in front of them, or as many as there are."""
    size = column.len_incl_lookback()
    start = max(0, size - lookback - current)
    return column.share(slice(start, size), max(0, size - current - start))


def trimmed_slice(column: LookbackBuffer, steps: range, stop: int, lookback: int, *, track: bool) -> LookbackBuffer:
    """Return the items of `column` at `steps`, with up to `lookback` items at the same distances in front of them.

    A track (observations, infos) has one item more: the one where the next step would be, but none after `stop`.
    """
    stride = steps.step
    kept = num_kept(column, steps, lookback)
    start = column.lookback + steps.start - kept * stride
    count = kept + len(steps)
    if not track:
        return column.share(slice(start, start + count * stride, stride), kept)
    last = column.lookback + min(steps.start + len(steps) * stride, stop)
    if last == start + count * stride:
        return column.share(slice(start, last + 1, stride), kept)
    strided = column.share(slice(start, start + count * stride, stride), kept)
    strided.concat(column.share(slice(last, last + 1), 0))
    return strided


def num_kept(column: LookbackBuffer, steps: range, lookback: int) -> int:
    """Return how many of `lookback` items at the distances of `steps` there are in front of them."""
    return min(lookback, (column.lookback + steps.start) // steps.step)
