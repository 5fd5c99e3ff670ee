"""Whether episodes have the steps before their rows."""

from __future__ import annotations

import numpy as np

from episodia.columns import Columns
from episodia.episodes import EpisodeList
from episodia.episodes.columns.filling import Fills


def steps_before(rows: EpisodeList, num: int, *, tail: bool) -> np.ndarray:
    """Return for each row which of the `num` steps before it its episode has, the latest last: bool [N, num].

    >>> from episodia import SingleAgentEpisode
    >>> walk = SingleAgentEpisode(observations=[7, 8, 9], actions=[0, 0], rewards=[0.0, 1.0], len_lookback_buffer=0)
    >>> steps_before(EpisodeList([walk]), 2, tail=True).tolist()
    [[False, False], [False, True], [True, True]]
    """
    shifts = range(-num, 0)
    # A reward that is there is the same with both fills.
    fills = Fills((0,) * num + (1,) * num)
    rewards = rows.windows(Columns.REWARDS, shifts=[*shifts, *shifts], fill=fills, tail=tail).values
    is_there: np.ndarray = (rewards[:, :num] != 0) | (rewards[:, num:] != 1)
    return is_there
