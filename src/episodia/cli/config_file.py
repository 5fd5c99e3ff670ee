"""The file of `train --config`: a JSON object with the settings of a training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from episodia.errors import TrainingError


def read_config(path: str) -> dict[str, Any]:
    """Return the settings in a JSON file.

    Raises:
        TrainingError: If the file cannot be read, or holds something else than one object with each name once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "ppo.json").write_text('{"gamma": 0.98, "hidden": [32, 32]}')
    ...     read_config(f"{folder}/ppo.json")
    {'gamma': 0.98, 'hidden': [32, 32]}
    """
    try:
        found: object = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise TrainingError(
            f"--config: found {path!r}, which cannot be read as JSON ({reason}), expected a file such as "
            '{"algorithm": "ppo", "env": "CartPole-v1", "num_envs": 4}. Correct it.'
        ) from error
    if not isinstance(found, dict):
        raise TrainingError(
            f"--config: found {repr(found)[:80]} in {path!r}, expected an object with settings by name. Put them into braces."
        )
    return found


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{sorted({name for name in names if names.count(name) > 1})} occur several times")
    return found
