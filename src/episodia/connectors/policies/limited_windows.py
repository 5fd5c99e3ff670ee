"""Pieces in files that show several steps at once: made only if what they make of the spaces is of a size that may be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from episodia.connectors.policies.limited_spaces import check_elements, count, num_elements
from episodia.errors import CheckpointError


def check_windows(pipeline: dict[str, Any]) -> None:
    """Check that an observation behind the pieces of an encoded pipeline may have as many numbers as it has at most.

    Pieces of others are not known here.

    Raises:
        CheckpointError: If these are too many, or if a size is none.

    >>> check_windows({"spaces": [None, None], "pieces": [{"class": "FrameStacking", "arguments": {"num_frames": 4}}]})
    """
    pieces = list(_pieces(pipeline))
    pairs = [part["spaces"] for part in (pipeline, *pieces) if "spaces" in part]
    observations, actions = (max(num_elements(pair[side]) for pair in pairs) for side in (0, 1))
    agents = max(_num_entries(pair[0]) for pair in pairs)
    beside = sum(map(_num_previous, pieces)) * (actions + agents)
    check_elements((max(observations, actions, 1) + beside) * math.prod(map(_num_shown, pieces)))


def _pieces(pipeline: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inner = pipeline.get("pieces")
    # What is no list of pieces is refused when they are made.
    for piece in inner if isinstance(inner, list) else ():
        if isinstance(piece, dict):
            yield piece
            yield from _pieces(piece)


def _num_entries(space: Any) -> int:
    return len(space["spaces"]) if isinstance(space, dict) and "spaces" in space else 1


def _num_previous(piece: dict[str, Any]) -> int:
    """Return how many actions and rewards a piece puts beside each observation."""
    if piece.get("class") != "PrevActionsPrevRewards":
        return 0
    return sum(count(piece["arguments"].get(name, 1)) for name in ("n_prev_actions", "n_prev_rewards"))


def _num_shown(piece: dict[str, Any]) -> int:
    """Return how many steps a piece shows in the place of one."""
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
    # In a string, a few characters would stand for any number of shifts.
    if type(shift) is not int:
        raise CheckpointError(
            f"found the shift {repr(shift)[:40]}, expected an integer, or a list. Use another checkpoint."
        )
    return 1
