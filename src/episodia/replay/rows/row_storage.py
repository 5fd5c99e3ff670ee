"""The storage of the arrays of a buffer: in memory, or in files that are mapped into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable
from urllib.parse import quote

import numpy as np

from episodia.arguments import checked_flag, checked_path, names_nearest_argument
from episodia.errors import ReplayError
from episodia.trees import leaves
from episodia.types import Item


@runtime_checkable
class RowStorage(Protocol):
    """Makes the arrays of a buffer: one for each leaf of each column."""

    def check(self, name: str, values: Item) -> None:
        """Reject values that cannot be stored: nested arrays of the column `name`.

        Raises:
            ReplayError: If they cannot.
        """

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return a C-contiguous array of zeros; `name` is unique within a buffer."""


@final
class InMemory:
    """Arrays in memory. Pages are taken from the system when they are first written.

    >>> InMemory().array("obs", (3, 2), np.dtype(np.float32)).shape
    (3, 2)
    """

    __slots__ = ()

    def check(self, name: str, values: Item) -> None:
        """Accept all values."""

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array of zeros."""
        return np.zeros(shape, dtype)

    def __repr__(self) -> str:
        return "InMemory()"


@names_nearest_argument
@final
class MemoryMapped:
    """Arrays in files below `path`, one for each leaf, so that a buffer may be larger than memory.

    The files are work space: they are overwritten, and they are not a saved buffer. They take space on disk as rows are
    written.

    Args:
        path: A directory; it is made if it is missing.
        shared: Whether other processes may sample from the buffer meanwhile, each with a `ReplayReader`.
    """

    __slots__ = ("is_shared", "path")

    def __init__(self, path: str | Path, *, shared: bool = False) -> None:
        self.path = checked_path(ReplayError, "MemoryMapped", "path", path)
        self.is_shared = checked_flag(ReplayError, "MemoryMapped", "shared", shared)

    def file(self, name: str) -> Path:
        """Return the file of the array `name`."""
        return self.path / f"{quote(name, safe='')}.rows"

    def check(self, name: str, values: Item) -> None:
        """Reject items that are Python objects, which have no fixed size.

        Raises:
            ReplayError: If there are such items.
        """
        if any(leaf.dtype.hasobject for _, leaf in leaves(values)):
            raise ReplayError(
                f"column {name!r}: found items that are Python objects, expected arrays of numbers in a buffer that is mapped "
                "from files. Use `storage=InMemory()`, or leave the column out."
            )

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array of zeros that is mapped from a new file.

        Raises:
            ReplayError: If the file cannot be made.
        """
        file = self.file(name)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if file.exists():
                file.unlink()  # another buffer may have mapped it: that one keeps its data
            mapped = np.memmap(file, dtype, "w+", shape=shape)
        except OSError as error:
            raise ReplayError(
                f"found the file {str(file)!r}, which cannot be mapped ({error}). Choose another path."
            ) from error
        # Without the subclass: its methods are slower, and its results are of the subclass, too.
        return np.asarray(mapped)

    def __repr__(self) -> str:
        return f"MemoryMapped({str(self.path)!r}{', shared=True' * self.is_shared})"
