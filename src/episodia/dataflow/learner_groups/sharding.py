"""The shards of a list of episodes, one for each rank: whole ones, in order, and about equally many steps for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from episodia.episodes import EpisodeList


def steps_of_items(episodes: EpisodeList[Any]) -> np.ndarray:
    """Return how many steps each episode of a list has, those of agents in multi-agent episodes."""
    if not episodes.is_multi_agent:
        return episodes.lengths
    return np.array([sum(map(len, episode.agent_episodes.values())) for episode in episodes], np.int64)


def balanced_ranges(lengths: Sequence[int] | np.ndarray, num_ranges: int) -> list[tuple[int, int]]:
    """Return consecutive ranges of positions, so that the largest sum of lengths in a range is as small as possible.

    >>> balanced_ranges([5, 1, 1, 1, 2], 2)
    [(0, 1), (1, 5)]
    >>> balanced_ranges([7], 3)
    [(0, 1), (1, 1), (1, 1)]
    """
    ends = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))])
    low, high = int(np.max(lengths, initial=0)), int(ends[-1])
    while low < high:
        most = (low + high) // 2
        if _cuts(ends, most, num_ranges)[-1] == len(lengths):
            high = most
        else:
            low = most + 1
    cuts = _cuts(ends, low, num_ranges)
    return list(pairwise(cuts))


def _cuts(ends: np.ndarray, most: int, num_ranges: int) -> list[int]:
    """Return where ranges end that take as much as they can, at most `most`."""
    cuts = [0]
    for _ in range(num_ranges):
        cuts.append(int(np.searchsorted(ends, ends[cuts[-1]] + most, side="right")) - 1)
    return cuts
