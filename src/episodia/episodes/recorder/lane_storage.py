# ruff: noqa: D102  # What a storage method promises stands once, in the abstract class.
"""The column of an episode that is being recorded: a window on a lane, which sees new rows without being told."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, final

from episodia.episodes.columns.array_storage import ArrayStorage
from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.storage import ListStorage, Positions, Storage
from episodia.errors import EpisodeError


class RowSource(Protocol):
    """Where the rows of a column come from."""

    def count(self) -> int:
        """Return how many rows there are now."""

    def batch(self) -> Any:
        """Return all rows as read-only arrays."""

    def latest(self) -> Any:
        """Return the last row."""

    def on_detached(self) -> None:
        """Take note that the column has a copy of its own from now on."""


@final
class LaneStorage(Storage):
    """Rows of a recorder's block, read where they are.

    The first write gives the column a storage of its own (`detach`), in which anything fits that fits into the column of
    an episode that was built by hand; the recorder's rows stay as they were.
    """

    __slots__ = ("_buffer", "_rows", "_source")

    def __init__(self, source: RowSource) -> None:
        """Read from `source`; `bind` must follow."""
        self._source = source
        self._rows: ArrayStorage | None = None

    def bind(self, buffer: LookbackBuffer) -> LookbackBuffer:
        """Name the column whose storage this is, and return it."""
        self._buffer = buffer
        return buffer

    def detach(self) -> Storage:
        """Give the column a storage of its own, and return that."""
        own = self._own_copy(slice(0, len(self)))
        self._buffer.use(own)
        self._source.on_detached()
        return own

    def _own_copy(self, positions: slice) -> Storage:
        rows = self._current()
        if self._buffer.finalized:
            return rows.share(positions)
        # The rows themselves, not copies: no slot of a block is written twice.
        return ListStorage(rows.items(positions), nested=True)

    def _current(self) -> ArrayStorage:
        if self._rows is None or len(self._rows) != self._source.count():
            self._rows = ArrayStorage(self._source.batch(), owned=False)
        return self._rows

    def __len__(self) -> int:
        return self._source.count()

    def item(self, position: int) -> Any:
        if position == self._source.count() - 1:
            return self._source.latest()
        return self._current().item(position)

    def items(self, positions: Positions) -> list[Any]:
        return self._current().items(positions)

    def batch(self, positions: Positions) -> Any:
        return self._current().batch(positions)

    def lend(self, positions: slice) -> Any:
        return self._current().lend(positions)

    def share(self, positions: slice) -> Storage:
        return self._own_copy(positions)

    def put(self, position: int, item: Any) -> None:
        self.detach().put(position, item)

    def replace(self, positions: list[int], items: list[Any]) -> None:
        if positions:
            self.detach().replace(positions, items)

    def admit(self, item: Any) -> Any:
        self._refuse()

    def admit_all(self, items: Any) -> Any:
        self._refuse()

    def push(self, item: Any) -> None:
        self._refuse()

    def push_all(self, items: Any) -> None:
        self._refuse()

    def delete(self, position: int) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise EpisodeError(
            "found a change in the length of an episode that is being recorded, expected steps from its recorder only. "
            "Change a copy of it (`copy.copy(episode)`), or wait until it is handed out."
        )
