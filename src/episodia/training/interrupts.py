"""Ctrl-C that waits until it does no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

# What comes sooner is the same Ctrl-C: programs that start others pass on what their children have got from the terminal.
PAUSE_S = 0.5

# The event of whoever handles Ctrl-C at the moment, if somebody does.
_active: list[threading.Event] = []


@contextmanager
def deferred_interrupts() -> Iterator[threading.Event]:
    """Let a first Ctrl-C set an event that is looked at between two updates; a second one interrupts at once.

    Half an update cannot be saved in a way that goes on exactly. Only the main thread can do this; elsewhere the event is
    never set, and neither is it where Ctrl-C is ignored, as by programs in the background.

    >>> with deferred_interrupts() as interrupted:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interrupted.is_set()
    True
    """
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    # None: whoever handles the signal was not installed by Python, and could not be put back.
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield interrupted
        return
    if _active:
        # Within another one, which handles it.
        yield _active[-1]
        return
    first_s = 0.0

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal first_s
        if not interrupted.is_set():
            first_s = monotonic()
            interrupted.set()
        elif monotonic() - first_s >= PAUSE_S:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    _active.append(interrupted)
    try:
        yield interrupted
    finally:
        _active.remove(interrupted)
        signal.signal(signal.SIGINT, before)
