"""Ctrl-C that waits until it does no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupts() -> Iterator[threading.Event]:
    """Let a first Ctrl-C set an event that is looked at between two updates; a second one interrupts at once.

    Half an update cannot be saved in a way that goes on exactly. Only the main thread can do this; elsewhere the event is
    never set.

    >>> with deferred_interrupts() as interrupted:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interrupted.is_set()
    True
    """
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    # None: whoever handles the signal was not installed by Python, and could not be put back.
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield interrupted
        return

    def handle(_number: int, _frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
