"""Saving a state into a directory, whole or not at all, and loading it again, exactly or not at all."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from episodia.arguments import checked_path, checked_whole
from episodia.checkpoints.encoding import decoded, encoded, strict_json
from episodia.checkpoints.manifest import MANIFEST_NAME, Entry, is_part_name, manifest_bytes, read_manifest
from episodia.checkpoints.safe_files import read_plain, sync_directory, write_durably
from episodia.checkpoints.size_limits import MAX_BYTES, MAX_JSON_BYTES
from episodia.checkpoints.tensor_file import tensor_bytes, tensors_from
from episodia.errors import CheckpointError

#: What the checkpoint in the directory of a run is called.
CHECKPOINT_NAME = "checkpoint"

# A save that was begun so long ago, in seconds, does not go on any more.
_ABANDONED_S = 3600.0


def checkpoint_directory(path: str | Path) -> Path:
    """Return the directory of a checkpoint: `path` itself, or `checkpoint` in it if `path` is the directory of a run.

    Raises:
        CheckpointError: If `path` is none.
    """
    directory = checked_path(CheckpointError, "checkpoint", "path", path)
    inner = directory / CHECKPOINT_NAME
    return inner if inner.is_dir() and not (directory / MANIFEST_NAME).exists() else directory


def save_state(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write `state` into the directory `path`; if it is interrupted, what was there before is still there, whole.

    A new directory appears when everything is in it. In one that is a checkpoint already, the new state takes the place of
    the old one at once. Only one process may write to a directory at a time; any number may read. What earlier saves that
    were killed have left behind is removed.

    Args:
        path: A directory that does not exist yet, is empty, or is a checkpoint.
        state: Nested dicts with strings as keys, lists and tuples of tensors, NumPy arrays and scalars, strings, numbers,
            booleans and None. There is no pickle, so nothing else can be saved.

    Raises:
        CheckpointError: If something else is in `state` or at `path`, or if it cannot be written; a checkpoint that was there
            is still whole then.
        MissingExtraError: If safetensors is not installed.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_state(f"{folder}/run", {"weights": {"w": torch.ones(2)}, "steps": 7})
    ...     load_state(f"{folder}/run")
    {'weights': {'w': tensor([1., 1.])}, 'steps': 7}
    """
    directory = checked_path(CheckpointError, "save_state", "path", path)
    contents = _contents(state)
    try:
        _check_free(directory)
        if directory.is_dir():
            _write_into(directory, contents)
        else:
            _write_new(directory, contents)
    except OSError as error:
        raise CheckpointError(
            f"{directory}: found that it cannot be written ({error}), expected a place with room and permission. A checkpoint "
            "that was there is still whole; save this one somewhere else."
        ) from error
    # The state is saved: what cannot be removed does no harm.
    with suppress(OSError, CheckpointError):
        _remove_others(directory)
    with suppress(OSError):
        _remove_abandoned(directory)


