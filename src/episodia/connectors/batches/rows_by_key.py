"""Columns whose rows are also found by the key of their episode, as plugins for RLlib do: `column[("walk",)]`."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from episodia.columns import COLUMN_NAMES
from episodia.connectors.pipelines.current_run import Run, owner_of
from episodia.episodes import EpisodeList, Ragged
from episodia.episodes.lists.ragged import changed_rows
from episodia.errors import BatchError


@final
class KeyedArray(np.ndarray):
    """An array with a row for each episode, whose rows are also found by keys: `(episode id,)`, with a string as the id.

    Items and parts of it are plain arrays.
    """

    finder: _Finder | None = None

    def __getitem__(self, key: Any) -> Any:
        """Return the row of a key, or what NumPy returns."""
        found = super().__getitem__(self._place(key))
        return found.view(np.ndarray) if isinstance(found, np.ndarray) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write the row of a key, or what NumPy writes.

        Raises:
            BatchError: If the array cannot hold the row that belongs to a key.
        """
        place = self._place(key)
        if place is not key:
            changed_rows(self.view(np.ndarray)[place : place + 1], 0, value)  # raises where the value does not fit
        super().__setitem__(place, value)

    def __contains__(self, key: Any) -> bool:
        """Return whether a key is that of an episode, or what NumPy returns."""
        if type(key) is not tuple or self.finder is None:
            return super().__contains__(key)
        return key in self.finder

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return results of NumPy's functions as plain arrays and scalars."""
        plain = array.view(np.ndarray)
        return plain if plain.ndim else plain[()]

    def _place(self, key: Any) -> Any:
        if type(key) is not tuple or not key or type(key[0]) is not str or self.finder is None:
            return key
        positions = self.finder(key)
        if len(positions) == 1 and self.finder.num_episodes == len(self):
            return positions[0]
        raise BatchError(
            f"found the key {key} for {len(self)} rows of {self.finder.num_episodes} episodes, expected one row for each "
            "episode. Place this piece before the one that makes arrays of the column."
        )


@final
class _Finder:
    """Finds the positions of agent episodes by their keys. It looks at the episodes when it is called first."""

    __slots__ = ("_positions", "_run", "_where", "num_episodes")

    def __init__(self, run: Run, where: tuple[Any, ...]) -> None:
        self._run = run
        self._where = where  # the keys of the column in the batch, one of which may be a module id
        self._positions: dict[tuple[Any, ...], list[int]] | None = None
        self.num_episodes = 0

    def __contains__(self, key: Any) -> bool:
        """Return whether there are episodes with this key."""
        return key in self._known()

    def __call__(self, key: Any) -> list[int]:
        """Return the positions of the episodes with this key: several, if there are several chunks of an episode.

        Raises:
            BatchError: If there are no such episodes.
        """
        known = self._known()
        if key not in known:
            raise BatchError(
                f"found the key {key!r}, expected one of {list(known)}. Use the ids of the episodes, as "
                "`(id,)`, or `(id of the multi-agent episode, agent id, module id)`."
            )
        return known[key]

    def _known(self) -> dict[tuple[Any, ...], list[int]]:
        if self._positions is None:
            self._positions = self._found()
        return self._positions

    def _found(self) -> dict[tuple[Any, ...], list[int]]:
        episodes = EpisodeList.of(self._run.episodes)
        groups: Any = episodes.groups() if episodes.is_grouped or len(self._where) > 1 else {}
        module_ids = [key for key in self._where if key in groups]
        rows = (groups[module_ids[0]] if module_ids else episodes).agent_episodes
        self.num_episodes = len(rows)
        positions: dict[tuple[Any, ...], list[int]] = {}
        for position, episode in enumerate(rows):
            positions.setdefault(owner_of(episode).key, []).append(position)
        return positions


@final
class KeyedBatch(dict[Any, Any]):
    """The batch that a piece gets: a dict whose columns have keys when they are read, which costs nothing for others.

    Attributes:
        origin: The run, and the keys of this dict in its batch; set right after the dict is made, because a constructor in
            Python would cost more than all the rest, at each step of a runner.
    """

    __slots__ = ("origin",)

    origin: tuple[Run, tuple[Any, ...]]

    def __getitem__(self, name: Any) -> Any:
        """Return a column whose rows are found by keys."""
        column = super().__getitem__(name)
        kind = type(column)
        if kind is np.ndarray:
            keyed = column.view(KeyedArray)
            keyed.finder = self._finder(name)
            return keyed
        if kind is Ragged:
            column = column.keyed(self._finder(name))
        elif kind is dict and type(next(iter(column), None)) is not tuple:
            run, where = self.origin
            column = KeyedBatch(column)
            column.origin = run, (*where, name)
        else:
            return column
        # What is written into it is part of the batch.
        super().__setitem__(name, column)
        return column

    def _finder(self, name: Any) -> _Finder:
        run, where = self.origin
        return _Finder(run, (*where, name))

    def __missing__(self, name: Any) -> Any:
        """Return a column of several modules, or the rows of an agent in one: `batch["actions"][(id, agent, module)]`."""
        if type(name) is tuple:
            if name and name[-1] in self:
                return self[name[-1]][name]
        elif COLUMN_NAMES.isdisjoint(self) and any(isinstance(part, dict) and name in part for part in self.values()):
            return _ColumnOfModules(self, name)
        raise KeyError(name)

    def __setitem__(self, name: Any, column: Any) -> None:
        """Write a column, or the rows of an agent in a column that is split by module."""
        if type(name) is tuple and name and name[-1] in self:
            self[name[-1]][name] = column
        else:
            super().__setitem__(name, column)

    def get(self, name: Any, default: Any = None) -> Any:
        """Return a column as `[]` does, or `default`."""
        return self[name] if name in self else default  # noqa: SIM401  # `dict.get` would return the column itself


@final
class _ColumnOfModules:
    """A column of a batch that is grouped by module, whose rows are found by the keys of agents."""

    __slots__ = ("_batch", "_name")

    def __init__(self, batch: KeyedBatch, name: Any) -> None:
        self._batch = batch
        self._name = name

    def __getitem__(self, key: Any) -> Any:
        return self._of(key)[key]

    def __setitem__(self, key: Any, row: Any) -> None:
        self._of(key)[key] = row

    def __contains__(self, key: Any) -> bool:
        return self._has_module(key) and key in self._of(key)

    def _has_module(self, key: Any) -> bool:
        return type(key) is tuple and bool(key) and key[-1] in self._batch and self._name in self._batch[key[-1]]

    def _of(self, key: Any) -> Any:
        if not self._has_module(key):
            raise BatchError(
                f"column {self._name!r}: found the key {key!r}, expected `(id of the multi-agent episode, agent id, module "
                f"id)`, with one of the modules {list(self._batch)}. All rows of a module are in `batch[module_id]`."
            )
        return self._batch[key[-1]][self._name]


def without_keys(batch: dict[Any, Any]) -> dict[Any, Any]:
    """Return a batch of plain dicts and arrays."""
    plain = dict(batch) if type(batch) is KeyedBatch else batch
    for name, column in plain.items():
        kind = type(column)
        if kind is KeyedArray:
            plain[name] = column.view(np.ndarray)
        elif kind is KeyedBatch or (kind is dict and KeyedArray in map(type, column.values())):
            plain[name] = without_keys(column)
    return plain
