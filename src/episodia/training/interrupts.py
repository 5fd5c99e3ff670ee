"""Ctrl-C that waits for the end of an update."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

# A second signal within this time is the same Ctrl-C: a program that starts others also sends them the signal that the
# terminal has already sent.
PAUSE_S = 0.5

# The event of the active handler, if there is one.
_active: list[threading.Event] = []


@contextmanager
def deferred_interrupts() -> Iterator[threading.Event]:
    """Let the first Ctrl-C set the event that is returned, and the second one raise a KeyboardInterrupt.

    A run checks the event between two updates, because half an update cannot be saved exactly. The event is never set
    outside of the main thread, or if the process ignores Ctrl-C, as programs in the background do.

    >>> with deferred_interrupts() as interrupted:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interrupted.is_set()
    True
    """
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    # None: the handler was not installed by Python and could not be restored.
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield interrupted
        return
    if _active:
        # The outer context handles the signal.
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
