"""Durable writes, and reads that accept only plain files of the expected size."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from episodia.errors import CheckpointError


def write_durably(path: Path, content: bytes) -> None:
    """Write `content` to the file `path` atomically; it is on the disk when this returns."""
    part = path.with_name(f"{path.name}.part")
    # The rest of an earlier save, or a link, which may point anywhere.
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(part, flags, 0o666), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Write the names of the files in a directory to the disk."""
    # Windows cannot open directories; it writes names with the files.
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_plain(path: Path, max_bytes: int) -> bytes:
    """Return the content of a plain file of at most `max_bytes`; links and pipes are rejected.

    Raises:
        FileNotFoundError: If there is no file.
        CheckpointError: If it is too large, not a plain file, or cannot be read.
    """
    # Opening a pipe would wait for a writer, and a link may point anywhere.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, f"that it cannot be opened ({error.strerror})") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path, "that it is not a plain file")
        if status.st_size > max_bytes:
            raise _unreadable(path, f"{status.st_size} bytes, more than {max_bytes}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            # One byte more than expected, to notice a file that has grown.
            content = file.read(status.st_size + 1)
    except OSError as error:
        raise _unreadable(path, f"that it cannot be read ({error.strerror})") from error
    finally:
        os.close(handle)
    if len(content) > status.st_size:
        raise _unreadable(path, "that another process is writing to it")
    return content


def _unreadable(path: Path, found: str) -> CheckpointError:
    return CheckpointError(f"{path}: found {found}, expected a plain file of a checkpoint. Use another checkpoint.")
