"""Spaces in files: made only if they are of a size that somebody may really have meant, and so saved only then, too."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

from gymnasium import Space

from episodia.errors import CheckpointError
from episodia.space_codec import decode_space, encode_space

# How many numbers and classes one observation or action has at most: a few characters could ask for any amount of memory.
_MAX_ELEMENTS: Final = 2**24
_NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64|96|128)")


def encoded_spaces(*spaces: Space[Any] | None) -> list[Any]:
    """Return spaces as plain data.

    Raises:
        CheckpointError: If one of them is too large to be loaded.
    """
    data = [encode_space(space) for space in spaces]
    for space in data:
        check_elements(num_elements(space))
    return data


def decoded_spaces(data: Any) -> tuple[Space[Any] | None, Space[Any] | None]:
    """Return the observation space and the action space of a saved pair.

    Raises:
        CheckpointError: If one of them is too large.

    >>> decoded_spaces([None, {"space": "Discrete", "n": 3, "start": 0, "dtype": "int64"}])
    (None, Discrete(3))
    """
    observation_space, action_space = data
    for space in (observation_space, action_space):
        check_elements(num_elements(space))
    return decode_space(observation_space), decode_space(action_space)


def check_elements(found: int) -> None:
    """Check that one observation or action may have so many numbers and classes.

    Raises:
        CheckpointError: If these are too many.
    """
    if found > _MAX_ELEMENTS:
        raise CheckpointError(
            f"found a space with more than {_MAX_ELEMENTS} elements, expected fewer: others are neither saved nor loaded. Make "
            "observations and actions smaller."
        )


def num_elements(space: Any) -> int:
    """Return how many numbers and classes an encoded space has, without making it.

    >>> num_elements({"space": "MultiBinary", "n": [2, 3]})
    6
    """
    kind = space.get("space") if isinstance(space, dict) else None
    return _COUNTS[kind](space) if kind in _COUNTS else 0


def count(value: Any) -> int:
    """Return `value` if it counts something: others, such as negative ones, would make up for those that are too large.

    Raises:
        CheckpointError: If it does not.
    """
    if type(value) is not int or value < 0:
        raise CheckpointError(
            f"found the size {repr(value)[:40]}, expected an integer from 0 on. Use another checkpoint."
        )
    return value


def _product(sizes: list[Any]) -> int:
    return math.prod(map(count, sizes))


def _total(sizes: Any) -> int:
    return sum(map(_total, sizes)) if isinstance(sizes, list) else count(sizes)


def _box(space: dict[str, Any]) -> int:
    # Each item of a dtype of texts may be of any size, too.
    if not _NUMBERS.fullmatch(space["dtype"]):
        raise CheckpointError(f"found the dtype {repr(space['dtype'])[:40]}, expected numbers. Use another checkpoint.")
    return _product(space["shape"])


def _multi_discrete(space: dict[str, Any]) -> int:
    # A single number stands for all choices.
    sizes, choices = space["nvec"], _product(space.get("shape", []))
    return choices + (_total(sizes) if isinstance(sizes, list) else count(sizes) * choices)


def _several(spaces: list[Any]) -> int:
    return sum(map(num_elements, spaces))


_COUNTS: dict[Any, Callable[[dict[str, Any]], int]] = {
    "Box": _box,
    "Discrete": lambda space: count(space["n"]),
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": lambda space: _product(space["n"] if isinstance(space["n"], list) else [space["n"]]),
    "Dict": lambda space: _several([child for _, child in space["spaces"]]),
    "Tuple": lambda space: _several(space["spaces"]),
    "OneOf": lambda space: _several(space["spaces"]),
    "Sequence": lambda space: num_elements(space["feature_space"]),
    "Graph": lambda space: num_elements(space["node_space"]) + num_elements(space["edge_space"]),
}
