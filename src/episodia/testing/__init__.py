"""For test suites: named spaces and episodes, strategies that draw them, comparisons that say what differs.

It needs hypothesis, which `pip install "episodia[test]"` brings. Nothing else in the package imports it.
"""

from episodia.testing.catalogue import EPISODES, SPACES
from episodia.testing.comparing import assert_same_episode, assert_same_items
from episodia.testing.strategies import (
    OPTIONAL_FIELDS,
    chunked_episodes,
    cut_points,
    episodes,
    indices,
    items,
    slices,
    spaces,
    trajectories,
)
from episodia.testing.trajectory import Trajectory

__all__ = [
    "EPISODES",
    "OPTIONAL_FIELDS",
    "SPACES",
    "Trajectory",
    "assert_same_episode",
    "assert_same_items",
    "chunked_episodes",
    "cut_points",
    "episodes",
    "indices",
    "items",
    "slices",
    "spaces",
    "trajectories",
]
