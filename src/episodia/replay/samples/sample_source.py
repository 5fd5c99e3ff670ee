"""The source of samples: a table of the buffer, or a copy of some of its rows."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from episodia.episodes.lists import gather
from episodia.episodes.lists.chosen_times import ChooseTimes, chosen_times
from episodia.errors import StaleSampleError
from episodia.replay.rows.keys import keys_of
from episodia.replay.rows.row_columns import RowColumns
from episodia.replay.rows.row_index import RowIndex, RowPlaces, are_kinds_of_steps
from episodia.replay.rows.row_storage import InMemory
from episodia.replay.table import Table
from episodia.trees import map_batch
from episodia.types import Item


@final
class SampleSource:
    """The source of a sample: a table, or their own copy of its rows.

    Attributes:
        module_id: The module whose rows these are.
        columns: The columns.
        spaces: The spaces of observations and actions, by column.
    """

    __slots__ = ("_claims", "_mark", "_table", "columns", "module_id", "spaces")

    def __init__(self, table: Table, columns: RowColumns | None = None) -> None:
        """Read from `table`, or from copied `columns`."""
        self.module_id = table.module_id
        self.spaces = table.spaces
        self.columns = table.columns if columns is None else columns
        self._table = table if columns is None else None
        self._claims = table.writer.ring
        self._mark = self._claims.claimed

    def take(self, name: str, rows: np.ndarray) -> Any:
        """Return the values of a column at `rows`.

        Raises:
            StaleSampleError: If one of the rows was overwritten since the sample was drawn.
        """
        table = self._table
        if table is None:
            return self.columns.take(name, rows)
        with table.lock:
            if self._claims.claimed != self._mark:
                self.check(rows)
            column = self.columns.arrays[name]
            return column.take(rows, 0) if type(column) is np.ndarray else self.columns.take(name, rows)

    def items_at(self, name: str, rows: np.ndarray, outside: np.ndarray | None, fill: Item) -> Any:
        """Return the values of a column at `rows`, `[N, K]`, and `fill` where they are `outside`.

        Raises:
            StaleSampleError: If one of the rows was overwritten since the sample was drawn.
        """
        if self._table is None:
            return gather.items_at(self.columns[name], rows, outside, fill)
        with self._table.lock:
            self.check(rows if outside is None else rows[~outside])
            return gather.items_at(self.columns[name], rows, outside, fill)

    @property
    def is_open(self) -> bool:
        """Whether more can be read than what was sampled."""
        return self._table is not None

    def known_times(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the time steps of the first and the last observation that are stored of the episode of each of `steps`.

        Raises:
            StaleSampleError: If one of the steps is not stored any more.
        """
        table = self._open_table()
        with table.lock:
            self._check_steps(table, steps)
            return _known_times(table.writer.index, table.writer.index.places(steps))

    def items_at_times(
        self, name: str, steps: np.ndarray, started: np.ndarray | None, choose: ChooseTimes, key: str | None
    ) -> Any:
        """Return the value of a column, or of a `key` of it, at a stored time step of the episode of each row of `steps`.

        Args:
            name: The column.
            steps: The rows.
            started: The time step at which each stretch starts; None if it is that of `steps`.
            choose: Returns a time step for each of `steps`, see `EpisodeList.items_at`; the buffer does not change meanwhile.
            key: The only key of interest, if values are dicts.

        Raises:
            StaleSampleError: If one of the steps is not stored any more.
            EpisodeIndexError: If a time step is not stored.
        """
        table = self._open_table()
        with table.lock:
            self._check_steps(table, steps)
            index = table.writer.index
            places = index.places(steps)
            times = chosen_times(choose, places.times if started is None else started, *_known_times(index, places))
            rows = index.walk(steps, places.runs, (times - places.times)[:, None])[:, 0]
            if key is None:
                return self.columns.take(name, rows)
            return map_batch(lambda leaf: leaf.take(rows, 0), self.columns[name][key])

    def places(self, steps: np.ndarray) -> RowPlaces:
        """Return the run, the episode and the time step of each row of `steps`.

        Raises:
            StaleSampleError: If one of the steps is not stored any more.
        """
        table = self._open_table()
        with table.lock:
            self._check_steps(table, steps)
            return table.writer.index.places(steps)

    def origins(self, places: RowPlaces, steps: np.ndarray) -> list[Any]:
        """Return the origin of the episode of each row of `steps`.

        Raises:
            StaleSampleError: If one of the steps is not stored any more.
        """
        table = self._open_table()
        with table.lock:
            self._check_steps(table, steps)
            ids = table.writer.index.episodes.ids
            return [ids[episode] for episode in places.episodes.tolist()]

    def _check_steps(self, table: Table, steps: np.ndarray) -> None:
        self.check(steps)
        if not are_kinds_of_steps(table.writer.index.kind.take(steps)):
            raise self._stale()

    def _open_table(self) -> Table:
        if self._table is None:
            raise self._stale()
        return self._table

    def keys(self, rows: np.ndarray) -> np.ndarray:
        """Return the keys that rows of the buffer had when the sample was drawn."""
        return keys_of(rows, self._claims, self._mark)

    def check(self, rows: np.ndarray) -> None:
        """Reject rows that were overwritten since the sample was drawn.

        Raises:
            StaleSampleError: If there is such a row.
        """
        if self._table is not None and self._table.writer.ring.claimed_since(self._mark, rows):
            raise self._stale()

    def copied(self, rows: np.ndarray) -> SampleSource:
        """Return a source with copies of `rows` alone, which are never overwritten."""
        table = self._table
        if table is None:
            return self
        with table.lock:
            self.check(rows)
            return SampleSource(table, self.columns.part(rows, InMemory()))

    @staticmethod
    def _stale() -> StaleSampleError:
        return StaleSampleError(
            "found rows of a sample that were overwritten, or evicted, after it was drawn. Expected that they are read before. "
            "Read a sample before more episodes are added, call `sampled.load()` at once, or make the buffer larger."
        )


def _known_times(index: RowIndex, places: RowPlaces) -> tuple[np.ndarray, np.ndarray]:
    """Return the time steps of the first and the last observation that are stored of each episode."""
    return index.episodes.t_kept.take(places.episodes), index.episodes.t_stop.take(places.episodes)
