"""Which rows belong to which module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# The module of agents that nobody mapped to another one.
DEFAULT_MODULE_ID = "default_policy"


def distinct_modules(module_ids: Sequence[Any]) -> list[Any]:
    """Return each id once, in the order in which ids come up; where there are none, columns are the default module's.

    >>> distinct_modules(["left", None, "left"]), distinct_modules([])
    (['left', 'default_policy'], ['default_policy'])
    """
    distinct = dict.fromkeys(module_ids) or {None: None}
    return list(dict.fromkeys(DEFAULT_MODULE_ID if module_id is None else module_id for module_id in distinct))


def positions_by_module(module_ids: Sequence[Any]) -> dict[Any, np.ndarray]:
    """Return the positions of each id, in the order in which ids come up; None stands for the default module.

    >>> positions_by_module(["left", None, "left"])
    {'left': array([0, 2]), 'default_policy': array([1])}
    """
    names = [DEFAULT_MODULE_ID if module_id is None else module_id for module_id in module_ids]
    if len(set(names)) == 1:
        return {names[0]: np.arange(len(names))}
    positions: dict[Any, list[int]] = {}
    for position, name in enumerate(names):
        positions.setdefault(name, []).append(position)
    return {name: np.array(rows, np.int64) for name, rows in positions.items()}
