"""Which rows belong to which module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from episodia.episodes.lists.ragged import counted

# The module of agents that nobody mapped to another one.
DEFAULT_MODULE_ID = "default_policy"


def positions_by_module(module_ids: Sequence[Any]) -> dict[Any, np.ndarray]:
    """Return the positions of each id, in the order in which ids come up; None stands for the default module.

    >>> positions_by_module(["left", None, "left"])
    {'left': array([0, 2]), 'default_policy': array([1])}
    """
    if len(set(module_ids)) == 1:
        return {_name(module_ids[0]): counted(len(module_ids))}
    positions: dict[Any, list[int]] = {}
    for position, name in enumerate(map(_name, module_ids)):
        positions.setdefault(name, []).append(position)
    return {name: np.array(rows, np.int64) for name, rows in positions.items()}


def _name(module_id: Any) -> Any:
    return DEFAULT_MODULE_ID if module_id is None else module_id
