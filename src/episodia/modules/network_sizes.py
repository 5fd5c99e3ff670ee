"""The size of a network in a file, which must not exceed that of its weights: a small file could ask for any size."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from episodia.errors import ModuleError


def check_network_fits(network: Mapping[str, Any], weights: object) -> None:
    """Check that a network is not larger than the weights beside its settings, before it is made.

    >>> check_network_fits({"hidden": (8, 8)}, {"0.weight": np.zeros((8, 4)), "2.weight": np.zeros((8, 8))})

    Raises:
        ModuleError: If it has more layers or weights.
    """
    parts = [part for part in _leaves(weights) if isinstance(part, (np.ndarray, Tensor))]
    num_weights = sum(int(np.prod(part.shape)) for part in parts)
    hidden = network.get("hidden")
    sizes = [_size(size) for size in hidden] if isinstance(hidden, (list, tuple)) else []
    cell, atoms, critics = (_size(network.get(name)) for name in ("cell_size", "atoms", "num_critics"))
    # Biases and the weights of inputs and heads come on top.
    least = critics * sum(before * after for before, after in pairwise([1, *sizes, atoms])) + cell * cell
    if critics * len(sizes) > len(parts) or least > num_weights:
        raise ModuleError(
            f"network: found one with {len(sizes)} hidden layers and at least {least} weights, expected one for the "
            f"{num_weights} weights in the same file. Another program wrote it; use another checkpoint."
        )


def _leaves(tree: object) -> list[Any]:
    return [leaf for part in tree.values() for leaf in _leaves(part)] if isinstance(tree, Mapping) else [tree]


def _size(found: object) -> int:
    # Other values are rejected when the network is made.
    return max(found, 1) if isinstance(found, int) else 1
