"""The manifest, the file that makes a directory a checkpoint: it lists the other files with sizes and checksums.

Files are named after their checksums, so that files of different saves never collide.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from episodia.checkpoints.checkpoint_limits import MAX_MANIFEST_BYTES
from episodia.checkpoints.safe_files import read_plain
from episodia.errors import CheckpointError

MANIFEST_NAME: Final = "manifest.json"
VERSION: Final = 1
_FORMAT: Final = "episodia checkpoint"
# The parts of a checkpoint, and the suffixes of their files.
_SUFFIXES: Final = {"state": "json", "tensors": "safetensors"}
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


@final
@dataclass(frozen=True)
class Entry:
    """A file of a checkpoint: its part, its size and its checksum."""

    part: str
    size: int
    sha256: str

    @classmethod
    def of(cls, part: str, content: bytes) -> Entry:
        """Return the entry of a file with this content."""
        return cls(part, len(content), hashlib.sha256(content).hexdigest())

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.part}-{self.sha256[:16]}.{_SUFFIXES[self.part]}"


def is_part_name(name: str) -> bool:
    """Tell whether `name` is that of a file of a checkpoint."""
    pattern = "|".join(rf"{part}-[0-9a-f]{{16}}\.{suffix}" for part, suffix in _SUFFIXES.items())
    return re.fullmatch(rf"({pattern}|{re.escape(MANIFEST_NAME)})(\.part)?", name) is not None


def manifest_bytes(entries: Mapping[str, Entry]) -> bytes:
    """Return the content of a manifest; its last entry is a checksum of all others."""
    files = {part: {"bytes": entry.size, "sha256": entry.sha256} for part, entry in entries.items()}
    content = {"format": _FORMAT, "version": VERSION, "files": files}
    return _text({**content, "checksum": hashlib.sha256(_text(content)).hexdigest()})


def read_manifest(directory: Path) -> dict[str, Entry]:
    """Return the entries of the manifest of a directory.

    Raises:
        CheckpointError: If there is no manifest, or if it is damaged, foreign, or of a later version.
    """
    path = directory / MANIFEST_NAME
    try:
        content = read_plain(path, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        found = "no such directory" if not directory.is_dir() else f"no {MANIFEST_NAME!r} in it"
        raise CheckpointError(
            f"{directory}: found {found}, expected a checkpoint. Pass the directory that `save` wrote."
        ) from None
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"invalid JSON ({error})") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise _damaged(path, f"a file that does not say {_FORMAT!r}")
    if type(data.get("version")) is not int or data["version"] > VERSION:
        raise CheckpointError(
            f"{path}: found version {data.get('version')!r} of the format, expected {VERSION} or an earlier one. Load it with "
            "the version of episodia that wrote it, or a later one."
        )
    entries = _entries(data.get("files"))
    # The bytes must be those that would be written for these entries, so any change is found.
    if entries is None or manifest_bytes(entries) != content:
        raise _damaged(path, "entries that do not match its checksum")
    return entries


def _entries(files: Any) -> dict[str, Entry] | None:
    if not isinstance(files, dict) or list(files) != list(_SUFFIXES):
        return None
    entries = {}
    for part, entry in files.items():
        size, checksum = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if type(size) is not int or size < 0 or not isinstance(checksum, str) or not _CHECKSUM.fullmatch(checksum):
            return None
        entries[part] = Entry(part, size, checksum)
    return entries


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode("ascii")


def _damaged(path: Path, found: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: found {found}, expected the manifest of a checkpoint. It is damaged, or another program wrote it; "
        "use another checkpoint."
    )
