"""Snapshots: a state on disk that a later one replaces in one step; arrays are read from mapped files.

The directory has one store for each snapshot, and a file that names the current one. A crash at any moment leaves the old
snapshot or the new one.
"""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from episodia.checkpoints.safe_files import read_plain, write_durably
from episodia.errors import CheckpointError, DamagedStoreError, StoreError
from episodia.store.packed_values import Rows, packed, unpacked
from episodia.store.record_writer import NewRecord, RecordWriter
from episodia.store.row_store import RowStore
from episodia.store.writer_lock import LOCK_NAME, WriterLock
from episodia.trees import rebuild_tuple
from episodia.types import State

CURRENT_NAME: Final = "current"
_SNAPSHOT = re.compile(r"snapshot-[0-9a-f]{16}")
_VALUES: Final = "values"
# Smaller arrays are stored among the other values, and need no file.
_LEAST_BYTES: Final = 4096


def save_snapshot(directory: Path, state: State) -> None:
    """Write `state` to `directory`; it replaces the snapshot that is there when it is on the disk.

    Args:
        directory: A directory that does not exist, is empty, or has a snapshot.
        state: Nested dicts, lists and tuples of numbers, strings and arrays.

    Raises:
        StoreError: If `state` holds something else, or if it cannot be written; an earlier snapshot stays intact.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        others = [file.name for file in directory.iterdir() if not _is_ours(file.name)]
        if others:
            raise StoreError(
                f"{directory}: found other files, such as {others[0][:80]!r}, expected a path that does not exist, an empty "
                "directory, or a snapshot to replace. Choose another path; nothing was written."
            )
        lock = WriterLock(directory)
        try:
            name = f"snapshot-{secrets.token_hex(8)}"
            _write(directory / name, state)
            write_durably(directory / CURRENT_NAME, name.encode("ascii"))
            _remove_others(directory, name)
        finally:
            lock.release()
    except (OSError, CheckpointError) as error:
        raise StoreError(
            f"{directory}: found that it cannot be written ({error}), expected a directory with free space and write "
            "permission. Save to another one; an earlier snapshot is intact."
        ) from error


def load_snapshot(directory: Path) -> State:
    """Return the state that `save_snapshot` wrote; its arrays are read-only, and large ones are the mapped files.

    Raises:
        StoreError: If there is no snapshot.
        DamagedStoreError: If it is damaged.
    """
    while True:
        name = _current(directory)
        store = RowStore(directory / name)
        try:
            store.read_on()
            values, *rows = store.rows(0) if len(store) else [np.empty(0, np.uint8)]
            state: State = unpacked(values.data, rows)
        except StoreError as error:
            # Another process may have replaced it in the meantime: files that are gone look like damage.
            if _current(directory) != name:
                continue
            if isinstance(error, DamagedStoreError):
                raise
            raise DamagedStoreError(f"{directory}: found a snapshot that cannot be read ({error}).") from error
        return state


def _current(directory: Path) -> str:
    file = directory / CURRENT_NAME
    try:
        name = read_plain(file, 100).decode("ascii")
    except FileNotFoundError:
        raise StoreError(
            f"{directory}: found no snapshot, expected one. Pass the directory that was saved to."
        ) from None
    except (CheckpointError, UnicodeDecodeError) as error:
        raise DamagedStoreError(f"{file}: found that it cannot be read ({error}).", file=CURRENT_NAME) from error
    if not _SNAPSHOT.fullmatch(name):
        raise DamagedStoreError(
            f"{file}: found {name!r}, expected the name of a snapshot. Use another one.", file=CURRENT_NAME
        )
    return name


def _write(directory: Path, state: State) -> None:
    store = RowStore(directory)
    try:
        writer = store.open_writer()
        rows: list[tuple[int, np.ndarray]] = []
        number = writer.column_of(_VALUES, np.empty(0, np.uint8))
        values = np.frombuffer(packed(_moved(state, "", writer, rows)), np.uint8)
        if number is None:
            raise StoreError(f"{directory}: found no room for values, expected it in a new store. Save again.")
        store.append([NewRecord({"id": "snapshot"}, [(number, values), *rows])])
    finally:
        store.close()


def _moved(value: Any, path: str, writer: RecordWriter, rows: list[tuple[int, np.ndarray]]) -> Any:
    """Return `value` with its large arrays replaced by instances of `Rows`, and add these to `rows`."""
    if isinstance(value, dict):
        return {key: _moved(child, f"{path}.{key}", writer, rows) for key, child in value.items()}
    if type(value) is list:
        return [_moved(child, path, writer, rows) for child in value]
    if isinstance(value, tuple):
        return rebuild_tuple(value, (_moved(child, path, writer, rows) for child in value))
    if not isinstance(value, np.ndarray) or value.dtype.hasobject or not value.ndim or value.nbytes < _LEAST_BYTES:
        return value
    column = writer.column_of(path, value)
    if column is None:
        return value
    rows.append((column, value))
    return Rows(len(rows) - 1)


def _remove_others(directory: Path, name: str) -> None:
    """Remove earlier snapshots, and what killed processes have left."""
    for file in list(directory.iterdir()):
        if _SNAPSHOT.fullmatch(file.name) and file.name != name and not file.is_symlink():
            with suppress(OSError):
                shutil.rmtree(file)


def _is_ours(name: str) -> bool:
    return name in (CURRENT_NAME, f"{CURRENT_NAME}.part", LOCK_NAME) or _SNAPSHOT.fullmatch(name) is not None
