"""Appending records to a store: data first, then the journal."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, final

import numpy as np

from episodia.checkpoints.safe_files import open_plain, sync_directory, write_durably
from episodia.errors import StoreError
from episodia.store.journal import JOURNAL_NAME, ColumnPart, Journal, Record, line_of
from episodia.store.row_schema import SCHEMA_NAME, RowColumn, new_column, schema_bytes
from episodia.store.store_limits import MAX_COLUMNS, MAX_JOURNAL_BYTES, MAX_LINE_BYTES, MAX_PATH_LENGTH
from episodia.store.writer_lock import WriterLock


class NewRecord(NamedTuple):
    """A record to be stored: what it says of itself, in JSON, and rows by the number of their column."""

    meta: dict[str, Any]
    rows: Sequence[tuple[int, np.ndarray]]


@final
class RecordWriter:
    """The one writer of a directory, which must hold its lock."""

    def __init__(self, directory: Path, lock: WriterLock, columns: list[RowColumn], journal: Journal) -> None:
        self.is_broken = False
        self._directory = directory
        self._lock = lock
        self._columns = columns
        self._num_saved = len(columns)
        self._numbers = {(c.path, c.dtype, c.shape): number for number, c in enumerate(columns)}
        self._journal = journal
        self._files: dict[int, IO[bytes]] = {}
        self._lines: IO[bytes] | None = None

    def column_of(self, path: str, rows: np.ndarray) -> int | None:
        """Return the number of the column for such rows, which may be a new one; None if there are too many columns."""
        key = (path, rows.dtype.str, rows.shape[1:])
        if key not in self._numbers:
            if len(self._columns) >= MAX_COLUMNS or len(path) > MAX_PATH_LENGTH:
                return None
            self._numbers[key] = len(self._columns)
            self._columns.append(new_column(self._columns, path, rows))
        return self._numbers[key]

    def append(self, records: Sequence[NewRecord]) -> None:
        """Store `records`; they are on the disk when this returns.

        Raises:
            StoreError: If they cannot be written; the store then has to be opened again.
        """
        self._lock.check_process()
        # Until the journal is on the disk, it is not known what a reader will find there.
        self.is_broken = True
        try:
            if self._num_saved < len(self._columns):
                write_durably(self._directory / SCHEMA_NAME, schema_bytes(self._columns))
                self._num_saved = len(self._columns)
            written = self._write_rows(records)
            lines = [line_of(len(self._journal.records) + place, record) for place, record in enumerate(written)]
            self._check_lines(lines)
            self._write_lines(b"".join(lines))
        except OSError as error:
            raise StoreError(
                f"{self._directory}: found that it cannot be written ({error}), expected free space and write permission. "
                "Open the store again: what was appended before is intact."
            ) from error
        self._journal.take(written, sum(map(len, lines)))
        self.is_broken = False

    def _write_rows(self, records: Sequence[NewRecord]) -> list[Record]:
        starts: dict[int, int] = {}
        written = [
            Record(record.meta, tuple(self._write_part(number, rows, starts) for number, rows in record.rows))
            for record in records
        ]
        for number in starts:
            _sync(self._files[number])
        return written

    def _write_part(self, number: int, rows: np.ndarray, starts: dict[int, int]) -> ColumnPart:
        content = _bytes_of(rows)
        if number not in starts:
            starts[number] = self._opened_at_row(number)
        part = ColumnPart(number, starts[number], len(rows), zlib.crc32(content))
        self._files[number].write(content)
        starts[number] += len(rows)
        return part

    def _opened_at_row(self, number: int) -> int:
        """Return the row at which the file of a column goes on: behind what it has, whether or not the journal covers it."""
        column = self._columns[number]
        if number not in self._files:
            path = self._directory / column.file_name
            is_new = not path.exists()
            self._files[number] = open_plain(path, writable=True)
            if is_new:
                sync_directory(self._directory)
        file = self._files[number]
        row = -(-file.seek(0, os.SEEK_END) // column.row_bytes) if column.row_bytes else 0
        file.seek(row * column.row_bytes)
        return row

    def _check_lines(self, lines: list[bytes]) -> None:
        longest, size = max(map(len, lines)), self._journal.size + sum(map(len, lines))
        if longest > MAX_LINE_BYTES or size > MAX_JOURNAL_BYTES:
            raise StoreError(
                f"{self._journal.path}: found a line of {longest} bytes, and {size} bytes in all, expected at most "
                f"{MAX_LINE_BYTES} and {MAX_JOURNAL_BYTES}. Store episodes with fewer agents, or begin another store."
            )

    def _write_lines(self, content: bytes) -> None:
        if self._lines is None:
            is_new = not self._journal.path.exists()
            self._lines = open_plain(self._directory / JOURNAL_NAME, writable=True)
            if is_new:
                sync_directory(self._directory)
            # A line without its end was never acknowledged.
            self._lines.truncate(self._journal.size)
        self._lines.seek(self._journal.size)
        self._lines.write(content)
        _sync(self._lines)

    def close(self) -> None:
        """Close the files, and let others write."""
        for file in (*self._files.values(), *([] if self._lines is None else [self._lines])):
            file.close()
        self._lock.release()


def _bytes_of(rows: np.ndarray) -> memoryview | bytes:
    # Times have no buffer.
    content = np.ascontiguousarray(rows)
    return content.reshape(-1).view(np.uint8).data if content.size else b""


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
