"""The schema of a store: the name, the dtype and the shape of the rows of each column file."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from episodia.checkpoints.checkpoint_limits import MAX_AXES
from episodia.checkpoints.safe_files import read_plain
from episodia.checkpoints.stored_dtypes import is_stored_dtype, stored_dtype
from episodia.checkpoints.strict_json import strict_json
from episodia.errors import CheckpointError, DamagedStoreError, StoreError
from episodia.store.store_limits import MAX_COLUMNS, MAX_PATH_LENGTH, MAX_SCHEMA_BYTES, MAX_SIZE

SCHEMA_NAME: Final = "schema.json"
VERSION: Final = 1
_FORMAT: Final = "episodia store"
_NAME = re.compile(r"[a-z0-9_.-]{1,80}")
_OTHER = re.compile(r"[^a-z0-9_]+")


@final
@dataclass(frozen=True)
class RowColumn:
    """A column file: its name without the ending, what it holds, and the dtype and the shape of a row."""

    name: str
    path: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return f"{self.name}.rows"

    @cached_property
    def row_dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return stored_dtype(self.dtype)

    @cached_property
    def row_bytes(self) -> int:
        """The size of a row."""
        return math.prod(self.shape) * self.row_dtype.itemsize


def new_column(columns: Sequence[RowColumn], path: str, rows: np.ndarray) -> RowColumn:
    """Return a column for `rows`, with a name that no column in `columns` has.

    >>> new_column([], "observations['Camera']", np.zeros((5, 84, 84), np.uint8)).file_name
    'observations-camera.rows'
    """
    plain = _OTHER.sub("-", path.lower()).strip("-")[:60] or "column"
    taken = {column.name for column in columns}
    name = next(name for n in range(1, MAX_COLUMNS + 2) if (name := plain if n == 1 else f"{plain}-{n}") not in taken)
    return RowColumn(name, path, rows.dtype.str, rows.shape[1:])


def schema_bytes(columns: Sequence[RowColumn]) -> bytes:
    """Return the content of the file of a schema; its last entry is a checksum of all others."""
    entries = [{"name": c.name, "path": c.path, "dtype": c.dtype, "shape": list(c.shape)} for c in columns]
    content = {"format": _FORMAT, "version": VERSION, "columns": entries}
    return _text({**content, "checksum": f"{zlib.crc32(_text(content)):08x}"})


def read_schema(directory: Path) -> list[RowColumn]:
    """Return the columns of a store.

    Raises:
        StoreError: If there is no store, or if it is of a later version.
        DamagedStoreError: If the schema is damaged or foreign.
    """
    path = directory / SCHEMA_NAME
    try:
        content = read_plain(path, MAX_SCHEMA_BYTES)
        data = strict_json(content)
    except FileNotFoundError:
        found = f"no {SCHEMA_NAME!r} in it" if directory.is_dir() else "no such directory"
        raise StoreError(
            f"{directory}: found {found}, expected a store. Pass the directory that episodes were appended to."
        ) from None
    except (CheckpointError, ValueError, RecursionError) as error:
        raise _damaged(path, f"a file that cannot be read ({error})") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise _damaged(path, f"a file that does not say {_FORMAT!r}")
    if type(data.get("version")) is not int or data["version"] > VERSION:
        raise StoreError(
            f"{path}: found version {data.get('version')!r} of the format, expected {VERSION} or an earlier one. Open it with "
            "the version of episodia that wrote it, or a later one."
        )
    columns = _columns(data.get("columns"))
    # The bytes must be those that would be written for these columns, so any change is found.
    if columns is None or schema_bytes(columns) != content:
        raise _damaged(path, "entries that do not match its checksum")
    return columns


def _columns(entries: Any) -> list[RowColumn] | None:
    if not isinstance(entries, list) or len(entries) > MAX_COLUMNS or not all(map(_is_column, entries)):
        return None
    columns = [RowColumn(entry["name"], entry["path"], entry["dtype"], tuple(entry["shape"])) for entry in entries]
    if len({column.name for column in columns}) < len(columns):
        return None
    try:
        return columns if all(column.row_bytes < MAX_SIZE for column in columns) else None
    except CheckpointError:
        return None


def _is_column(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.keys() != {"name", "path", "dtype", "shape"}:
        return False
    name, path, shape = entry["name"], entry["path"], entry["shape"]
    return (
        isinstance(name, str)
        and _NAME.fullmatch(name) is not None
        and isinstance(path, str)
        and len(path) <= MAX_PATH_LENGTH
        and is_stored_dtype(entry["dtype"])
        and isinstance(shape, list)
        and len(shape) < MAX_AXES
        and all(type(size) is int and 0 <= size < MAX_SIZE for size in shape)
    )


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode("ascii")


def _damaged(path: Path, found: str) -> DamagedStoreError:
    return DamagedStoreError(
        f"{path}: found {found}, expected the schema of a store. It is damaged, or another program wrote it; the episodes "
        "cannot be read without it. Use a copy of the store."
    )
