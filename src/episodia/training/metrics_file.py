"""Metrics as JSON lines: one line for each update."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import final

from episodia.checkpoints.safe_files import write_durably
from episodia.errors import TrainingError
from episodia.training.training import Record

# What each record has; it is a whole number.
_WHOLE = ("iteration", "steps")


@final
class MetricsFile:
    r"""Appends records to a file; each can be read by others when the call returns.

    Args:
        path: The file; it is made with the first record.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = MetricsFile(Path(folder) / "metrics.jsonl")
    ...     file({"iteration": 1, "return_mean": math.nan})
    ...     file.path.read_text()
    '{"iteration": 1, "return_mean": null}\n'
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, record: Record) -> None:
        """Append `record`; what is no finite number becomes `null`, as JSON has no other word.

        Raises:
            TrainingError: If it cannot be written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(record))
        except OSError as error:
            raise self._unusable("written", error) from error

    def read(self) -> list[Record]:
        """Return all records; a last line that was cut off is left out.

        Raises:
            TrainingError: If another line is no record, or if the file cannot be read.
        """
        if not self.path.exists():
            return []
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise self._unusable("read", error) from error
        return [self._record(number, line) for number, line in enumerate(lines, 1) if line.endswith(b"\n")]

    def keep_until(self, iteration: int) -> list[Record]:
        """Remove what was written after `iteration`, from where a training goes on, and return the rest.

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
            found = {name: _number(value) for name, value in json.loads(line).items()}
            whole = {name: int(found[name]) for name in _WHOLE}
            return found | whole | {"return_mean": found["return_mean"]}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise TrainingError(
                f"{self.path}, line {number}: found {line[:60]!r}, expected a JSON object of numbers with "
                f"{[*_WHOLE, 'return_mean']} ({error!r}). Remove the line, or choose another directory."
            ) from error

    def _unusable(self, done: str, error: OSError) -> TrainingError:
        return TrainingError(
            f"{self.path}: found that it cannot be {done} ({error}), expected a file for the metrics. Make room or give "
            "permission, or choose another directory."
        )


def _number(value: object) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is no number")
    return value


def _line(record: Record) -> str:
    numbers = {name: value if math.isfinite(value) else None for name, value in record.items()}
    return json.dumps(numbers) + "\n"
