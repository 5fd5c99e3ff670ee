"""Columns that note when they are written, and written columns that note when they are read.

Code that works on copies of episodes finds writes here that were never read, and so have no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from episodia.episodes.columns.lookback_buffer import WRITTEN, LookbackBuffer
from episodia.episodes.columns.storage import Storage


@contextmanager
def noted_writes() -> Iterator[list[LookbackBuffer]]:
    """Yield a list to which each column is added that is written while the context is open.

    >>> column = LookbackBuffer([1, 2])
    >>> with noted_writes() as written:
    ...     column[0] = 5
    >>> written[0] is column
    True
    """
    written: list[LookbackBuffer] = []
    token = WRITTEN.set(written)
    try:
        yield written
    finally:
        WRITTEN.reset(token)


class UnreadColumn(LookbackBuffer):
    """A column whose items were not read since `mark_unread`: whatever reads or writes it makes it an ordinary column.

    All items are in `storage`, so that is where a reader is noticed; counting them is not reading.
    """

    __slots__ = ()

    @property
    def storage(self) -> Storage:
        """The storage; the column is an ordinary one from then on."""
        return _ordinary(self).storage

    @storage.setter
    def storage(self, storage: Storage) -> None:
        _ordinary(self).storage = storage

    def __len__(self) -> int:
        return self.len_incl_lookback() - self.lookback

    def len_incl_lookback(self) -> int:
        """Return the number of items, the lookback included."""
        return len(_STORAGE.__get__(self))


# The slot, which the property hides.
_STORAGE: Any = vars(LookbackBuffer)["storage"]


def _ordinary(column: Any) -> LookbackBuffer:
    column.__class__ = LookbackBuffer
    return column  # type: ignore[no-any-return]  # it just became one


def mark_unread(column: LookbackBuffer) -> None:
    """Let `column` be unread, see `is_unread`."""
    column.__class__ = UnreadColumn


def is_unread(column: LookbackBuffer) -> bool:
    """Return whether `column` was marked by `mark_unread`, and no item of it was read or written since.

    >>> column = LookbackBuffer([1, 2])
    >>> mark_unread(column)
    >>> len(column), is_unread(column), column[0], is_unread(column)
    (2, True, 1, False)
    """
    return type(column) is UnreadColumn
