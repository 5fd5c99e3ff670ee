"""`save_state` and `load_state`: a state as a directory, written atomically and checked when it is read."""

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
from episodia.checkpoints.checkpoint_limits import MAX_BYTES, MAX_JSON_BYTES, MAX_JSON_PARTS
from episodia.checkpoints.encoding import decoded, encoded
from episodia.checkpoints.manifest import MANIFEST_NAME, Entry, is_part_name, manifest_bytes, read_manifest
from episodia.checkpoints.safe_files import read_plain, sync_directory, write_durably
from episodia.checkpoints.strict_json import has_too_many_parts, strict_json
from episodia.checkpoints.tensor_file import tensor_bytes, tensors_from
from episodia.errors import CheckpointError

#: The name of the checkpoint in the directory of a run.
CHECKPOINT_NAME = "checkpoint"

# A temporary directory of this age belongs to a save that was killed.
_ABANDONED_S = 3600.0


def checkpoint_directory(path: str | Path) -> Path:
    """Return the directory of a checkpoint: `path` itself, or `checkpoint` in it if `path` is the directory of a run.

    Raises:
        CheckpointError: If `path` is not a path.
    """
    directory = checked_path(CheckpointError, "checkpoint", "path", path)
    inner = directory / CHECKPOINT_NAME
    return inner if inner.is_dir() and not (directory / MANIFEST_NAME).exists() else directory


def save_state(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write `state` to the directory `path`; an interrupted save leaves the previous checkpoint intact.

    A new directory appears only when it is complete. In an existing checkpoint, the new state replaces the old one in one
    step. Only one process may write to a directory at a time; any number may read it. Files that killed saves have left are
    removed.

    Args:
        path: A directory that does not exist, is empty, or is a checkpoint.
        state: Nested dicts with strings as keys, lists and tuples of tensors, NumPy arrays and scalars, strings, numbers,
            booleans and None. Other types cannot be saved, because pickle is not used.

    Raises:
        CheckpointError: If `state` holds another type, if `path` holds other files, or if it cannot be written; an existing
            checkpoint stays intact.
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
            f"{directory}: found that it cannot be written ({error}), expected a directory with free space and write "
            "permission. Save to another directory; an existing checkpoint is intact."
        ) from error
    # The state is saved; leftover files do no harm.
    with suppress(OSError, CheckpointError):
        _remove_others(directory)
    with suppress(OSError):
        _remove_abandoned(directory)


def load_state(path: str | Path, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the state that `save_state` wrote to the directory `path`, bit for bit.

    All checksums are verified before the data is used, and no code from a file is ever run.

    Args:
        path: The directory.
        max_bytes: The largest total size of its files.

    Raises:
        CheckpointError: If there is no checkpoint, or if a file is missing, damaged, foreign, too large, or of a later
            version; the message names the file.
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
            # Another process may have saved a newer state in the meantime.
            newer = read_manifest(directory)
            if newer == entries:
                raise CheckpointError(
                    f"{error.filename}: found no such file, expected it, because {MANIFEST_NAME!r} lists it. The checkpoint "
                    "is incomplete; use another one."
                ) from None
            entries = newer
    where = str(directory / entries["state"].name)
    tensors = tensors_from(contents["tensors"], str(directory / entries["tensors"].name))
    try:
        value = strict_json(contents["state"])
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{where}: found invalid or too deeply nested JSON ({error}), expected the state of a checkpoint. Another "
            "program wrote the file; use another checkpoint."
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
                f"{path}: found {len(content)} bytes with another checksum, expected the {entry.size} bytes that were saved. "
                "The file is damaged; use another checkpoint."
            )
        contents[part] = content
    return contents


# --- Writing --------------------------------------------------------------------------------------------------------


def _contents(state: Mapping[str, Any]) -> dict[str, bytes]:
    value, tensors = encoded(state)
    content = json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(content) > MAX_JSON_BYTES or has_too_many_parts(content):
        raise CheckpointError(
            f"state: found {len(content)} bytes of JSON, without tensors and arrays, expected at most {MAX_JSON_BYTES}, "
            f"with at most {MAX_JSON_PARTS} strings, brackets and commas. Store long lists of numbers as arrays; nothing "
            "was written."
        )
    return {"state": content, "tensors": tensor_bytes(tensors)}


def _check_free(directory: Path) -> None:
    if (directory / MANIFEST_NAME).is_file():
        return
    # A killed save to an empty directory has left only our own files.
    is_free = not directory.exists() or (directory.is_dir() and all(map(_is_ours, directory.iterdir())))
    if directory.is_symlink() or not is_free:
        raise CheckpointError(
            f"{directory}: found other files, expected a path that does not exist, an empty directory, or a checkpoint to "
            "replace. Choose another path; nothing was written."
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
    # The manifest makes the new files the checkpoint.
    write_durably(directory / MANIFEST_NAME, manifest_bytes(entries))


def _remove_others(directory: Path) -> None:
    """Remove the files of earlier saves; other files stay."""
    kept = {MANIFEST_NAME, *(entry.name for entry in read_manifest(directory).values())}
    for file in list(directory.iterdir()):
        if _is_ours(file) and file.name not in kept:
            with suppress(OSError):
                file.unlink()


def _remove_abandoned(directory: Path) -> None:
    """Remove temporary directories of killed saves to the same path."""
    pattern = re.compile(rf"\.{re.escape(directory.name)}\.[0-9a-f]{{16}}\.part")
    for part in list(directory.parent.iterdir()):
        # A younger directory may belong to a save that is running.
        if pattern.fullmatch(part.name) and time.time() - part.lstat().st_mtime > _ABANDONED_S:
            shutil.rmtree(part, ignore_errors=True)
