"""JSON as checkpoints hold it: what Python writes with `allow_nan=False`, and nothing more lenient."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def strict_json(content: bytes) -> Any:
    """Return the value in `content`.

    Raises:
        ValueError: If it is no JSON, has a key twice, or a number that is not finite.
        RecursionError: If it is too deep.

    >>> strict_json(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    return json.loads(content.decode("ascii"), object_pairs_hook=_dict, parse_constant=_refused, parse_float=_finite)


def _dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"a key twice, among {repr(list(made))[:80]}")
    return made


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]}, which is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refused(text)
