"""Size limits for spaces in files: spaces that are too large are neither saved nor loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from gymnasium import Space

from episodia.errors import CheckpointError
from episodia.space_codec import decode_space, encode_space
from episodia.types import Item

# The limit of numbers and classes per observation or action: a few bytes in a file could request any amount of memory.
_MAX_ELEMENTS: Final = 2**24
_NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64|96|128)")


def encoded_spaces(*spaces: Space[Any] | None) -> list[Any]:
    """Return spaces as plain data.

    Raises:
        CheckpointError: If a space is too large.
    """
    data = [encode_space(space) for space in spaces]
    for space in data:
        _check_elements(_num_elements(space))
    return data


def decoded_spaces(data: Any) -> tuple[Space[Any] | None, Space[Any] | None]:
    """Return the observation space and the action space of a saved pair.

    Raises:
        CheckpointError: If a space is too large.

    >>> decoded_spaces([None, {"space": "Discrete", "n": 3, "start": 0, "dtype": "int64"}])
    (None, Discrete(3))
    """
    observation_space, action_space = data
    for space in (observation_space, action_space):
        _check_elements(_num_elements(space))
    return decode_space(observation_space), decode_space(action_space)


def _check_elements(found: int) -> None:
    """Check that the number of elements of an observation or action is within the limit.

    Raises:
        CheckpointError: If `found` exceeds the limit.
    """
    if found > _MAX_ELEMENTS:
        raise CheckpointError(
            f"found a space with more than {_MAX_ELEMENTS} elements, expected fewer: larger spaces are not saved or loaded. "
            "Make observations and actions smaller."
        )


def _num_elements(space: Any) -> int:
    """Return the number of numbers and classes of an encoded space, without building the space.

    >>> _num_elements({"space": "MultiBinary", "n": [2, 3]})
    6
    """
    kind = space.get("space") if isinstance(space, dict) else None
    return _COUNTS[kind](space) if kind in _COUNTS else 0


def count(value: Item) -> int:
    """Return `value` if it is an integer of at least 0: a negative size could offset one that is too large.

    Raises:
        CheckpointError: If it is not.
    """
    if type(value) is not int or value < 0:
        raise CheckpointError(
            f"found the size {repr(value)[:40]}, expected an integer of at least 0. Use another checkpoint."
        )
    return value


def _product(sizes: list[Any]) -> int:
    return math.prod(map(count, sizes))


def _total(sizes: Any) -> int:
    return sum(map(_total, sizes)) if isinstance(sizes, list) else count(sizes)


def _box(space: dict[str, Any]) -> int:
    # Items of string dtypes can have any size.
    if not _NUMBERS.fullmatch(space["dtype"]):
        raise CheckpointError(
            f"found the dtype {repr(space['dtype'])[:40]}, expected a numeric dtype. Use another checkpoint."
        )
    return _product(space["shape"])


def _multi_discrete(space: dict[str, Any]) -> int:
    # A single number is the size of all choices.
    sizes, choices = space["nvec"], _product(space.get("shape", []))
    return choices + (_total(sizes) if isinstance(sizes, list) else count(sizes) * choices)


def _several(spaces: list[Any]) -> int:
    return sum(map(_num_elements, spaces))


_COUNTS: dict[Any, Callable[[dict[str, Any]], int]] = {
    "Box": _box,
    "Discrete": lambda space: count(space["n"]),
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": lambda space: _product(space["n"] if isinstance(space["n"], list) else [space["n"]]),
    "Dict": lambda space: _several([child for _, child in space["spaces"]]),
    "Tuple": lambda space: _several(space["spaces"]),
    "OneOf": lambda space: _several(space["spaces"]),
    "Sequence": lambda space: _num_elements(space["feature_space"]),
    "Graph": lambda space: _num_elements(space["node_space"]) + _num_elements(space["edge_space"]),
}


def check_windows(pipeline: dict[str, Any]) -> None:
    """Check that observations stay within the size limit after the pieces of an encoded pipeline.

    Pieces of other packages are not taken into account.

    Raises:
        CheckpointError: If the limit is exceeded, or a size is not an integer of at least 0.

    >>> check_windows({"spaces": [None, None], "pieces": [{"class": "FrameStacking", "arguments": {"num_frames": 4}}]})
    """
    pieces = list(_pieces(pipeline))
    pairs = [part["spaces"] for part in (pipeline, *pieces) if "spaces" in part]
    observations, actions = (max(_num_elements(pair[side]) for pair in pairs) for side in (0, 1))
    agents = max(_num_entries(pair[0]) for pair in pairs)
    beside = sum(map(_num_previous, pieces)) * (actions + agents)
    _check_elements((max(observations, actions, 1) + beside) * math.prod(map(_num_shown, pieces)))


def _pieces(pipeline: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inner = pipeline.get("pieces")
    # Anything but a list of pieces is rejected when the pieces are rebuilt.
    for piece in inner if isinstance(inner, list) else ():
        if isinstance(piece, dict):
            yield piece
            yield from _pieces(piece)


def _num_entries(space: Any) -> int:
    return len(space["spaces"]) if isinstance(space, dict) and "spaces" in space else 1


def _num_previous(piece: dict[str, Any]) -> int:
    """Return the number of previous actions and rewards that a piece adds to each observation."""
    if piece.get("class") != "PrevActionsPrevRewards":
        return 0
    return sum(count(piece["arguments"].get(name, 1)) for name in ("n_prev_actions", "n_prev_rewards"))


def _num_shown(piece: dict[str, Any]) -> int:
    """Return the number of steps that a piece shows per row."""
    if piece.get("class") == "FrameStacking":
        return max(1, count(piece["arguments"].get("num_frames", 1)))
    if piece.get("class") == "AddViews":
        return max(
            (_num_shifts(view.get("shift", 0)) for view in piece["arguments"]["views"]["views"].values()), default=1
        )
    return 1


def _num_shifts(shift: Any) -> int:
    if isinstance(shift, list):
        return max(1, len(shift))
    # A short string could stand for any number of shifts.
    if type(shift) is not int:
        raise CheckpointError(
            f"found the shift {repr(shift)[:40]}, expected an integer, or a list. Use another checkpoint."
        )
    return 1
