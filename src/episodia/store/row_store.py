"""`RowStore`: records of rows on disk, appended and never changed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from episodia.errors import DamagedStoreError, StoreError, StoreWarning
from episodia.store.journal import JOURNAL_NAME, ColumnPart, Journal
from episodia.store.record_writer import NewRecord, RecordWriter
from episodia.store.row_files import RowFile
from episodia.store.row_schema import SCHEMA_NAME, RowColumn, read_schema
from episodia.store.writer_lock import LOCK_NAME, WriterLock, has_writer


@final
@dataclass(frozen=True)
class Damage:
    """A fault of a store: its file, its record (None if it is not known), and what was found."""

    file: str
    position: int | None
    found: str


@final
class RowStore:
    """A directory with a schema, one file of rows for each column, and a journal that says which rows are whole.

    Reading takes no lock: a store can be read by any number of processes while one process appends to it.

    Args:
        directory: The directory; it is made when something is appended.

    Attributes:
        columns: The columns.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.columns: list[RowColumn] = []
        self._files: list[RowFile] = []
        self._journal = Journal(directory)
        self._writer: RecordWriter | None = None
        self._has_warned = False

    # --- Reading ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._journal.records)

    @property
    def exists(self) -> bool:
        """Whether there is a store in the directory."""
        return (self.directory / SCHEMA_NAME).exists()

    def read_on(self) -> None:
        """Learn what other processes have appended.

        Raises:
            StoreError: If there is no store, or if schema or journal cannot be read.
        """
        if self._writer is not None:
            return  # there is no other writer
        has_company = has_writer(self.directory)
        # A new column is in the schema before the journal has rows of it.
        self._journal.read_on()
        self.columns = read_schema(self.directory)
        if not self._has_warned and not has_company:
            self._has_warned = True
            self._warn_of_damage()

    def meta(self, position: int) -> dict[str, Any] | None:
        """Return what a record says of itself; None if its line of the journal is damaged."""
        record = self._journal.records[position]
        return None if record is None else record.meta

    def rows(self, position: int) -> list[np.ndarray]:
        """Return the rows of a record, read-only, without a copy, after checking them.

        Raises:
            DamagedStoreError: If the record is damaged; the message names the file, the record and the column.
        """
        record = self._journal.records[position]
        if record is None:
            raise DamagedStoreError(
                f"{self._journal.path}: found a damaged line, expected the one of episode {position} (damaged lines: "
                f"{self._journal.bad_lines[:10]}). The other episodes can be read. `check()` lists all damage.",
                file=JOURNAL_NAME,
            )
        where = f"episode {position} ({str(record.meta.get('id'))[:80]!r})"
        return [self._file(part, where).rows(part, where) for part in record.parts]

    def _file(self, part: ColumnPart, where: str) -> RowFile:
        if part.column >= len(self.columns):
            raise DamagedStoreError(
                f"{self.directory / SCHEMA_NAME}: found {len(self.columns)} columns, expected the column {part.column} of "
                f"{where}. The schema is older than the journal; use a copy of the store.",
                file=SCHEMA_NAME,
            )
        for column in self.columns[len(self._files) :]:
            self._files.append(RowFile(self.directory, column))
        return self._files[part.column]

    @property
    def num_bytes(self) -> int:
        """The size of the rows of all records."""
        widths = [column.row_bytes for column in self.columns]
        return sum(
            part.rows * widths[part.column] for record in self._journal.records if record for part in record.parts
        )

    # --- Damage -----------------------------------------------------------------------------------------------------

    def check(self) -> list[Damage]:
        """Read everything, and return what is damaged."""
        return [*self._damaged_records(), *self._uncovered()]

    def _damaged_records(self) -> Iterator[Damage]:
        for position in range(len(self)):
            try:
                self.rows(position)
            except DamagedStoreError as error:
                yield Damage(error.file, position, str(error))

    def _uncovered(self) -> Iterator[Damage]:
        """Yield what the journal does not cover: an interrupted append, or a journal that was cut by whole lines."""
        if self._journal.bad_lines:
            return  # it is not known what they cover
        if self._journal.has_torn_end:
            yield Damage(JOURNAL_NAME, None, "a line without its end")
        ends = [0] * len(self.columns)
        for record in self._journal.records:
            for part in () if record is None else record.parts:
                if part.column < len(ends):
                    ends[part.column] = max(ends[part.column], part.start + part.rows)
        for column, end in zip(self.columns, ends, strict=True):
            rest = RowFile(self.directory, column).size - end * column.row_bytes
            if rest > 0:
                yield Damage(column.file_name, None, f"{rest} bytes that the journal does not cover")

    def _warn_of_damage(self) -> None:
        found = [f"{damage.file}: {damage.found}" for damage in self._uncovered()]
        if found:
            warnings.warn(
                f"{self.directory}: found {'; '.join(found[:3])}, expected rows that the journal covers. An append was "
                "interrupted, which loses nothing that was acknowledged; or the journal was cut, and episodes are missing: "
                f"compare the number of episodes, {len(self)}, with what you expect.",
                StoreWarning,
                stacklevel=4,
            )
        if self._journal.bad_lines:
            warnings.warn(
                f"{self._journal.path}: found the damaged lines {self._journal.bad_lines[:10]}, expected whole ones. Their "
                "episodes cannot be read, the others can. `check()` lists all damage.",
                StoreWarning,
                stacklevel=4,
            )

    # --- Writing ----------------------------------------------------------------------------------------------------

    def open_writer(self) -> RecordWriter:
        """Return the writer, after taking the lock and making the directory if that has not happened.

        Raises:
            StoreError: If there is another writer, if the store is damaged, or if the directory holds other files.
        """
        if self._writer is not None and self._writer.is_broken:
            self.close()
        if self._writer is None:
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
                self._check_free()
                lock = WriterLock(self.directory)
            except OSError as error:
                raise StoreError(
                    f"{self.directory}: found that it cannot be written ({error}), expected a directory with write "
                    "permission. Choose another one."
                ) from error
            try:
                self._writer = self._new_writer(lock)
            except BaseException:
                lock.release()
                raise
        return self._writer

    def _new_writer(self, lock: WriterLock) -> RecordWriter:
        # As if opened for the first time: a failed append may have left anything.
        self._journal, self._files, self.columns = Journal(self.directory), [], []
        if self.exists:
            self._journal.read_on()
            self.columns = read_schema(self.directory)
            if not self._has_warned:
                self._has_warned = True
                self._warn_of_damage()
            if self._journal.bad_lines:
                raise DamagedStoreError(
                    f"{self._journal.path}: found the damaged lines {self._journal.bad_lines[:10]}, expected whole ones. "
                    "Append the readable episodes to a new store, and go on with that one."
                )
        return RecordWriter(self.directory, lock, self.columns, self._journal)

    def _check_free(self) -> None:
        others = [file for file in self.directory.iterdir() if not _is_ours(file.name)]
        # Asked last: another process may begin the store in the meantime.
        if others and not self.exists:
            raise StoreError(
                f"{self.directory}: found other files, such as {others[0].name[:80]!r}, expected a path that does not exist, "
                "an empty directory, or a store. Choose another path; nothing was written."
            )

    def append(self, records: Sequence[NewRecord]) -> None:
        """Store `records`; they are on the disk when this returns.

        Raises:
            StoreError: If they cannot be written; what was appended before is intact.
        """
        writer = self.open_writer()
        if records:
            writer.append(records)

    def close(self) -> None:
        """Stop writing, and let other processes write; reading goes on."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _is_ours(name: str) -> bool:
    return name in (LOCK_NAME, f"{SCHEMA_NAME}.part")
