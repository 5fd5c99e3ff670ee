"""The rows of a list that has arrived as a table: columns are read from it, and episodes are made when one is read."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.columns import Columns
from episodia.episodes.lists import list_state
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.list_columns import STORED
from episodia.episodes.lists.ragged import offsets_of, positions_by_module, rows_of_ranges
from episodia.episodes.lists.unmade_list import UnmadeList
from episodia.episodes.lists.unmade_rows import StoredColumn, UnmadeRows
from episodia.episodes.single_agent.weights_versions import Versions
from episodia.space_codec import decode_space
from episodia.trees import frozen, leaves, map_batch
from episodia.types import State

# The names of columns in a table.
_NAMES = {Columns.OBS: "observations", Columns.ACTIONS: "actions", Columns.REWARDS: "rewards"}
_SPACES = {Columns.OBS: "_observation_space", Columns.ACTIONS: "_action_space"}
_TRACKS = frozenset({Columns.OBS, Columns.INFOS})


def packed_list(packed: State) -> EpisodeList[Any]:
    """Return the list that `list_state.pack` has packed; its episodes are made when one is read."""
    entries = packed["episodes"]
    if not packed["rows"]["count"] or not all(isinstance(entry, dict) for entry in entries or ()):
        # Episodes without rows, or of a subclass, which may be more than its rows.
        return EpisodeList(list_state.unpack(packed))
    return UnmadeList(PackedRows(packed, _agents_of(packed)))


def _agents_of(packed: State) -> np.ndarray:
    """Return which rows of the table are agents: those of one that has left are kept beside them."""
    if packed["episodes"] is None:
        return np.arange(packed["rows"]["count"])
    records = (record for entry in packed["episodes"] for record in entry["records"])
    return np.array([record["episode"] for record in records if record["episode"] is not None], np.int64)


@final
class PackedRows(UnmadeRows):
    """Some of the rows of a table.

    Args:
        packed: What `list_state.pack` has returned.
        positions: Which of its rows: int64 [B].
    """

    def __init__(self, packed: State, positions: np.ndarray) -> None:
        self._packed = packed
        self._table: State = packed["rows"]
        self._positions = positions
        self.is_multi_agent = packed["episodes"] is not None
        self.lengths = frozen(self._numbers("t") - self.t_started)
        self._extents: dict[int, tuple[np.ndarray, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._packed["episodes"]) if self.is_multi_agent else len(self._positions)

    def make(self) -> list[Any]:
        """Make the episodes."""
        return list_state.unpack(self._packed)

    def packed(self) -> State | None:
        """Return the table that has arrived; None of a part of it."""
        is_whole = self.is_multi_agent or len(self._positions) == self._table["count"]
        return self._packed if is_whole else None

    def selected(self, positions: np.ndarray) -> PackedRows:
        """Return the rows of some of the agent episodes."""
        rows = PackedRows(self._packed, self._positions[positions])
        rows.is_multi_agent = False
        return rows

    # --- Fields -----------------------------------------------------------------------------------------------------

    def _field(self, name: str) -> list[Any]:
        values = list_state.field_of(self._table, name)
        return [values[position] for position in self._positions.tolist()]

    def _numbers(self, name: str, dtype: type = np.int64) -> np.ndarray:
        values: np.ndarray = np.array(list_state.field_of(self._table, name), dtype)
        own: np.ndarray = values[self._positions]
        return own

    @cached_property
    def modules(self) -> dict[Any, np.ndarray]:  # type: ignore[override]  # it is only read
        """The positions of the episodes that each module acts for."""
        return positions_by_module(self._field("module_id"))

    @cached_property
    def extras(self) -> list[str]:  # type: ignore[override]  # it is only read
        """The names of the extra model outputs, those of all episodes together."""
        distinct = dict.fromkeys(map(tuple, list_state.orders_of(self._table, self._positions.tolist())))
        return list(dict.fromkeys(name for names in distinct for name in names))

    @property
    def t_started(self) -> np.ndarray:
        """The time step of the first step of each episode: int64 [B]."""
        return self._numbers("t_started")

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each episode that is terminated: bool [B]."""
        return self._numbers("is_terminated", np.bool_)

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each episode that is truncated: bool [B]."""
        return self._numbers("is_truncated", np.bool_)

    @property
    def lookbacks(self) -> np.ndarray:
        """The number of earlier steps that each episode keeps: int64 [B]."""
        lookbacks: np.ndarray = np.empty(self._table["count"], np.int64)
        for group in self._table["columns"]["rewards"]:
            lookbacks[slice(None) if group["rows"] is None else group["rows"]] = group["lookbacks"]
        own: np.ndarray = lookbacks[self._positions]
        return own

    @property
    def origins(self) -> list[Any]:
        """The id of each episode, in a tuple with the agent if there is one."""
        fields = map(self._field, ("id_", "multi_agent_episode_id", "agent_id"))
        found = ((own if whole is None else whole, agent) for own, whole, agent in zip(*fields, strict=True))
        return [id_ if agent is None else (id_, agent) for id_, agent in found]

    @property
    def weights_versions(self) -> list[Versions]:
        """The versions of the weights that acted in each episode."""
        return [tuple((start, version) for start, version in history) for history in self._field("weights_versions")]

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of observations or actions of the first episode."""
        if column not in _SPACES or not len(self._positions):
            return None
        return decode_space(self._field(_SPACES[column])[0])

    # --- Columns ----------------------------------------------------------------------------------------------------

    def has_extra(self, name: str) -> bool:
        """Tell whether all episodes have the extra model output `name`."""
        orders = list_state.orders_of(self._table, self._positions.tolist())
        return all(name in names for names in orders)

    def has_in_observations(self, key: str) -> bool | None:
        """Tell whether observations are dicts with `key`; None if only episodes can tell."""
        found = self._group(Columns.OBS)
        if found is None:
            return None
        values = found[0]["values"]
        return bool(self.lengths.any()) and isinstance(values, dict) and key in values

    def _group(self, column: str) -> tuple[State, np.ndarray] | None:
        """Return the part of the table that has a column of all our episodes as arrays, and our places in it."""
        if column in STORED:
            within, groups = None, self._table["columns"][_NAMES[column]] if column in _NAMES else []
        else:
            within, groups = self._table["extras"].get(column, (None, []))
        places = _places_in(within, self._positions, self._table["count"])
        if places is not None:
            for group in groups:
                own = _places_in(group["rows"], places, self._table["count"])
                if own is not None and "values" in group:
                    return group, own
        return None

    def stored(self, column: str) -> StoredColumn | None:
        """Return where `column` is in the table."""
        found = self._group(column)
        if found is None:
            return None
        group, places = found
        lookbacks = group["lookbacks"].astype(np.int64)[places]
        counts = group["counts"].astype(np.int64)
        is_track = column in _TRACKS
        if not counts.all() or not (counts[places] == self.lengths + lookbacks + is_track).all():
            return None
        zeros = offsets_of(counts)[:-1][places] + lookbacks
        values = group["values"]

        def take(rows: np.ndarray) -> Any:
            return map_batch(lambda leaf: leaf.take(rows, 0), values)

        return StoredColumn(take, zeros, lookbacks, is_track)

    def extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the rows of each episode begin when they lie one after another, and how many it has."""
        if extra not in self._extents:
            counts = self.lengths + extra
            self._extents[extra] = frozen(offsets_of(counts)), counts.tolist()
        return self._extents[extra]

    def flat(self, column: str, extra: int) -> Any:
        """Return the steps of all episodes, with `extra` rows after the last one of each."""
        group, found = self._group(column), self.stored(column)
        if group is None or found is None or extra > found.is_track:
            return None
        rows = rows_of_ranges(found.zeros, self.lengths + extra)
        values = group[0]["values"]
        count = len(next(leaves(values))[1])
        if len(rows) == count and (rows == np.arange(count)).all():
            return map_batch(lambda leaf: frozen(leaf[...]), values)
        return found.take(rows)


def _places_in(rows: np.ndarray | None, positions: np.ndarray, count: int) -> np.ndarray | None:
    """Return where each of `positions` is in `rows`, which are everything if there are none; None if one is not there."""
    if rows is None:
        return positions
    where = np.full(count, -1)
    where[rows] = np.arange(len(rows))
    places: np.ndarray = where[positions]
    return None if (places < 0).any() else places
