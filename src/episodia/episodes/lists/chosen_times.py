"""One time step for each agent episode, chosen among those that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from episodia.errors import EpisodeIndexError

#: From the time steps at which agent episodes start, and of their first and last known observations: int64 [B] each.
ChooseTimes: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def chosen_times(choose: ChooseTimes, started: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return what `choose` returns, one time step for each agent episode: int64 [B].

    Raises:
        EpisodeIndexError: If one of them is not known.

    >>> chosen_times(lambda started, first, last: last - 1, np.array([3, 0]), np.array([0, 0]), np.array([9, 4]))
    array([8, 3])
    """
    times = choose(started, first, last)
    is_unknown = (times < first) | (times > last)
    if np.count_nonzero(is_unknown):
        place = int(is_unknown.argmax())
        raise EpisodeIndexError(
            f"agent episode {place} of the list: found the time step {times[place]} asked for, expected one from "
            f"{first[place]} to {last[place]}, which are known. Choose another one."
        )
    return times
