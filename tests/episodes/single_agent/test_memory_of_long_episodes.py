"""A9: how much memory a long episode takes beside its arrays."""

import tracemalloc

import numpy as np

from episodia import SingleAgentEpisode
from episodia.episodes.columns.storage import NO_INFO

NUM_STEPS = 20_000


def long_episode(num_steps=NUM_STEPS):
    episode = SingleAgentEpisode()
    observation = np.zeros(4, np.float32)
    episode.add_env_reset(observation)
    for _ in range(num_steps):
        episode.add_env_step(observation, 0, 1.0)
    return episode


def bytes_of_arrays(episode):
    getters = episode.get_observations, episode.get_actions, episode.get_rewards
    return sum(get().nbytes for get in getters)


def test_a9_infos_that_are_empty_cost_a_finalized_episode_little():
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        episode = long_episode()
        growing = tracemalloc.get_traced_memory()[0] - before
        episode.finalize()
        finalized = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    # A step has 32 bytes in arrays, and 8 for its info. While it grows, each observation is an array of its own.
    assert finalized < 1.35 * bytes_of_arrays(episode)
    assert growing < 5.5 * bytes_of_arrays(episode)


def test_empty_infos_that_a_caller_changes_stay_empty_in_the_episode():
    episode = long_episode(5)
    for read in (
        episode.get_infos,
        lambda: [episode.get_infos(2)],
        episode[1:3].get_infos,
        lambda: episode.get_state()["infos"]["data"],
        lambda: SingleAgentEpisode.from_state(episode.get_state()).get_infos(),
        lambda: episode.cut(2).get_infos(),
    ):
        for info in read():
            info["mine"] = 1

    assert NO_INFO == {}
    assert episode.get_infos() == [{}] * 6
