"""The column files of a store, mapped into memory for reading."""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path
from typing import final

import numpy as np

from episodia.checkpoints.safe_files import open_plain
from episodia.errors import CheckpointError, DamagedStoreError
from episodia.store.journal import ColumnPart
from episodia.store.packed_values import array_in
from episodia.store.row_schema import RowColumn


@final
class RowFile:
    """The rows of one column, mapped when they are first read, and again when there are more."""

    def __init__(self, directory: Path, column: RowColumn) -> None:
        self.column = column
        self.path = directory / column.file_name
        self._content = memoryview(b"")

    @property
    def size(self) -> int:
        """The size of the file; 0 if there is no file."""
        try:
            return self.path.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0

    def rows(self, part: ColumnPart, where: str) -> np.ndarray:
        """Return the rows of `part`, read-only, without a copy, after checking them.

        Args:
            part: Which rows.
            where: Names the record in messages.

        Raises:
            DamagedStoreError: If the file is too short or does not match the checksum.
        """
        width = self.column.row_bytes
        start, stop = part.start * width, (part.start + part.rows) * width
        if stop > len(self._content) and width:
            self._map(stop, where)
        content = self._content[start:stop]
        if zlib.crc32(content) != part.crc32:
            raise self._damaged(where, f"bytes {start} to {stop} with another checksum", "the bytes that were stored")
        try:
            return array_in(content, self.column.row_dtype, (part.rows, *self.column.shape))
        except (ValueError, MemoryError) as error:  # sizes beside an empty axis may be too large
            raise self._damaged(
                where, f"an impossible number of rows ({error})", "the rows that were stored"
            ) from error

    def _map(self, stop: int, where: str) -> None:
        try:
            with open_plain(self.path) as file:
                size = os.fstat(file.fileno()).st_size
                if size < stop:
                    raise self._damaged(where, f"{size} bytes", f"at least {stop}")
                self._content = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        except (FileNotFoundError, CheckpointError, OSError) as error:
            raise self._damaged(where, f"that it cannot be read ({error})", "a column file") from error

    def _damaged(self, where: str, found: str, expected: str) -> DamagedStoreError:
        return DamagedStoreError(
            f"{self.path}: found {found}, expected {expected} of the column {self.column.path!r} of {where}. The file is "
            "damaged; the other episodes can be read. `check()` lists all damage.",
            file=self.column.file_name,
        )
