"""Tables of records that come and go: one int64 array per field; freed records are used again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, final

import numpy as np

from episodia.types import State


class Records:
    """One int64 array per field of a subclass. The arrays grow, so they are read through the table each time.

    The last entry of each array belongs to no record and is -1, so that the number -1, which stands for no record, finds -1.
    """

    fields: ClassVar[tuple[str, ...]]
    __slots__ = ("_free", "size")

    def __init__(self, size: int = 64) -> None:
        for name in self.fields:
            setattr(self, name, np.full(size + 1, -1, np.int64))
        self.size = size
        self._free = list(range(size - 1, -1, -1))

    def __len__(self) -> int:
        return self.size - len(self._free)

    def take(self) -> int:
        """Return the number of an unused record; the table doubles if there is no unused one."""
        if not self._free:
            for name in self.fields:
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.full(self.size, -1, np.int64)]))
            self._free = list(range(2 * self.size - 1, self.size - 1, -1))
            self.size *= 2
        return self._free.pop()

    def give_back(self, record: int) -> None:
        """Let `record` be used again; its fields become -1."""
        for name in self.fields:
            getattr(self, name)[record] = -1
        self._free.append(record)

    def in_use(self) -> np.ndarray:
        """Return the numbers of the records in use, ascending."""
        used = np.ones(self.size, np.bool_)
        used[self._free] = False
        found: np.ndarray = np.flatnonzero(used)
        return found

    def get_state(self) -> State:
        """Return all fields, and the unused records."""
        fields = {name: getattr(self, name)[: self.size].copy() for name in self.fields}
        return {**fields, "free": np.array(self._free, np.int64)}

    def set_state(self, state: State) -> None:
        """Continue from what `get_state` returned."""
        for name in self.fields:
            setattr(self, name, np.append(np.array(state[name], np.int64), -1))
        self.size = len(state[self.fields[0]])
        self._free = np.asarray(state["free"]).tolist()


@final
class Runs(Records):
    """Runs: neighbouring rows of one episode, from `start` to just before `stop`; the first row is at time step `t`.

    `prev` and `next` are the runs before and after it in time, -1 if there is no such run.
    """

    fields = ("start", "stop", "prev", "next", "t", "episode")
    __slots__ = fields
    start: np.ndarray
    stop: np.ndarray
    prev: np.ndarray
    next: np.ndarray
    t: np.ndarray
    episode: np.ndarray


@final
class StoredEpisodes(Records):
    """Parts of episodes: the observations from `t_kept` to `t_stop` are stored, in the runs from `first` to `last`.

    `extent` is where a growing episode goes on to write; -1 if the episode does not grow. Before the time step `limit`, the
    observation after step t goes to the row t + `shift`, where the last run of the episode grows. A `limit` of -1 says that
    there is no last run, or that the extent does not continue it.

    `ids` has the id of the episode, with its agent, that each part belongs to; `parts` has the parts by that id.
    """

    fields = ("t_kept", "t_stop", "first", "last", "extent", "limit", "shift", "number")
    __slots__ = ("ids", "parts", *fields)
    t_kept: np.ndarray
    t_stop: np.ndarray
    first: np.ndarray
    last: np.ndarray
    extent: np.ndarray
    limit: np.ndarray
    shift: np.ndarray
    number: np.ndarray

    def __init__(self) -> None:
        super().__init__()
        self.ids: dict[int, Hashable] = {}
        self.parts: dict[Hashable, list[int]] = {}

    def name(self, episode: int, key: Hashable) -> None:
        """Let `episode` be a part of the episode `key`."""
        self.ids[episode] = key
        self.parts.setdefault(key, []).append(episode)

    def give_back(self, record: int) -> None:
        """Let `record` be used again; it is a part of no episode any more."""
        key = self.ids.pop(record)
        self.parts[key].remove(record)
        if not self.parts[key]:
            del self.parts[key]
        super().give_back(record)


@final
class Extents(Records):
    """Rows that are set aside for growing episodes: from `at` to just before `stop`, claimed when `born` rows had been."""

    fields = ("at", "stop", "born")
    __slots__ = fields
    at: np.ndarray
    stop: np.ndarray
    born: np.ndarray
