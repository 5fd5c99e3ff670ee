"""Action spaces of rows, and functions on columns of actions, applied to each leaf of the space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, final

import numpy as np
from gymnasium import Space, spaces

from episodia.connectors.batches.module_outputs import ModuleOutputs, memorized_rows
from episodia.errors import BatchError
from episodia.spaces import ARRAY_SPACES, short_name
from episodia.trees import describe, map_batch
from episodia.types import Item

T = TypeVar("T")

_LeafFunction = Callable[[Space[Any], np.ndarray, Any], np.ndarray]


class RowsOfSpace(NamedTuple):
    """Rows of a column whose actions are from one space."""

    rows: np.ndarray | None  # positions; None stands for all rows
    space: Space[Any]


@final
class PerSpace(Generic[T]):
    """Cache of the results of a function of a space, by the id of the space: spaces are not hashable.

    >>> sizes = PerSpace(lambda space: int(space.n))
    >>> sizes(spaces.Discrete(3))
    3
    """

    # Limits the memory if the caller creates a new space for each call.
    _MOST = 256

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        # Keeping the space ensures that no other space gets its id.
        self._made: dict[int, tuple[Space[Any], T]] = {}

    def __call__(self, space: Space[Any]) -> T:
        found = self._made.get(id(space))
        if found is None:
            if len(self._made) >= self._MOST:
                self._made.clear()
            found = self._made[id(space)] = (space, self._make(space))
        return found[1]


@final
class ActionSpaces:
    """Finds the action space of each row.

    In a batch of one module, this is the input space of the piece, or else the space of the module. With several modules,
    the input space of the piece may be a `Dict` of the spaces of all agents, or of all modules. Agents of one module may
    have different spaces: their rows are then grouped by space.
    """

    def __init__(self) -> None:
        self._distinct: list[Space[Any]] = []
        self._representative = PerSpace(self._first_equal)
        # The common space of all agents of a `Dict`; None for different spaces.
        self._common: PerSpace[list[RowsOfSpace] | None] = PerSpace(self._for_all)
        # The rows, the input space and the result of the last call: the next call often has the same rows.
        self._last: tuple[Any, Any, list[RowsOfSpace]] = (None, None, [])

    def of(
        self, outputs: ModuleOutputs, input_space: Space[Any] | None, shared_data: dict[Any, Any] | None
    ) -> list[RowsOfSpace]:
        """Return the spaces of all rows of a module.

        Raises:
            BatchError: If the space is unknown.
        """
        own = getattr(outputs.module, "action_space", None)
        if outputs.module_id is None:
            space = own if input_space is None else input_space
        else:
            children: Mapping[Any, Space[Any]] = input_space.spaces if isinstance(input_space, spaces.Dict) else {}
            rows = memorized_rows(shared_data, outputs.module_id)
            if rows and rows is self._last[0] and input_space is self._last[1]:
                return self._last[2]
            if rows and input_space is not None and {agent for _, agent in rows} <= children.keys():
                common = self._common(input_space)
                found = self._by_agent([children[agent] for _, agent in rows]) if common is None else common
                self._last = rows, input_space, found
                return found
            space = children.get(outputs.module_id, input_space if own is None else own)
        if space is None:
            raise BatchError(
                f"module {outputs.module_id!r}: found no action space of the piece or of the module, expected one. "
                "Build the pipeline with `input_action_space`, or give the module an `action_space`."
            )
        return [RowsOfSpace(None, space)]

    def _for_all(self, space: spaces.Dict) -> list[RowsOfSpace] | None:
        """Return the space of all rows, if all agents in `space` have equal spaces."""
        found = self._by_agent(list(space.spaces.values()))
        return found if len(found) == 1 else None

    def _by_agent(self, of_rows: list[Space[Any]]) -> list[RowsOfSpace]:
        groups: dict[int, tuple[Space[Any], list[int]]] = {}
        for row, space in enumerate(map(self._representative, of_rows)):
            groups.setdefault(id(space), (space, []))[1].append(row)
        if len(groups) == 1:
            return [RowsOfSpace(None, space) for space, _ in groups.values()]
        return [RowsOfSpace(np.array(rows), space) for space, rows in groups.values()]

    def _first_equal(self, space: Space[Any]) -> Space[Any]:
        """Return the first known space equal to `space`: environments often create equal spaces, one for each agent."""
        found = next((other for other in self._distinct if other == space), None)
        if found is None:
            self._distinct.append(space)
        return space if found is None else found


def change_actions(parts: list[RowsOfSpace], function: _LeafFunction, actions: Item, masks: Any = None) -> Any:
    """Return a column of actions with `function(space, actions, mask)` applied to each leaf.

    Args:
        parts: The spaces of the rows.
        function: Called with a leaf space, the actions `[B, ...]` of that leaf, and their mask or None.
        actions: The column, nested like its space.
        masks: Action masks, nested like the actions; None, or a missing key, allows all actions.

    Raises:
        BatchError: If the nesting or a shape of the actions differs from their space.
    """
    if len(parts) == 1:
        return _mapped(function, parts[0].space, actions, masks, "")
    changed = [_mapped(function, space, _taken(actions, rows), _taken(masks, rows), "") for rows, space in parts]
    order = np.argsort(np.concatenate([rows for rows, _ in parts if rows is not None]))
    return map_batch(lambda *leaves: np.concatenate(leaves)[order], *changed)


def _taken(batch: Any, rows: np.ndarray | None) -> Any:
    return map_batch(lambda leaf: None if leaf is None else leaf[rows], batch)


def _mapped(function: _LeafFunction, space: Space[Any], actions: Item, masks: Any, path: str) -> Any:
    if isinstance(space, spaces.Dict):
        if not isinstance(actions, Mapping) or actions.keys() != space.spaces.keys():
            raise _other_actions(space, actions, path)
        masks = {} if masks is None else masks
        return {
            key: _mapped(function, child, actions[key], masks.get(key), f"{path}[{key!r}]")
            for key, child in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        if not isinstance(actions, tuple) or len(actions) != len(space.spaces):
            raise _other_actions(space, actions, path)
        masks = (None,) * len(actions) if masks is None else masks
        children = enumerate(zip(space.spaces, actions, masks, strict=True))
        return tuple(_mapped(function, *child, f"{path}[{position}]") for position, child in children)
    if isinstance(space, ARRAY_SPACES) and _item_shape(space, actions) != space.shape:
        raise _other_actions(space, actions, path)
    return function(space, actions, masks)


def _item_shape(space: Space[Any], actions: Item) -> tuple[int, ...] | None:
    """Return the shape of one action, from the last axes; None if `actions` has no axis of rows."""
    shape = np.shape(actions)
    axes = len(space.shape or ())
    return shape[len(shape) - axes :] if len(shape) > axes else None


def _other_actions(space: Space[Any], actions: Item, path: str) -> BatchError:
    return BatchError(
        f"actions{path}: found {describe(actions)}, expected a batch of actions of {short_name(space)}. Let the module return "
        "actions of its action space, one for each row."
    )
