"""The lock of a store: one process writes, and others learn who it is."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import IO, Final, final

from episodia.checkpoints.safe_files import open_plain
from episodia.errors import StoreError

LOCK_NAME: Final = "writer.lock"
# A reader that asks whether there is a writer holds the lock for a moment.
_ATTEMPTS: Final = 10
_PAUSE_S: Final = 0.02

if sys.platform == "win32":
    import msvcrt

    # A byte far behind the text, which others still have to read.
    _PLACE: Final = 2**30

    def _try_lock(file: IO[bytes]) -> bool:
        file.seek(_PLACE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@final
class WriterLock:
    """Held by the one process that may write to a directory, until it is released or the process ends.

    The operating system releases the lock of a process that is killed, so it never has to be removed by hand.
    """

    def __init__(self, directory: Path) -> None:
        """Take the lock.

        Raises:
            StoreError: If another writer holds it; the message names its process.
        """
        self._pid = os.getpid()
        self._file = open_plain(directory / LOCK_NAME, writable=True)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_S)
            if _try_lock(self._file):
                break
        else:
            other = _owner(self._file)
            self._file.close()
            raise StoreError(
                f"{directory}: found that {other} is writing to it, expected no other writer. Close that store, or write to "
                "another directory; any number of processes may read this one."
            )
        owner = {"pid": self._pid, "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        self._file.seek(0)
        self._file.truncate()
        self._file.write(json.dumps(owner).encode("ascii"))
        self._file.flush()

    def check_process(self) -> None:
        """Check that this is the process that took the lock, and not a child that inherited it.

        Raises:
            StoreError: If it is a child.
        """
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self._file.name}: found process {os.getpid()}, expected process {self._pid}, which opened the store. Open "
                "a store of its own in each process."
            )

    def release(self) -> None:
        """Let others write."""
        self._file.close()


def has_writer(directory: Path) -> bool:
    """Tell whether a living process holds the lock of `directory`."""
    try:
        with open_plain(directory / LOCK_NAME) as file:
            return not _try_lock(file)
    except FileNotFoundError:
        return False


def _owner(file: IO[bytes]) -> str:
    file.seek(0)
    try:
        owner = json.loads(file.read(1000))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:80]!r} (since {str(owner['since'])[:40]})"
    except (ValueError, TypeError, KeyError):
        return "another process"
