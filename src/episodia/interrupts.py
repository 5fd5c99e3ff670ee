"""Ctrl-C and SIGTERM that wait for the end of an update, or of what may not be torn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import final

# A second signal within this time is the same Ctrl-C: a program that starts others also sends them the signal that the
# terminal has already sent.
PAUSE_S = 0.5

# What a shell reports for a program that SIGTERM has ended.
TERMINATED = 128 + signal.SIGTERM


@final
class Interrupted(threading.Event):
    """An event that is set by the first signal.

    Attributes:
        is_terminated: Whether one of the signals was SIGTERM.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_terminated = False


# The event of the active handler, if there is one.
_active: list[Interrupted] = []


@contextmanager
def deferred_interrupts() -> Iterator[Interrupted]:
    """Let the first Ctrl-C set the event that is returned, and the second one raise a KeyboardInterrupt.

    A run checks the event between two updates, because half an update cannot be saved exactly. The event is never set
    outside of the main thread.

    SIGTERM does the same, and ends the program by a SystemExit at the end of the context. A signal that the process ignores,
    as programs in the background do with Ctrl-C, stays ignored; SIGTERM is left to a handler that the program has for it.

    >>> with deferred_interrupts() as interrupted:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interrupted.is_set()
    True
    """
    interrupted = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    if _active:
        # The outer context handles the signal.
        yield _active[-1]
        return
    first_s = 0.0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal first_s
        interrupted.is_terminated |= number == signal.SIGTERM
        if not interrupted.is_set():
            first_s = monotonic()
            interrupted.set()
        elif monotonic() - first_s >= PAUSE_S:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # None: the handler was not installed by Python and could not be restored.
    replaced = {signal.SIGINT} if before[signal.SIGINT] not in (None, signal.SIG_IGN) else set()
    if before[signal.SIGTERM] is signal.SIG_DFL:
        replaced.add(signal.SIGTERM)
    for number in replaced:
        signal.signal(number, handle)
    _active.append(interrupted)
    try:
        yield interrupted
    finally:
        _active.remove(interrupted)
        for number in replaced:
            signal.signal(number, before[number])
    if interrupted.is_terminated:
        raise SystemExit(TERMINATED)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a Ctrl-C wait for the end of the context, for short pieces of work; its handler is called there.

    Inside of `deferred_interrupts`, that context handles it. Signals that end the process at once are left alone: then nothing
    is left that could be torn.
    """
    is_handled = bool(_active) or threading.current_thread() is not threading.main_thread()
    before = None if is_handled else signal.getsignal(signal.SIGINT)
    if before is None or before is signal.SIG_IGN:
        yield
        return
    caught: list[object] = []
    signal.signal(signal.SIGINT, lambda *signals: caught.append(signals))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if caught:
            signal.raise_signal(signal.SIGINT)
