"""Episodes whose content follows from their number, and what a store of them has to return."""

import warnings

import numpy as np

from episodia import SingleAgentEpisode
from episodia.episodes import EpisodeStore
from episodia.errors import StoreError
from episodia.testing import assert_same_episode


def numbered(number):
    """Return the episode of this number: 1 to 5 steps, with an image, an extra output and infos."""
    steps = 1 + number % 5
    return SingleAgentEpisode(
        f"walk-{number}",
        observations={
            "camera": np.full((steps + 1, 2, 3), number % 256, np.uint8),
            "speed": number + np.arange(steps + 1) / 8,
        },
        actions=np.arange(steps) + number,
        rewards=np.arange(steps) / 4 - number,
        infos=[{"number": number, "note": "début"}] * (steps + 1),
        terminated=number % 2 == 0,
        extra_model_outputs={"logits": np.full((steps, 4), number, np.float32)},
        len_lookback_buffer=number % 2,
    )


def read_all(path):
    """Return the episodes that can be read, by position, and whether something was noticed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, noticed = {}, False
        try:
            episodes = EpisodeStore(path).episodes()
        except StoreError:
            return {}, True
        for position in range(len(episodes)):
            try:
                found[position] = episodes[position]
            except StoreError:
                noticed = True
    return found, noticed or bool(caught)


def check_noticed_or_same(path, count):
    """Check that `count` numbered episodes are there, or that something was noticed, and the rest is right; return which."""
    found, noticed = read_all(path)

    assert noticed or len(found) == count
    for position, episode in found.items():
        assert_same_episode(episode, numbered(position), ignore=("times",))
    return noticed
