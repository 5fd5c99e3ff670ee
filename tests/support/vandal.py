"""What the worst of all callers does with the things it passed in or got out."""

import numpy as np

from episodia.episodes.columns.items_copy import ItemsCopy


def arrays_in(value):
    """Every array in nested dicts, tuples, lists and object arrays."""
    if isinstance(value, np.ndarray):
        yield value
        if value.dtype.hasobject:
            for entry in value.ravel():
                yield from arrays_in(entry)
    elif isinstance(value, (dict, list, tuple)):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(entry)


def ruin(value):
    """Overwrite every array that can be written, and empty every container."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            for entry in value.ravel():
                ruin(entry)
        if value.flags.writeable:
            value[...] = _something_else(value)
    elif isinstance(value, (dict, list, tuple)):
        for entry in list(value.values() if isinstance(value, dict) else value):
            ruin(entry)
        if not isinstance(value, (tuple, ItemsCopy)):  # an `ItemsCopy` rejects changes
            value.clear()


def _something_else(array):
    if array.dtype.hasobject:
        return None
    return "ruined" if array.dtype.kind == "U" else array == 0
