"""The limits of a run (when it stops, what it writes), which are saved for `resume`."""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeGuard, final

from episodia.arguments import checked_flag, checked_number, checked_whole
from episodia.checkpoints.safe_files import read_plain, write_durably
from episodia.errors import CheckpointError, TrainingError
from episodia.training.training_checks import check_limits

_FORMAT = "episodia run 2"
# Without a checksum.
_FIRST_FORMAT = "episodia run 1"
_MOST_BYTES = 10_000
# Often enough that a kill loses minutes, and rarely enough that the episodes that it begins do not matter.
CHECKPOINT_EVERY = 20_000
_LOWEST = -sys.float_info.max


@final
@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a run stops and what it writes.

    Args:
        steps: The largest number of environment steps.
        target: The mean return to stop at; None and infinity set no target.
        checkpoint_every: The number of steps between two checkpoints; None writes only those at the beginning and at the end.
            It changes the result, because new episodes begin after each checkpoint.
        tensorboard: Whether to write metrics for TensorBoard.

    Raises:
        TrainingError: If a value has the wrong type or is out of range.

    >>> Limits(steps=100).changed(target=5.0, steps=None)
    Limits(steps=100, target=5.0, checkpoint_every=None, tensorboard=False)
    """

    steps: int
    target: float | None = None
    checkpoint_every: int | None = None
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_limits("run", self.steps, self.target)
        # JSON has neither NumPy numbers nor infinity.
        every, target = self.checkpoint_every, None if self.target == math.inf else self.target
        plain: dict[str, Any] = {
            "steps": int(self.steps),
            "tensorboard": checked_flag(TrainingError, "run", "tensorboard", self.tensorboard),
            "target": None
            if target is None
            else checked_number(TrainingError, "run", "target", float(target), _LOWEST),
        }
        if every is not None:
            plain["checkpoint_every"] = checked_whole(TrainingError, "run", "checkpoint_every", every, 1)
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    def changed(self, **others: Any) -> Limits:
        """Return these limits with the values of `others` that are not None."""
        given = {name: value for name, value in others.items() if value is not None}
        return Limits(**{**asdict(self), **given})

    def save(self, path: Path) -> None:
        """Write the limits to a file, as JSON.

        Raises:
            TrainingError: If the file cannot be written.
        """
        try:
            values = asdict(self)
            data = {"format": _FORMAT, **values, "crc32": _checksum(values)}
            write_durably(path, (json.dumps(data, indent=1) + "\n").encode())
        except OSError as error:
            raise TrainingError(
                f"{path}: found that it cannot be written ({error}), expected a directory with free space and write "
                "permission. Choose another one."
            ) from error

    @classmethod
    def load(cls, path: Path) -> Limits:
        """Return the limits that `save` wrote.

        Raises:
            TrainingError: If the file is missing, or holds other data.
        """
        try:
            data: object = json.loads(read_plain(path, _MOST_BYTES))
        except (OSError, ValueError, RecursionError, CheckpointError) as error:
            raise TrainingError(
                f"{path}: found that it cannot be read ({error}), expected the limits of a run. Pass the directory of a run."
            ) from error
        names = {each.name for each in fields(cls)}
        if not _is_whole(data, names):
            raise TrainingError(
                f"{path}: found {repr(data)[:80]}, expected the limits of a run, {sorted(names)}, with their checksum. The "
                "file is damaged, or another program wrote it; pass the directory of a run."
            )
        return cls(**{name: data[name] for name in names})


def _checksum(values: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(dict(sorted(values.items()))).encode()):08x}"


def _is_whole(data: object, names: set[str]) -> TypeGuard[Mapping[str, Any]]:
    """Tell whether these are limits, as they were written."""
    if not isinstance(data, Mapping):
        return False
    if data.get("format") == _FIRST_FORMAT:
        return set(data) == {"format", *names}
    if data.get("format") != _FORMAT or set(data) != {"format", "crc32", *names}:
        return False
    return bool(data["crc32"] == _checksum({name: data[name] for name in names}))
