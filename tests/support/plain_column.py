"""The oracle: a column with a lookback as a plain Python list. It shares no code with the library."""

from itertools import chain

import numpy as np
from gymnasium import spaces

NOTHING = object()


# --- What an index means ---


def place(index, *, size, lookback, as_lookback):
    """Where on the track an index points to; it may lie outside of 0 .. size - 1."""
    index = int(index)
    if index >= 0 or as_lookback:
        return lookback + index
    return size + index


def bounds(key, *, size, lookback, as_lookback):
    step = 1 if key.step is None else int(key.step)
    first, end = (lookback, size) if step > 0 else (size - 1, lookback - 1)
    where = {"size": size, "lookback": lookback, "as_lookback": as_lookback}
    start = first if key.start is None else place(key.start, **where)
    stop = end if key.stop is None else place(key.stop, **where)
    return start, stop, step


def read(track, lookback, index, *, as_lookback=False, fill=NOTHING):
    """What a reader gets from a list of items of which the first `lookback` are the past."""
    where = {"size": len(track), "lookback": lookback, "as_lookback": as_lookback}
    index = slice(None) if index is None else index
    if isinstance(index, slice) and fill is NOTHING:
        start, stop, step = bounds(index, **where)
        # Python counts negative bounds from the end: spelled so, it clips them as it clips all others.
        spelled = [bound if bound >= 0 else bound - len(track) for bound in (start, stop)]
        return track[slice(*spelled, step)]
    if isinstance(index, slice):
        return [_at(track, position, fill) for position in range(*bounds(index, **where))]
    if isinstance(index, (list, tuple, range, np.ndarray)):
        return [_at(track, place(entry, **where), fill) for entry in index]
    return _at(track, place(index, **where), fill)


def _at(track, position, fill):
    if 0 <= position < len(track):
        return track[position]
    if fill is NOTHING:
        raise IndexError(position)
    return fill


def read_or_error(*args, **kwargs):
    try:
        return read(*args, **kwargs)
    except IndexError:
        return IndexError


# --- What an item is worth ---


def plain(value):
    """Arrays as lists, NumPy numbers as Python numbers, in the same nesting."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(entry) for entry in value)
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return value.item() if isinstance(value, np.generic) else value


def rows(batch):
    """The plain items of a batch, or of a list of items."""
    if isinstance(batch, dict):
        columns = [rows(column) for column in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(batch, tuple):
        return list(zip(*map(rows, batch), strict=True))
    return [plain(item) for item in batch]


def filled(space, value):
    """A plain item of a space with one value everywhere."""
    if isinstance(space, spaces.Dict):
        return {key: filled(child, value) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(filled(child, value) for child in space.spaces)
    if isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return _repeated(value, list(space.shape))
    return value


def filled_like(item, value):
    """A plain item nested and shaped like another one, with one value everywhere."""
    if isinstance(item, dict):
        return {key: filled_like(entry, value) for key, entry in item.items()}
    if isinstance(item, tuple):
        return tuple(filled_like(entry, value) for entry in item)
    return _repeated(value, list(np.shape(item)))


def _repeated(value, shape):
    return [_repeated(value, shape[1:]) for _ in range(shape[0])] if shape else value


def hot(space, item):
    """A plain item with one-hot vectors where a space is discrete."""
    if isinstance(space, spaces.Dict):
        return {key: hot(child, item[key]) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(hot(child, entry) for child, entry in zip(space.spaces, item, strict=True))
    if isinstance(space, spaces.Discrete):
        return _one_hot(int(item) - int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        flat = [np.ravel(part).tolist() for part in (item, space.start, space.nvec)]
        return list(chain.from_iterable(_one_hot(value - start, n) for value, start, n in zip(*flat, strict=True)))
    return plain(item)


def _one_hot(place, count):
    return [float(place == other) for other in range(count)]


def cold(space):
    """What `hot` would give if no class were there: zeros everywhere."""
    if isinstance(space, spaces.Dict):
        return {key: cold(child) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(cold(child) for child in space.spaces)
    if isinstance(space, spaces.Discrete):
        return [0.0] * int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return [0.0] * int(space.nvec.sum())
    return filled(space, 0)
