"""Metrics for TensorBoard, one point per update and curve. Only this file imports TensorBoard."""

from __future__ import annotations

import importlib
import math
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from episodia.errors import MissingExtraError
from episodia.training.training import Record

# The horizontal axis, and its equivalent.
_NO_CURVE = ("steps", "iteration")


@final
class TensorBoardLog:
    """Writes records as event files into a directory; `tensorboard --logdir` shows them over the environment steps.

    Args:
        directory: Where to write; files of earlier parts of the run stay.
        steps: The steps that the run has taken. Points after it, from a part of the run that was lost, are hidden.

    Raises:
        MissingExtraError: If TensorBoard is not installed.
    """

    def __init__(self, directory: Path, *, steps: int = 0) -> None:
        writer = check_installed().SummaryWriter
        _await_the_next_second(directory)
        self._writer = writer(str(directory), purge_step=steps + 1)

    def __call__(self, record: Record) -> None:
        """Add a point at `record["steps"]` to the curve of each finite number."""
        for name, value in record.items():
            if name not in _NO_CURVE and math.isfinite(value):
                self._writer.add_scalar(name, value, int(record["steps"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()


def check_installed() -> Any:
    """Return torch's module for TensorBoard.

    Raises:
        MissingExtraError: If TensorBoard is not installed.
    """
    try:
        return importlib.import_module("torch.utils.tensorboard")
    except ImportError as error:
        raise MissingExtraError(
            "TensorBoard: found that it is not installed, expected it. Install `episodia[tensorboard]`, or use "
            "`metrics.jsonl`, which has the same numbers."
        ) from error


def _await_the_next_second(directory: Path) -> None:
    """Wait until the newest event file is of an earlier second: TensorBoard orders files by the seconds in their names."""
    seconds = [int(file.name.split(".")[3]) for file in directory.glob("events.out.tfevents.*")]
    time.sleep(max(0.0, max(seconds, default=0) + 1 - time.time()))