def load_state(path: str | Path, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the state that `save_state` has written into the directory `path`, bit for bit.

    Every byte is checked before anything is made of it, and no code from a file is ever run.

    Args:
        path: The directory.
        max_bytes: How large its files may be together.

    Raises:
        CheckpointError: If there is no checkpoint, or if a file is missing, damaged, foreign, too large, or of a later
            version; the message names it.
        MissingExtraError: If safetensors is not installed.
    """
    directory = checked_path(CheckpointError, "load_state", "path", path)
    checked_whole(CheckpointError, "load_state", "max_bytes", max_bytes, least=0)
    entries = read_manifest(directory)
    while True:
        try:
            contents = _read(directory, entries, max_bytes)
            break
        except FileNotFoundError as error:
            # Somebody may have saved a newer state in the meantime.
            newer = read_manifest(directory)
            if newer == entries:
                raise CheckpointError(
                    f"{error.filename}: found no such file, expected it, as {MANIFEST_NAME!r} names it. The checkpoint is "
                    "incomplete; use another one."
                ) from None
            entries = newer
    where = str(directory / entries["state"].name)
    tensors = tensors_from(contents["tensors"], str(directory / entries["tensors"].name))
    try:
        value = strict_json(contents["state"])
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{where}: found what is no JSON, or too deep ({error}), expected the state of a checkpoint. The file was made by "
            "something else; use another checkpoint."
        ) from error
    return decoded(value, tensors, where)


# --- Reading --------------------------------------------------------------------------------------------------------


def _read(directory: Path, entries: Mapping[str, Entry], max_bytes: int) -> dict[str, bytes]:
    limits = {"state": min(MAX_JSON_BYTES, max_bytes), "tensors": max_bytes}
    total = sum(entry.size for entry in entries.values())
    if total > max_bytes:
        raise CheckpointError(
            f"{directory}: found {total} bytes, expected at most {max_bytes}. If you trust it, pass a larger `max_bytes`."
        )
    contents = {}
    for part, entry in entries.items():
        path = directory / entry.name
        content = read_plain(path, limits[part])
        if Entry.of(part, content) != entry:
            raise CheckpointError(
                f"{path}: found {len(content)} bytes with another checksum, expected {entry.size} bytes as they were written. "
                "The file is damaged; use another checkpoint."
            )
        contents[part] = content
    return contents


# --- Writing --------------------------------------------------------------------------------------------------------


def _contents(state: Mapping[str, Any]) -> dict[str, bytes]:
    value, tensors = encoded(state)
    content = json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(content) > MAX_JSON_BYTES:
        raise CheckpointError(
            f"state: found {len(content)} bytes beside tensors and arrays, expected at most {MAX_JSON_BYTES}. Keep long lists "
            "of numbers as arrays; nothing was written."
        )
    return {"state": content, "tensors": tensor_bytes(tensors)}


def _check_free(directory: Path) -> None:
    if (directory / MANIFEST_NAME).is_file():
        return
    # A save into an empty directory that was killed has left only files of ours.
    is_free = not directory.exists() or (directory.is_dir() and all(map(_is_ours, directory.iterdir())))
    if directory.is_symlink() or not is_free:
        raise CheckpointError(
            f"{directory}: found something else than a checkpoint, expected a new place, an empty directory, or a checkpoint "
            "that is to be replaced. Choose another path; nothing was written."
        )


def _is_ours(file: Path) -> bool:
    return is_part_name(file.name)


def _write_new(directory: Path, contents: Mapping[str, bytes]) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    part = directory.with_name(f".{directory.name}.{secrets.token_hex(8)}.part")
    part.mkdir()
    try:
        _write_into(part, contents)
        part.replace(directory)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync_directory(directory.parent)


def _write_into(directory: Path, contents: Mapping[str, bytes]) -> None:
    entries = {part: Entry.of(part, content) for part, content in contents.items()}
    for part, content in contents.items():
        write_durably(directory / entries[part].name, content)
    # From here on, and not before, the new files are the checkpoint.
    write_durably(directory / MANIFEST_NAME, manifest_bytes(entries))


def _remove_others(directory: Path) -> None:
    """Remove files of earlier saves; what we have not written stays."""
    kept = {MANIFEST_NAME, *(entry.name for entry in read_manifest(directory).values())}
    for file in list(directory.iterdir()):
        if _is_ours(file) and file.name not in kept:
            with suppress(OSError):
                file.unlink()


def _remove_abandoned(directory: Path) -> None:
    """Remove what saves to the same place that were killed have left beside it."""
    pattern = re.compile(rf"\.{re.escape(directory.name)}\.[0-9a-f]{{16}}\.part")
    for part in list(directory.parent.iterdir()):
        # A younger one may be that of a save that goes on at this moment.
        if pattern.fullmatch(part.name) and time.time() - part.lstat().st_mtime > _ABANDONED_S:
            shutil.rmtree(part, ignore_errors=True)
