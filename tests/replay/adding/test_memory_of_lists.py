"""A buffer keeps copies of what is added, not the lists of episodes themselves."""

import gc
import pickle
import weakref

from episodia import EpisodeList, SingleAgentEpisode
from episodia.replay import ReplayBuffer


def test_a_list_that_was_added_is_not_kept_in_memory():
    walk = SingleAgentEpisode(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0], len_lookback_buffer=0)
    arrived = pickle.loads(pickle.dumps(EpisodeList([walk.finalize()])))
    is_there = weakref.ref(arrived)
    buffer = ReplayBuffer(1000)
    buffer.add(arrived)
    del arrived
    gc.collect()

    assert len(buffer) == 2
    assert is_there() is None
