"""How a training goes, while it goes: a bar with tqdm, lines of text without."""

from __future__ import annotations

import importlib
import math
import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO, final

from episodia.dataflow.training import Record

LINE_EVERY_S = 2.0
_LOSSES = ("policy_loss", "value_loss", "entropy")


@final
class Progress:
    """Shows return, speed and losses after each update.

    Args:
        steps: Where the training ends at the latest.
        done: Where it begins.
        stream: Where it is shown; by default `sys.stderr`.
    """

    def __init__(self, *, steps: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._steps = steps
        self._shown = done
        self._next_s = 0.0
        self._last: Record | None = None
        self._bar = self._new_bar(done) if self._stream.isatty() else None

    def _new_bar(self, done: int) -> Any:
        try:
            tqdm: Any = importlib.import_module("tqdm")
        except ImportError:
            return None
        return tqdm.tqdm(total=self._steps, initial=done, unit="step", file=self._stream, dynamic_ncols=True)

    def __call__(self, record: Record) -> None:
        """Show `record`, if it is time to."""
        self._last = record
        if self._bar is not None:
            self._bar.set_postfix_str(described(record), refresh=False)
            self._bar.update(int(record["steps"]) - self._shown)
            self._shown = int(record["steps"])
        elif time.monotonic() >= self._next_s:
            self._write(record)

    def _write(self, record: Record) -> None:
        speed = f"{record['steps_per_s']:,.0f} steps/s"
        self._stream.write(f"step {int(record['steps']):>8,} of {self._steps:,}  {speed:>16}  {described(record)}\n")
        self._stream.flush()
        self._next_s = time.monotonic() + LINE_EVERY_S
        self._last = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._last is not None:
            self._write(self._last)


def described(record: Record) -> str:
    """Return the mean return and the losses of `record` as text.

    >>> described({"return_mean": 21.5, "policy_loss": -0.01234, "other": 1.0})
    'return 21.5, policy loss -0.0123'
    """
    known = math.isfinite(record.get("return_mean", math.nan))
    parts = [f"return {record['return_mean']:.1f}" if known else "return -"]
    losses = [name for name in record if name.rpartition("/")[2] in _LOSSES]
    return ", ".join([*parts, *(f"{name.replace('_', ' ')} {record[name]:.3g}" for name in losses)])
