"""Nested items as flat vectors: numbers unchanged, classes one-hot, leaves concatenated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from episodia.connectors.spaces.row_spaces import paired
from episodia.errors import PipelineError, SpaceError
from episodia.spaces import ARRAY_SPACES, OTHER_SPACE, short_name, structure_of
from episodia.trees import leaves
from episodia.types import Item


def flat_size(piece: str, space: Space[Any]) -> int:
    """Return the length of the vectors.

    Raises:
        PipelineError: If a leaf of `space` has no fixed size, such as Text, Sequence and Graph.

    >>> flat_size("Flatten", spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2, 2))]))
    7
    """
    return sum(_leaf_size(piece, path, leaf) for path, leaf in leaves(structure_of(space)))


def _leaf_size(piece: str, path: str, leaf: Item) -> int:
    if isinstance(leaf, spaces.Discrete):
        return int(leaf.n)
    if isinstance(leaf, spaces.MultiDiscrete):
        return int(leaf.nvec.sum())
    if isinstance(leaf, ARRAY_SPACES):
        return math.prod(leaf.shape)  # type: ignore[arg-type]  # of fixed shape
    raise PipelineError(
        f"{piece}: found {leaf if isinstance(leaf, Space) else repr(leaf)}{' at ' if path else ''}{path}, expected Box, "
        "Discrete, MultiDiscrete or MultiBinary, also nested. Items of other spaces have no fixed size: encode or "
        "remove them first."
    )


def flat_space(piece: str, space: Space[Any]) -> spaces.Box:
    """Return the space of the vectors, with the bounds of the leaves.

    Raises:
        PipelineError: If a leaf of `space` has no fixed size.

    >>> flat_space("Flatten", spaces.Dict({"kind": spaces.Discrete(2)}))
    Box(0.0, 1.0, (2,), float32)
    """
    size = flat_size(piece, space)
    bounds = [_leaf_bounds(leaf) for _, leaf in leaves(structure_of(space))]
    low, high = (
        (np.concatenate([np.empty(0, np.float32), *side]) for side in zip(*bounds, strict=True)) if bounds else (0, 0)
    )
    return spaces.Box(low, high, (size,), np.float32)


def _leaf_bounds(leaf: Item) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(leaf, spaces.Box):
        with np.errstate(over="ignore"):
            return leaf.low.reshape(-1).astype(np.float32), leaf.high.reshape(-1).astype(np.float32)
    size = _leaf_size("", "", leaf)
    return np.zeros(size, np.float32), np.ones(size, np.float32)


def flat_vectors(piece: str, space: Space[Any] | None, values: Item, count: int) -> np.ndarray:
    """Return the vectors of `count` rows: float32 [count, size].

    Each vector equals `gymnasium.spaces.flatten` of the item. A column that is already a float32 array is not copied.

    Args:
        piece: The name of the piece, for error messages.
        space: The space of the rows.
        values: The rows, as a batch.
        count: The number of rows.

    Raises:
        PipelineError: If the space is unknown, or a leaf has no fixed size.
        BatchError: If rows are not items of the space.
        SpaceError: If a class is outside its space.

    >>> flat_vectors("Flatten", spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 9, ())]), (np.array([0, 1]), np.ones(2)), 2)
    array([[1., 0., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    pairs = paired(piece, space, values)
    sizes = [_leaf_size(piece, path, leaf) for path, leaf, _ in pairs]
    if len(pairs) == 1 and not isinstance(pairs[0][1], (spaces.Discrete, spaces.MultiDiscrete)):
        with np.errstate(over="ignore"):
            return pairs[0][2].reshape(count, sizes[0]).astype(np.float32, copy=False)
    vectors = np.zeros((count, sum(sizes)), np.float32)
    start = 0
    for (_, leaf, column), size in zip(pairs, sizes, strict=True):
        _write(vectors[:, start : start + size], leaf, column)
        start += size
    return vectors


def _write(vectors: np.ndarray, leaf: Item, column: np.ndarray) -> None:
    """Write the vectors of one leaf into `vectors`, which holds zeros."""
    if not isinstance(leaf, (spaces.Discrete, spaces.MultiDiscrete)):
        with np.errstate(over="ignore"):
            vectors[...] = column.reshape(vectors.shape)
        return
    sizes = leaf.nvec.reshape(-1) if isinstance(leaf, spaces.MultiDiscrete) else np.array([leaf.n])
    if column.dtype.kind not in "iu":
        raise SpaceError(f"found {column.dtype} for {short_name(leaf)}, expected classes. {OTHER_SPACE}")
    classes = (column.astype(np.int64) - leaf.start).reshape(len(vectors), len(sizes))
    if ((classes < 0) | (classes >= sizes)).any():
        raise SpaceError(f"found values outside of {short_name(leaf)}, expected its classes. {OTHER_SPACE}")
    first = np.cumsum(sizes) - sizes
    vectors[np.arange(len(vectors))[:, None], first + classes] = 1.0
