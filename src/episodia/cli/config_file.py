"""The file of `train --config`: the settings of a training as a JSON object, or as TOML."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from episodia.errors import TrainingError

_JSON = '{"algorithm": "ppo", "env": "CartPole-v1", "num_envs": 4}'
_TOML = 'algorithm = "ppo", env = "CartPole-v1" and num_envs = 4, each in a line'


def read_config(path: str) -> dict[str, Any]:
    """Return the settings in a file: TOML if its name ends in `.toml`, otherwise JSON.

    Raises:
        TrainingError: If the file cannot be read, or holds something else than one object with each name once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "ppo.json").write_text('{"gamma": 0.98, "hidden": [32, 32]}')
    ...     read_config(f"{folder}/ppo.json")
    {'gamma': 0.98, 'hidden': [32, 32]}
    """
    is_toml = Path(path).suffix.lower() == ".toml"
    try:
        text = Path(path).read_text(encoding="utf-8")
        found: object = tomllib.loads(text) if is_toml else json.loads(text, object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        kind, example = ("TOML", _TOML) if is_toml else ("JSON", _JSON)
        raise TrainingError(
            f"--config: found {path!r}, which cannot be read as {kind} ({reason}), expected a file such as {example}. Correct "
            "it."
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
