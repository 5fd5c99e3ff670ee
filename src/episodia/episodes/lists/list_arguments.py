"""What may be asked of the columns of many episodes: the name of a column, flags, shifts."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from episodia.episodes.columns.indexing import as_flag, as_int, as_list
from episodia.errors import EpisodeError, EpisodeIndexError, EpisodeKeyError, IndexTypeError
from episodia.trees import describe

_FARTHEST = 2**31


def check_name(column: Any) -> None:
    """Refuse what can be the name of no column.

    Raises:
        EpisodeKeyError: If it cannot be looked up.
    """
    if type(column) is str:
        return
    # A tuple is hashable only if all its entries are.
    if not isinstance(column, Hashable) or isinstance(column, (tuple, frozenset)):
        raise EpisodeKeyError(
            f"found {describe(column)} as the name of a column, expected a string. Pass one of `Columns`, or the name of an "
            "extra model output."
        )


def position_in(count: int, index: Any) -> int:
    """Return the position of the episode at `index` in a list of `count`.

    Raises:
        EpisodeIndexError: If there is none.
    """
    try:
        return range(count)[index]  # type: ignore[no-any-return]  # no slice
    except IndexError:
        raise EpisodeIndexError(
            f"found the index {index}, expected one within the {count} episodes of this list."
        ) from None
    except TypeError:
        raise IndexTypeError(f"found the index {describe(index)}, expected an int or a slice.") from None


def check_asked(column: Any, tail: Any) -> None:
    """Refuse a name or a flag that is none.

    Raises:
        EpisodeKeyError: If `column` is no name.
        EpisodeError: If `tail` is no flag.
    """
    check_name(column)
    if tail is not False and tail is not True:
        as_flag(tail, "tail")


def check_windows(column: Any, shifts: Any, tail: Any, every: Any) -> None:
    """Refuse what describes no windows.

    Raises:
        EpisodeKeyError: If `column` is no name.
        EpisodeError: If `tail` is no flag, or `every` is no number of steps.
        IndexTypeError: If `shifts` is no list of integers.
    """
    check_asked(column, tail)
    if type(every) is not int or not 1 <= every < _FARTHEST:
        _check_every(every)
    if type(shifts) is not range:
        _check_shifts(shifts)


def _check_every(every: Any) -> None:
    is_whole = isinstance(every, (int, np.integer)) and not isinstance(every, bool)
    if not is_whole or not 1 <= every < _FARTHEST:
        raise EpisodeError(f"found `every={describe(every)}`, expected a number of steps from 1 up. Pass an int.")


def _check_shifts(shifts: Any) -> None:
    """Refuse shifts that are no integers, or so far away that no episode is so long."""
    try:
        given: Any = shifts if type(shifts) is list else as_list(shifts)
        far = [shift for shift in given if not -_FARTHEST < as_int(shift) < _FARTHEST]
    except IndexTypeError as error:
        raise IndexTypeError(
            f"found `shifts={describe(shifts)}`, expected a list of integers, such as [-1, 0]: how many steps from each row. "
            f"({error})"
        ) from None
    if far:
        raise EpisodeError(f"found the shift {far[0]}, expected one within the length of an episode.")
