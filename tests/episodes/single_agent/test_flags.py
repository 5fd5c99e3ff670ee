"""A flag of a getter or setter is True or False; what only counts as one of them is rejected."""

import numpy as np
import pytest

from episodia import LookbackBuffer
from episodia.errors import EpisodeError
from refusals import running, same, snapshot

NO_FLAGS = {
    "a word": "no",
    "nothing": None,
    "an empty list": [],
    "a number": 2,
    "NaN": float("nan"),
    "flags": np.array([True, False]),
    "a flag in a list": [True],
}
FLAGS = {"True": True, "NumPy's True": np.True_, "1": 1, "an array without axes": np.array(True)}
INDICES = {"one": -1, "all": None, "a window": slice(-2, 1), "a list": [-1, 0]}

GETTERS = {
    "observations": lambda e, key, flag: e.get_observations(key, neg_index_as_lookback=flag),
    "infos": lambda e, key, flag: e.get_infos(key, neg_index_as_lookback=flag),
    "actions": lambda e, key, flag: e.get_actions(key, neg_index_as_lookback=flag),
    "one-hot actions": lambda e, key, flag: e.get_actions(key, one_hot_discrete=flag),
    "rewards": lambda e, key, flag: e.get_rewards(key, neg_index_as_lookback=flag),
    "extra outputs": lambda e, key, flag: e.get_extra_model_outputs("logp", key, neg_index_as_lookback=flag),
    "a buffer": lambda e, key, flag: e.rewards.get(key, neg_index_as_lookback=flag),
    "a one-hot buffer": lambda e, key, flag: e.actions.get(key, one_hot_discrete=flag),
}
SETTERS = {
    "observations": lambda e, flag: e.set_observations(
        new_data=e.get_observations(0), at_indices=0, neg_index_as_lookback=flag
    ),
    "actions": lambda e, flag: e.set_actions(new_data=[1, 1], at_indices=[0, 1], neg_index_as_lookback=flag),
    "rewards": lambda e, flag: e.set_rewards(new_data=[1.0], at_indices=slice(0, 1), neg_index_as_lookback=flag),
    "extra outputs": lambda e, flag: e.set_extra_model_outputs(
        key="logp", new_data=-1.0, at_indices=0, neg_index_as_lookback=flag
    ),
    "a buffer": lambda e, flag: e.rewards.set(0.5, at_indices=0, neg_index_as_lookback=flag),
}


@pytest.mark.parametrize("finalize", [False, True], ids=["growing", "finalized"])
@pytest.mark.parametrize("flag", NO_FLAGS.values(), ids=NO_FLAGS)
@pytest.mark.parametrize("read", GETTERS.values(), ids=GETTERS)
def test_a_getter_rejects_what_is_no_flag(read, flag, finalize):
    episode = running().finalize() if finalize else running()

    for key in INDICES.values():
        with pytest.raises(EpisodeError, match=r"(neg_index_as_lookback|one_hot_discrete)`: found .* expected True or"):
            read(episode, key, flag)


@pytest.mark.parametrize("finalize", [False, True], ids=["growing", "finalized"])
@pytest.mark.parametrize("flag", NO_FLAGS.values(), ids=NO_FLAGS)
@pytest.mark.parametrize("write", SETTERS.values(), ids=SETTERS)
def test_a_setter_rejects_what_is_no_flag_and_changes_nothing(write, flag, finalize):
    episode = running().finalize() if finalize else running()
    before = snapshot(episode)

    with pytest.raises(EpisodeError, match=r"neg_index_as_lookback`: found .* expected True or False"):
        write(episode, flag)

    assert same(snapshot(episode), before)


@pytest.mark.parametrize("flag", FLAGS.values(), ids=FLAGS)
@pytest.mark.parametrize("key", INDICES.values(), ids=INDICES)
def test_every_kind_of_true_means_the_same(key, flag):
    buffer = LookbackBuffer([10, 11, 12, 13], 2)

    assert buffer.get(key, neg_index_as_lookback=flag) == buffer.get(key, neg_index_as_lookback=True)
