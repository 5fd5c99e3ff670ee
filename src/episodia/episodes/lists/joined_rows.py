"""The rows of several lists as those of one: what several runners have played is learned from without making episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any, final

import numpy as np
from gymnasium import Space

from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.list_columns import concatenated
from episodia.episodes.lists.ragged import offsets_of
from episodia.episodes.lists.unmade_list import UnmadeList
from episodia.episodes.lists.unmade_rows import StoredColumn, UnmadeRows
from episodia.episodes.single_agent.weights_versions import Versions
from episodia.trees import map_batch
from episodia.types import State


def joined_lists(lists: Iterable[EpisodeList[Any]]) -> EpisodeList[Any]:
    """Return one list of the episodes of several lists; none is made as long as no list has made its own.

    >>> joined_lists([EpisodeList([]), EpisodeList([])])
    EpisodeList(no episodes)
    """
    filled = [listed for listed in lists if len(listed)]
    if len(filled) == 1:
        return filled[0]
    found = [listed.untouched_rows() for listed in filled if isinstance(listed, UnmadeList)]
    parts = [rows for rows in found if rows is not None]
    if not parts or len(parts) < len(filled) or len({rows.is_multi_agent for rows in parts}) > 1:
        return EpisodeList([episode for listed in filled for episode in listed])
    return UnmadeList(JoinedRows(parts, filled))


@final
class JoinedRows(UnmadeRows):
    """The rows of several parts, one after another.

    Args:
        parts: The rows.
        lists: The lists that make their episodes; none of rows that were selected.
    """

    def __init__(self, parts: Sequence[UnmadeRows], lists: Sequence[EpisodeList[Any]] = ()) -> None:
        self._parts = parts
        self._lists = lists
        self.is_multi_agent = parts[0].is_multi_agent
        self.lengths = np.concatenate([part.lengths for part in parts])
        # Where the agent episodes of each part begin.
        self._begins = offsets_of([len(part.lengths) for part in parts])

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def is_untouched(self) -> bool:
        """Whether no list has made its episodes."""
        return all(listed.untouched_rows() is not None for listed in self._lists if isinstance(listed, UnmadeList))

    def make(self) -> list[Any]:
        """Make the episodes."""
        return list(chain.from_iterable(self._lists))

    def packed(self) -> State | None:
        """Return None: each part has a table of its own."""
        return None

    def selected(self, positions: np.ndarray) -> JoinedRows:
        """Return the rows of some of the agent episodes, which are in order."""
        bounds = np.searchsorted(positions, self._begins)
        own = [positions[start:stop] for start, stop in pairwise(bounds)]
        found = zip(self._parts, own, self._begins[:-1], strict=True)
        return JoinedRows([part.selected(places - begin) for part, places, begin in found if len(places)])

    # --- Fields -----------------------------------------------------------------------------------------------------

    @cached_property
    def modules(self) -> dict[Any, np.ndarray]:  # type: ignore[override]  # it is only read
        """The positions of those that each module acts for."""
        found: dict[Any, list[np.ndarray]] = {}
        for part, begin in zip(self._parts, self._begins[:-1], strict=True):
            for module_id, positions in part.modules.items():
                found.setdefault(module_id, []).append(positions + begin)
        return {module_id: np.concatenate(positions) for module_id, positions in found.items()}

    @cached_property
    def extras(self) -> list[str]:  # type: ignore[override]  # it is only read
        """The names of the extra model outputs, those of all together."""
        return list(dict.fromkeys(name for part in self._parts for name in part.extras))

    @property
    def t_started(self) -> np.ndarray:
        """The time step of the first step of each: int64 [B]."""
        return np.concatenate([part.t_started for part in self._parts])

    @property
    def is_terminated(self) -> np.ndarray:
        """True for each episode that is terminated: bool [B]."""
        return np.concatenate([part.is_terminated for part in self._parts])

    @property
    def is_truncated(self) -> np.ndarray:
        """True for each episode that is truncated: bool [B]."""
        return np.concatenate([part.is_truncated for part in self._parts])

    @property
    def lookbacks(self) -> np.ndarray:
        """The number of earlier steps that each episode keeps: int64 [B]."""
        return np.concatenate([part.lookbacks for part in self._parts])

    @property
    def origins(self) -> list[Any]:
        """The id of each episode, in a tuple with the agent if there is one."""
        return [origin for part in self._parts for origin in part.origins]

    @property
    def weights_versions(self) -> list[Versions]:
        """The versions of the weights that acted in each."""
        return [versions for part in self._parts for versions in part.weights_versions]

    def has_extra(self, name: str) -> bool:
        """Tell whether each has the extra model output `name`."""
        return all(part.has_extra(name) for part in self._parts)

    def has_in_observations(self, key: str) -> bool | None:
        """Tell whether observations are dicts with `key`; the first part with a step decides."""
        return next((part.has_in_observations(key) for part in self._parts if part.lengths.any()), None)

    def space_of(self, column: str) -> Space[Any] | None:
        """Return the space of the observations or the actions of the first one."""
        return self._parts[0].space_of(column)

    # --- Columns ----------------------------------------------------------------------------------------------------

    def stored(self, column: str) -> StoredColumn | None:
        """Return where `column` is: the rows of a part are counted on from the last one of the part before."""
        found = [own for part in self._parts if (own := part.stored(column)) is not None]
        if len(found) < len(self._parts):
            return None
        ends = [(own.zeros + part.lengths).max() + own.is_track for own, part in zip(found, self._parts, strict=True)]
        begins = offsets_of(ends)
        zeros = [own.zeros + begin for own, begin in zip(found, begins[:-1], strict=True)]
        take = partial(_taken, [own.take for own in found], begins)
        lookbacks = np.concatenate([own.lookbacks for own in found])
        return StoredColumn(take, np.concatenate(zeros), lookbacks, found[0].is_track)

    def extent(self, extra: int) -> tuple[np.ndarray, list[int]]:
        """Return where the rows of each begin when they lie one after another, and how many each has."""
        counts = self.lengths + extra
        return offsets_of(counts), counts.tolist()

    def flat(self, column: str, extra: int) -> Any:
        """Return the steps of all, with `extra` rows after the last one of each."""
        found = [part.flat(column, extra) for part in self._parts]
        return None if any(own is None for own in found) else concatenated(found)


def _taken(takes: Sequence[Callable[[np.ndarray], Any]], begins: np.ndarray, rows: np.ndarray) -> Any:
    """Return the batch of some rows of all parts. The row before the first one is the last one, as in one array."""
    rows = rows % begins[-1]
    part_of = np.searchsorted(begins, rows, side="right") - 1
    order = np.argsort(part_of, kind="stable")
    bounds = np.searchsorted(part_of[order], np.arange(len(takes) + 1))
    batch = concatenated(
        [
            take(rows[order[start:stop]] - begin)
            for take, begin, start, stop in zip(takes, begins[:-1], bounds[:-1], bounds[1:], strict=True)
            if stop > start
        ]
    )
    places = np.argsort(order)
    return map_batch(lambda leaf: leaf[places], batch)
