"""The files of a shared buffer: what writer and readers agree on.

Beside the columns there are a file for each array of the index, a layout that says which file is which array, counters, and the
file of a lock. A file of an array is never made larger: a larger array is another file, and a new layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np

from episodia.replay.table import Table

LOCK_NAME: Final = "shared.lock"
LAYOUT_NAME: Final = "shared.layout"
COUNTERS_NAME: Final = "shared.counters"


class Counter(IntEnum):
    """Places in the counters of a buffer: int64."""

    ASKED = 0  # how often the writer asked for the lock: readers let it pass
    BEGUN = 1  # how many changes were begun
    COMMITTED = 2  # how many changes were written to their end
    LAYOUT = 3  # how many layouts were written


class Number(IntEnum):
    """Places in the numbers of a table: int64."""

    CLAIMED = 0
    USED = 1
    STEPS = 2


def index_arrays(table: Table) -> Iterator[tuple[str, Any, str]]:
    """Yield a name for each array of the index of `table`, the object that has it, and the attribute."""
    index, claims = table.writer.index, table.writer.ring
    holders = [("index", index, ("kind", "run_of")), ("claims", claims, claims.arrays)]
    holders += [("runs", index.runs, index.runs.fields), ("episodes", index.episodes, index.episodes.fields)]
    for place, owner, names in holders:
        for name in names:
            yield f"{place}-{name}", owner, name


def mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], mode: Any) -> np.ndarray:
    """Return an array that is mapped from a file, as a plain array: methods of the subclass are slower."""
    return np.asarray(np.memmap(path, dtype, mode, shape=shape))
