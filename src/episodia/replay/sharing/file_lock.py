"""A lock between processes: one writes, or several read. The system releases it when its process ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import final

from episodia.errors import ReplayError

if sys.platform == "win32":
    _SHARED = _EXCLUSIVE = _NONE = 0

    def _flock(_file: int, _kind: int) -> None:
        raise ReplayError("found Windows, expected a system with shared file locks. Use a buffer in one process.")

else:
    from fcntl import LOCK_EX as _EXCLUSIVE
    from fcntl import LOCK_SH as _SHARED
    from fcntl import LOCK_UN as _NONE
    from fcntl import flock as _flock


@final
class FileLock:
    """Held by one writer, or by any number of readers. It is opened at its first use."""

    __slots__ = ("_file", "_path", "_pid")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._pid = -1

    def take(self, *, is_shared: bool) -> None:
        """Wait until the lock is free, and hold it."""
        if self._pid != os.getpid():  # a child would share the lock of its parent
            self._pid = os.getpid()
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _flock(self._file, _SHARED if is_shared else _EXCLUSIVE)

    def release(self) -> None:
        """Let others hold the lock."""
        _flock(self._file, _NONE)

    def close(self) -> None:
        """Close the file of the lock."""
        if self._file >= 0:
            os.close(self._file)
            self._file = self._pid = -1
