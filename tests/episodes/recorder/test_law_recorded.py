"""Law 4, second part: a recorded episode equals the same one built by hand."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.episodes.recorder import recorder_columns
from episodia.testing import SPACES, spaces
from hand_built import Twins, assert_same_episodes

SIZES = {"num_lanes": st.integers(1, 3), "lookback": st.integers(0, 5), "block_steps": st.integers(1, 6)}
INFOS = st.sampled_from(["none", "vector", "dicts"])
EXTRAS = st.sampled_from([(), ("logp",), ("logp", "state"), ("state",)])


def subsets(lanes):
    return st.lists(st.sampled_from(lanes), unique=True).map(sorted) if lanes else st.just([])


def walk(data, twins, mode, max_events=14):
    """Let anything happen that may happen, and compare what is returned, as views or as copies."""
    with patch.object(recorder_columns, "_LARGE_ROW", data.draw(st.sampled_from([0, 10**9]))):
        _walk(data, twins, mode, max_events)


def _walk(data, twins, mode, max_events):
    lanes = list(range(twins.num_lanes))
    extras = data.draw(EXTRAS)
    twins.reset(lanes, data.draw(INFOS))
    events = ["step"] * 4 + ["take", "take_finished", "look", "version"] + (["reset"] if mode == "alone" else [])
    for event in data.draw(st.lists(st.sampled_from(events), max_size=max_events)):
        if event == "step":
            take_step(data, twins, mode, extras)
        elif event == "take":
            assert_same_episodes(*twins.take())
            extras = data.draw(EXTRAS)
        elif event == "take_finished":
            assert_same_episodes(*twins.take_finished())
        elif event == "look":
            twins.check_handles()
            twins.check_latest()
        elif event == "version":
            twins.set_version(data.draw(st.integers(0, 9)))
        else:
            twins.reset(data.draw(subsets(lanes)) or lanes, data.draw(INFOS))
    assert_same_episodes(*twins.take())


def take_step(data, twins, mode, extras):
    lanes = list(range(twins.num_lanes))
    ends, infos = data.draw(subsets(lanes)), data.draw(INFOS)
    if mode == "next step":
        twins.step(lanes, ends, infos, extras, autoreset=True)
        return
    if mode == "same step":
        twins.step(lanes, ends, infos, extras)
        if twins.idle():
            twins.reset(twins.idle(), data.draw(INFOS))
        return
    able = [lane for lane in lanes if lane not in twins.idle()]
    chosen = data.draw(subsets(able))
    if chosen:
        twins.step(chosen, ends, infos, extras)
    elif twins.idle():
        twins.reset(twins.idle(), infos)


@pytest.mark.parametrize("mode", ["next step", "same step", "alone"])
@given(data=st.data(), sizes=st.fixed_dictionaries(SIZES))
def test_recorded_episodes_equal_hand_built_ones_under_any_schedule(mode, data, sizes):
    name = data.draw(st.sampled_from(["box vector float32", "discrete", "dict", "dict with text"]))

    walk(data, Twins(SPACES[name], SPACES["discrete from 5"], **sizes), mode)


@pytest.mark.parametrize("name", SPACES)
@settings(max_examples=15)
@given(data=st.data(), mode=st.sampled_from(["next step", "alone"]))
def test_recorded_episodes_equal_hand_built_ones_in_every_space(name, data, mode):
    sizes = {"num_lanes": 2, "lookback": data.draw(st.integers(0, 3)), "block_steps": 3}

    walk(data, Twins(SPACES[name], SPACES[name], **sizes), mode, max_events=6)


@given(data=st.data(), space=spaces(), seed=st.integers(0, 9))
def test_recorded_episodes_equal_hand_built_ones_in_drawn_spaces(data, space, seed):
    walk(data, Twins(space, SPACES["multi-discrete"], 2, lookback=1, block_steps=4, seed=seed), "next step", 6)
