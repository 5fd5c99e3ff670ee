"""Changes of actions that come too late: after the actions for the environment were derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from episodia.columns import Columns
from episodia.errors import BatchError
from episodia.trees import equal, leaves, map_batch

# What is recorded, and what the environment gets.
_PAIR = (Columns.ACTIONS, Columns.ACTIONS_FOR_ENV)


def derived_actions(batch: Mapping[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    """Return copies of the actions and of the actions for the environment, by module or None, where both exist."""
    return {
        module_id: (map_batch(np.copy, pair[0]), map_batch(np.copy, pair[1]))
        for module_id, pair in _pairs(batch).items()
    }


def _pairs(batch: Mapping[Any, Any]) -> dict[Any, tuple[Any, Any]]:
    parts = {None: batch} if Columns.ACTIONS in batch else batch
    return {
        module_id: (columns[Columns.ACTIONS], columns[Columns.ACTIONS_FOR_ENV])
        for module_id, columns in parts.items()
        if isinstance(columns, Mapping) and all(name in columns and _is_arrays(columns[name]) for name in _PAIR)
    }


def _is_arrays(column: Any) -> bool:
    return all(isinstance(leaf, np.ndarray) for _, leaf in leaves(column))


def check_late_actions(derived: Mapping[Any, tuple[Any, Any]], batch: Mapping[Any, Any]) -> None:
    """Check that a piece did not change `actions` alone; `derived` is what `derived_actions` returned before the piece.

    Raises:
        BatchError: If the environment would get actions that were derived from others than those that are recorded.
    """
    for module_id, (earlier, earlier_for_env) in derived.items():
        actions, for_env = _pairs(batch).get(module_id, (earlier, earlier_for_env))
        if equal(for_env, earlier_for_env) and not equal(actions, earlier):
            raise BatchError(
                "found changed `actions`, and `actions_for_env` of the earlier ones; expected that the environment "
                "gets the actions that are recorded. Place the piece before the one that writes `actions_for_env` "
                "(`NormalizeAndClipActions`), or let it change `actions_for_env` too."
            )
