"""JSON from files that may be damaged or made to do harm."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Any, NoReturn

from episodia.checkpoints.checkpoint_limits import MAX_JSON_PARTS


def strict_json(content: bytes, *, max_parts: int = MAX_JSON_PARTS) -> Any:
    """Return the JSON value in `content`, read as strictly as it is written.

    Raises:
        ValueError: If it is not JSON, has more than `max_parts` parts, a key twice, or a number that is not finite.
        RecursionError: If it is nested too deeply.

    >>> strict_json(b'{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if has_too_many_parts(content, max_parts):
        raise ValueError(f"more than {max_parts} strings, brackets and commas")
    return json.loads(content.decode("ascii"), object_pairs_hook=_dict, parse_constant=_rejected, parse_float=_finite)


# A string, which may lack its end, or what begins a value outside of strings.
_PART = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{,]', re.DOTALL)


def has_too_many_parts(content: bytes, max_parts: int = MAX_JSON_PARTS) -> bool:
    """Whether the values in a JSON file may take much more memory than the file.

    >>> has_too_many_parts(b'["a, b", 2]'), has_too_many_parts(b"[" * 2**20)
    (False, True)
    """
    # A part has at least one byte.
    return len(content) > max_parts and any(True for _ in itertools.islice(_PART.finditer(content), max_parts, None))


def _dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"a key twice, among {repr(list(made))[:80]}")
    return made


def _rejected(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]}, which is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _rejected(text)
