"""Progress of a training on stderr: a bar if tqdm is installed, lines of text otherwise."""

from __future__ import annotations

import importlib
import math
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO, final

from episodia.training.training import Record

_LINE_EVERY_S = 2.0
_SHOWN = ("policy_loss", "value_loss", "entropy", "critic_loss", "q_value", "td_error")
# Leaves room for the return and three metrics within 80 columns; no algorithm has more of those that are shown.
_BAR = "{bar}| {n_fmt}/{total_fmt} {rate_fmt} {desc}"


@final
class Progress:
    """Shows return, speed and losses after each update, until the stream is closed.

    Args:
        steps: The step at which the training ends at the latest.
        done: The step at which it begins.
        stream: Where to write; `sys.stderr` by default.
    """

    def __init__(self, *, steps: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream: TextIO | None = stream or sys.stderr
        self._steps = steps
        self._shown = done
        self._next_s = 0.0
        self._last: Record | None = None
        self._has_reported_faults = False
        self._bar: Any = self._new_bar(done) if _is_terminal(self._stream) else None

    def _new_bar(self, done: int) -> Any:
        try:
            tqdm: Any = importlib.import_module("tqdm")
        except ImportError:
            return None
        options = {"unit": "", "unit_scale": True, "bar_format": _BAR, "dynamic_ncols": True}
        return tqdm.tqdm(total=self._steps, initial=done, file=self._stream, **options)

    def __call__(self, record: Record) -> None:
        """Show `record`, unless the last one was shown a moment ago."""
        self._last = record
        if self._bar is not None:
            self._move(record)
        elif time.monotonic() >= self._next_s:
            self._write(record)
        self._report_faults(record)

    def _move(self, record: Record) -> None:
        short = described(record, digits=2).replace(" loss", "").replace(",", "")
        self._bar.set_description_str(short, refresh=False)
        # The last update may go beyond `steps`, which a bar cannot show.
        steps = min(int(record["steps"]), self._steps)
        self._with_bar(lambda: self._bar.update(steps - self._shown))
        self._shown = steps

    def _with_bar(self, draw: Callable[[], object]) -> None:
        try:
            draw()
        except (OSError, ValueError):  # The terminal is closed.
            self._bar = self._stream = None

    def _write(self, record: Record) -> None:
        speed = f"{record['steps_per_s']:,.0f} steps/s"
        self._say(f"step {int(record['steps']):>8,} of {self._steps:,}  {speed:>16}  {described(record)}")
        self._next_s = time.monotonic() + _LINE_EVERY_S
        self._last = None

    def _report_faults(self, record: Record) -> None:
        """Report the first failure of an environment: episodes are not dropped at random, so the data is biased."""
        if not self._has_reported_faults and record.get("num_env_restarts", 0):
            self._has_reported_faults = True
            self._say(
                "An environment failed and was rebuilt; its episode is dropped. The metric `num_env_restarts` counts failures."
            )

    def _say(self, line: str) -> None:
        if self._stream is not None and not say(line, self._stream):
            self._stream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._with_bar(self._bar.close)
        elif self._last is not None:
            self._write(self._last)


def _is_terminal(stream: TextIO | None) -> bool:
    """Tell whether `stream` is a terminal with a width, on which a bar can be drawn."""
    if stream is None or not stream.isatty():
        return False
    try:
        return os.get_terminal_size(stream.fileno()).columns > 0
    except (OSError, ValueError):  # A terminal without a known size.
        return True


def described(record: Record, *, digits: int = 3) -> str:
    """Return the mean return and the losses of `record` as text, and how many runners are alive, and what they have lost.

    >>> described({"return_mean": 21.5, "policy_loss": -0.01234, "other": 1.0})
    'return 21.5, policy loss -0.0123'
    >>> described({"return_mean": 21.5, "runners/alive": 2, "runners/lost": 1, "runners/lag_mean": 0.5})
    'return 21.5, runners 2, lost 1, lag 0.5'
    """
    parts = [f"return {return_text(record.get('return_mean', math.nan), '.1f')}"]
    losses = [name for name in record if name.rpartition("/")[2] in _SHOWN]
    parts += [f"{name.replace('_', ' ')} {record[name]:.{digits}g}" for name in losses]
    if "runners/alive" in record:
        lost, lag = record.get("runners/lost", 0), record.get("runners/lag_mean", 0)
        parts += [f"runners {record['runners/alive']}", *([f"lost {lost}"] if lost else []), f"lag {lag:.2g}"]
    return ", ".join(parts)


def return_text(mean: float, digits: str) -> str:
    """Return a mean return in the format `digits`; a dash before the first episode has ended.

    >>> return_text(21.46, ".1f"), return_text(math.nan, ".1f")
    ('21.5', '-')
    """
    return format(mean, digits) if math.isfinite(mean) else "-"


def say(text: str, stream: TextIO | None = None) -> bool:
    r"""Write a line to `stream`, stderr by default, and return whether that worked.

    A closed stream is not an error, because it is no reason to lose a training.

    >>> import io
    >>> stream = io.StringIO()
    >>> say("saved", stream), stream.getvalue()
    (True, 'saved\n')
    """
    # `sys.stderr` is None in programs without a console.
    target: TextIO | None = sys.stderr if stream is None else stream
    if target is None:
        return False
    try:
        target.write(f"{text}\n")
        target.flush()
    except (OSError, ValueError):  # The reader is gone, or the stream is closed.
        return False
    return True
