"""The lock of the directory of a run, so that two processes do not write one run."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, final

from episodia.checkpoints.safe_files import read_plain
from episodia.errors import CheckpointError, TrainingError

if sys.platform != "win32":  # There, runs are not locked.
    import fcntl

LOCK_NAME = "run.lock"
_MOST_BYTES = 1_000


@final
class RunLock:
    """A file that is locked by the system as long as this process has it, and names the process.

    The system releases the lock of a process that was killed, so a file that was left behind does not keep others out.

    Args:
        folder: The directory of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        self._handle: int | None = None

    def take(self) -> None:
        """Lock the directory.

        Raises:
            TrainingError: If another process, or another training of this one, has it, or the file cannot be written.
        """
        if sys.platform == "win32" or self._handle is not None:
            return
        try:
            while not self._is_taken():
                pass
        except BlockingIOError:
            raise TrainingError(
                f"{self.path.parent}: found a run that {self._owner()} is writing, expected a directory that no other process "
                "uses. Wait for its end, stop it, or choose another directory."
            ) from None
        except OSError as error:
            raise TrainingError(
                f"{self.path}: found that it cannot be written ({error}), expected a directory with write permission. Choose "
                "another one."
            ) from error

    def _is_taken(self) -> bool:
        """Lock the file, and return False if its last owner has removed it meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        handle = os.open(self.path, flags, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_at_path(handle):
                os.close(handle)
                return False
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(owner).encode())
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(handle)
            raise
        self._handle = handle
        return True

    def _is_at_path(self, handle: int) -> bool:
        try:
            found = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(handle))

    def _owner(self) -> str:
        try:
            owner: Any = json.loads(read_plain(self.path, _MOST_BYTES))
            return f"process {int(owner['pid'])} on {owner['host']} (since {owner['since']})"
        except (OSError, ValueError, KeyError, TypeError, RecursionError, CheckpointError):
            return "another process"

    @property
    def is_lost(self) -> bool:
        """Whether the directory, or the file in it, was removed or replaced after it was locked."""
        return self._handle is not None and not self._is_at_path(self._handle)

    def release(self) -> None:
        """Remove the file and let others in; a second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        if self._is_at_path(handle):
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(handle)
