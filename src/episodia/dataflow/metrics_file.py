"""Metrics as JSON lines: one line for each update."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import final

from episodia.dataflow.training import Record
from episodia.errors import TrainingError


@final
class MetricsFile:
    r"""Appends records to a file; each is on disk when the call returns.

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
        """Append `record`; what is no finite number becomes `null`, as JSON has no other word."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(record))

    def read(self) -> list[Record]:
        """Return all records; a last line that was cut off is left out.

        Raises:
            TrainingError: If another line is no record.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [self._record(number, line) for number, line in enumerate(lines, 1) if line.endswith("\n")]

    def keep_until(self, iteration: int) -> list[Record]:
        """Remove what was written after `iteration`, from where a training goes on, and return the rest."""
        kept = [record for record in self.read() if record["iteration"] <= iteration]
        if self.path.exists():
            part = self.path.with_name(f"{self.path.name}.part")
            part.write_text("".join(map(_line, kept)), encoding="utf-8")
            os.replace(part, self.path)  # noqa: PTH105  # said as what it is: the old file or the new one, never half
        return kept

    def _record(self, number: int, line: str) -> Record:
        try:
            found = {name: math.nan if value is None else value for name, value in json.loads(line).items()}
            return found | {"iteration": int(found["iteration"])}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TrainingError(
                f"{self.path}, line {number}: found {line[:60]!r}, expected a JSON object with an `iteration` ({error!r}). "
                "Remove the line, or choose another directory."
            ) from error


def _line(record: Record) -> str:
    numbers = {name: value if math.isfinite(value) else None for name, value in record.items()}
    return json.dumps(numbers) + "\n"
