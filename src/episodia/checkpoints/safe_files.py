"""Durable writes, and files that are opened only if they are plain files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

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
    with open_plain(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise _unreadable(path, f"{size} bytes, more than {max_bytes}")
            # One byte more than expected, to notice a file that has grown.
            content: bytes = file.read(size + 1)
        except OSError as error:
            raise _unreadable(path, f"that it cannot be read ({error.strerror})") from error
    if len(content) > size:
        raise _unreadable(path, "that another process is writing to it")
    return content


def open_plain(path: Path, *, writable: bool = False) -> IO[bytes]:
    """Open a plain file for reading; if `writable`, for reading and writing, and it is created if there is no file.

    Raises:
        FileNotFoundError: If there is no file.
        CheckpointError: If it is not a plain file, or cannot be opened.
    """
    # Opening a pipe would wait for a writer, and a link may point anywhere.
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags | (os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY), 0o666)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, f"that it cannot be opened ({error.strerror})") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _unreadable(path, "that it is not a plain file")
    return os.fdopen(handle, "r+b" if writable else "rb", buffering=-1)


def _unreadable(path: Path, found: str) -> CheckpointError:
    return CheckpointError(f"{path}: found {found}, expected a plain file of a checkpoint. Use another checkpoint.")
