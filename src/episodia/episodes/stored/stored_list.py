"""The list of the episodes in a store: an episode is read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from episodia.display.notebook_html import block
from episodia.episodes.columns.indexing import with_int_bounds
from episodia.episodes.display.episode_tables import episodes_html
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.list_columns import position_in
from episodia.episodes.stored.stored_episodes import episode_at
from episodia.store import RowStore

_MOST_SHOWN = 100


@final
class StoredList(EpisodeList[Any]):
    """Episodes of a store, whose arrays are the mapped files.

    An episode that was read is kept, because it may have been changed. To read a large store with little memory, read it in
    slices: a slice keeps its own episodes.
    """

    __slots__ = ("_made", "_positions", "_store")

    def __init__(self, store: RowStore, positions: Sequence[int], *, is_multi_agent: bool) -> None:
        """List the episodes at `positions`, without reading them."""
        self._store = store
        self._positions = positions
        self._made: dict[int, Any] = {}
        self._begin([], is_multi_agent=is_multi_agent)

    @property
    def _episodes(self) -> list[Any]:
        return [self._read(position) for position in self._positions]

    @_episodes.setter
    def _episodes(self, episodes: list[Any]) -> None:
        """Ignore what the base lists: episodes are read from the store."""

    def _relist(self, episodes: list[Any]) -> None:
        self._positions, self._made = range(len(episodes)), dict(enumerate(episodes))

    def _read(self, position: int) -> Any:
        if position not in self._made:
            self._made[position] = episode_at(self._store, position)
        return self._made[position]

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return self._read(self._positions[position_in(len(self), index)])
        positions = self._positions[with_int_bounds(index, f"list of {len(self)} episodes")]
        part = StoredList(self._store, positions, is_multi_agent=self.is_multi_agent)
        part._made = {position: self._made[position] for position in positions if position in self._made}
        return part

    def __iter__(self) -> Iterator[Any]:
        return map(self._read, self._positions)

    def __repr__(self) -> str:
        kind = "multi-agent " if self.is_multi_agent else ""
        return f"StoredList({len(self)} {kind}episodes of {str(self._store.directory)!r})"

    def _repr_html_(self) -> str:
        shown = f"The first {_MOST_SHOWN}: " if len(self) > _MOST_SHOWN else ""
        table = episodes_html(list(self[:_MOST_SHOWN]), is_multi_agent=self.is_multi_agent)
        return block(repr(self), shown, table)
