"""The journal of a store: one line for each record, with a checksum of the line and of each column part.

A record is there once its line is whole. Each line has the number of its record and the place of each part, so that a damaged
line costs no other record.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from episodia.checkpoints.safe_files import open_plain
from episodia.checkpoints.strict_json import strict_json
from episodia.errors import CheckpointError, DamagedStoreError
from episodia.store.store_limits import MAX_COLUMNS, MAX_JOURNAL_BYTES, MAX_LINE_BYTES, MAX_SIZE, MAX_VALUES_PARTS

JOURNAL_NAME: Final = "journal.jsonl"
_KEYS: Final = ["seq", "meta", "parts"]
# A file with more of them is something else.
_MOST_BAD_LINES: Final = 10_000


class ColumnPart(NamedTuple):
    """Rows of one column: the number of the column, the first row, the number of rows, and the CRC32 of their bytes."""

    column: int
    start: int
    rows: int
    crc32: int


class Record(NamedTuple):
    """A line of the journal: what the record says of itself, and its parts."""

    meta: dict[str, Any]
    parts: tuple[ColumnPart, ...]


def line_of(number: int, record: Record) -> bytes:
    """Return the line of the record with this number.

    >>> line_of(0, Record({"id": "walk"}, (ColumnPart(0, 0, 5, 77),))).rstrip()
    b'c62faebb {"seq":0,"meta":{"id":"walk"},"parts":[[0,0,5,77]]}'
    """
    content = {"seq": number, "meta": record.meta, "parts": record.parts}
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


@final
class Journal:
    """The records of the journal of a directory so far.

    Attributes:
        records: The records; None where a line is damaged.
        size: The size of all whole lines.
        has_torn_end: Whether there is a line without its end behind them.
        bad_lines: The numbers of damaged lines, from 1.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / JOURNAL_NAME
        self.records: list[Record | None] = []
        self.size = 0
        self.has_torn_end = False
        self.bad_lines: list[int] = []
        self._num_lines = 0
        # Damaged lines behind the last whole one: how many records they describe is not known yet.
        self._bad_at_end = 0

    def read_on(self) -> None:
        """Read the lines that were added.

        Raises:
            DamagedStoreError: If the journal is shorter than before, too large, or cannot be read.
        """
        content = self._content()
        *lines, rest = content.split(b"\n")
        self.has_torn_end = bool(rest)
        self.size += len(content) - len(rest)
        for line in lines:
            self._num_lines += 1
            self._add(line)

    def _content(self) -> bytes:
        try:
            with open_plain(self.path) as file:
                size = os.fstat(file.fileno()).st_size
                if not self.size <= size <= MAX_JOURNAL_BYTES:
                    raise DamagedStoreError(
                        f"{self.path}: found {size} bytes, expected {self.size} to {MAX_JOURNAL_BYTES}, because lines are only "
                        "added. Another program changed it; use a copy of the store.",
                        file=JOURNAL_NAME,
                    )
                file.seek(self.size)
                return file.read(size - self.size)
        except FileNotFoundError:
            return b""
        except (CheckpointError, OSError) as error:
            raise DamagedStoreError(
                f"{self.path}: found that it cannot be read ({error}), expected a journal. Use a copy of the store.",
                file=JOURNAL_NAME,
            ) from error

    def _add(self, line: bytes) -> None:
        expected = len(self.records) - self._bad_at_end
        try:
            number, record = _parsed(line)
            if not expected <= number <= expected + self._num_lines:
                raise ValueError("a record in the wrong place")
        except (ValueError, TypeError, RecursionError):
            self.bad_lines.append(self._num_lines)
            if len(self.bad_lines) > _MOST_BAD_LINES:
                raise DamagedStoreError(
                    f"{self.path}: found more than {_MOST_BAD_LINES} damaged lines, expected a journal. Another program wrote "
                    "it; use a copy of the store.",
                    file=JOURNAL_NAME,
                ) from None
            self.records.append(None)
            self._bad_at_end += 1
            return
        # A line may be damaged in two pieces, and a damaged end joins two lines.
        del self.records[expected:]
        self.records += [None] * (number - expected)
        self.records.append(record)
        self._bad_at_end = 0

    def take(self, records: list[Record], size: int) -> None:
        """Add records whose lines, of `size` bytes, this process has just written."""
        self.records += records
        self._num_lines += len(records)
        self.size += size


def _parsed(line: bytes) -> tuple[int, Record]:
    if len(line) > MAX_LINE_BYTES or line[8:9] != b" " or line[:8] != b"%08x" % zlib.crc32(line[9:]):
        raise ValueError("a line that does not match its checksum")
    data = strict_json(line[9:], max_parts=MAX_VALUES_PARTS)
    if not isinstance(data, dict) or list(data) != _KEYS or type(data["seq"]) is not int:
        raise ValueError("another content")
    if not isinstance(data["meta"], dict) or not isinstance(data["parts"], list):
        raise ValueError("another content")
    return data["seq"], Record(data["meta"], tuple(map(_part, data["parts"])))


def _part(numbers: Any) -> ColumnPart:
    part = ColumnPart(*numbers)
    if not all(type(number) is int and 0 <= number < MAX_SIZE for number in part) or part.column >= MAX_COLUMNS:
        raise ValueError("a part that cannot be")
    return part
