"""The metrics of a run as JSON lines, one line per update."""

from __future__ import annotations

import json
import math
import re
import zlib
from pathlib import Path
from typing import final

from episodia.checkpoints.safe_files import write_durably
from episodia.errors import TrainingError
from episodia.training.training import Record

# Fields of each record that are integers.
_WHOLE = ("iteration", "steps")


@final
class MetricsFile:
    r"""Appends records to a file; other processes can read a record as soon as the call returns.

    Each line ends with a checksum of itself, which is not part of the record.

    Args:
        path: The file; the first record creates it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = MetricsFile(Path(folder) / "metrics.jsonl")
    ...     file({"iteration": 1, "return_mean": math.nan})
    ...     file.path.read_text()
    '{"iteration": 1, "return_mean": null, "crc32": "1d3b9d13"}\n'
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, record: Record) -> None:
        """Append `record`; NaN and infinity become `null`, because JSON cannot express them.

        Raises:
            TrainingError: If the file cannot be written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(record))
        except OSError as error:
            raise self._unusable("written", error) from error

    def read(self) -> list[Record]:
        """Return all records, without a last line that is incomplete.

        Raises:
            TrainingError: If another line is not a record, or if the file cannot be read.
        """
        if not self.path.exists():
            return []
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise self._unusable("read", error) from error
        return [self._record(number, line) for number, line in enumerate(lines, 1) if line.endswith(b"\n")]

    def keep_until(self, iteration: int) -> list[Record]:
        """Remove the records after `iteration`, where a resumed training continues, and return the others.

        Raises:
            TrainingError: See `read`.
        """
        kept = [record for record in self.read() if record["iteration"] <= iteration]
        if self.path.exists():
            try:
                write_durably(self.path, "".join(map(_line, kept)).encode())
            except OSError as error:
                raise self._unusable("written", error) from error
        return kept

    def _record(self, number: int, line: bytes) -> Record:
        try:
            found = {name: _number(value) for name, value in json.loads(_checked(line)).items()}
            whole = {name: int(found[name]) for name in _WHOLE}
            return found | whole | {"return_mean": found["return_mean"]}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise TrainingError(
                f"{self.path}, line {number}: found {line[:60]!r}, expected a JSON object of numbers with "
                f"{[*_WHOLE, 'return_mean']} ({error!r}). Remove the line, or choose another directory."
            ) from error

    def _unusable(self, done: str, error: OSError) -> TrainingError:
        return TrainingError(
            f"{self.path}: found that the file cannot be {done} ({error}), expected a file for the metrics. Free space, change "
            "the permissions, or choose another directory."
        )


def _number(value: object) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return value


_CHECKSUM = re.compile(rb', "crc32": "([0-9a-f]{8})"}\n')


def _line(record: Record) -> str:
    text = json.dumps({name: value if math.isfinite(value) else None for name, value in record.items()})
    return f'{text[:-1]}, "crc32": "{zlib.crc32(text.encode()):08x}"}}\n'


def _checked(line: bytes) -> bytes:
    """Return a line without its checksum; lines of earlier versions have none.

    Raises:
        ValueError: If the checksum is that of another line.
    """
    found = _CHECKSUM.search(line)
    if found is None:
        return line
    text = line[: found.start()] + b"}"
    if found.end() != len(line) or int(found[1], 16) != zlib.crc32(text):
        raise ValueError("its checksum is that of another line")
    return text
