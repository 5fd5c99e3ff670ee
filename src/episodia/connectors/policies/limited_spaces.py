"""Spaces out of files: made only if they are of a size that somebody may really have meant."""

from __future__ import annotations

import math
from typing import Any

from gymnasium import Space

from episodia.errors import CheckpointError
from episodia.space_codec import decode_space

# How many numbers and classes one observation or action has at most: a few characters could ask for any amount of memory.
_MAX_ELEMENTS = 2**24


def decoded_spaces(data: Any) -> tuple[Space[Any] | None, Space[Any] | None]:
    """Return the observation space and the action space of a saved pair.

    Raises:
        CheckpointError: If one of them is too large.

    >>> decoded_spaces([None, {"space": "Discrete", "n": 3, "start": 0, "dtype": "int64"}])
    (None, Discrete(3))
    """
    observation_space, action_space = data
    for space in (observation_space, action_space):
        if _num_elements(space) > _MAX_ELEMENTS:
            raise CheckpointError(f"found a space with more than {_MAX_ELEMENTS} elements, expected fewer")
    return decode_space(observation_space), decode_space(action_space)


def _num_elements(space: Any) -> Any:
    """Return how many numbers and classes an encoded space has, without making it."""
    if isinstance(space, list):
        return sum(map(_num_elements, space))
    if not isinstance(space, dict):
        return 0
    sizes = space.get("shape", space.get("n", 0))
    own = math.prod(sizes) if isinstance(sizes, list) else sizes
    children = [space.get(key) for key in ("spaces", "feature_space", "node_space", "edge_space")]
    return own + _total(space.get("nvec", 0)) + sum(map(_num_elements, children))


def _total(sizes: Any) -> Any:
    return sum(map(_total, sizes)) if isinstance(sizes, list) else sizes
