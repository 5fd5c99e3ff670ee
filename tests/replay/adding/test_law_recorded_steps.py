"""Steps that a recorder has in its block are stored as those of the episodes that are made of them."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import EpisodeList
from episodia.episodes import Recorder
from episodia.replay import ReplayBuffer
from episodia.trees import leaves

SPACES = {
    "array": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "dict": spaces.Dict({"a": spaces.Discrete(1000), "b": spaces.Box(-np.inf, np.inf, (3,), np.float32)}),
}


def observations(kind, rng, count):
    if kind == "array":
        return rng.standard_normal((count, 2), np.float32)
    return {"a": rng.integers(0, 1000, count), "b": rng.standard_normal((count, 3), np.float32)}


def takes(kind, num_lanes, counts, seed, *, has_extras):
    """Yield what a recorder returns after so many vector steps each time."""
    rng = np.random.default_rng(seed)
    recorder = Recorder(SPACES[kind], spaces.Discrete(4), num_lanes=num_lanes, seed=seed)
    recorder.reset(observations(kind, rng, num_lanes))
    for count in counts:
        for _ in range(count):
            ends = rng.random((2, num_lanes)) < 0.1
            extras = {"value": rng.random(num_lanes)} if has_extras else None
            actions, rewards = rng.integers(0, 4, num_lanes), rng.random(num_lanes)
            recorder.step(observations(kind, rng, num_lanes), actions, rewards, *ends, extras=extras)
            lanes = np.flatnonzero(ends.any(axis=0))
            if len(lanes):
                recorder.reset(observations(kind, rng, len(lanes)), lanes=lanes)
        yield recorder.take()


def flat_leaves(buffer):
    return {
        f"{name}{path}": leaf
        for name in ("obs", "actions", "rewards", *buffer.episodes().extra_columns())
        for path, leaf in leaves(buffer.episodes().flat(name, tail=name == "obs").values)
    }


@settings(max_examples=60)
@given(
    kind=st.sampled_from(sorted(SPACES)),
    num_lanes=st.integers(1, 5),
    counts=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    capacity=st.integers(40, 400),
    evict=st.sampled_from(["steps", "episodes", "reservoir"]),
    seed=st.integers(0, 99),
    has_extras=st.booleans(),
)
def test_recorded_steps_are_stored_as_those_of_their_episodes(
    kind, num_lanes, counts, capacity, evict, seed, has_extras
):
    recorded, made = (ReplayBuffer(capacity, evict=evict, seed=0) for _ in range(2))
    for chunks in takes(kind, num_lanes, counts, seed, has_extras=has_extras):
        if not len(chunks):
            continue
        assert recorded.add(chunks) == made.add(EpisodeList(list(chunks)))

    ours, theirs = flat_leaves(recorded), flat_leaves(made)
    assert ours.keys() == theirs.keys()
    for name, leaf in ours.items():
        np.testing.assert_array_equal(leaf, theirs[name])
    assert recorded.episodes().origins == made.episodes().origins
    assert recorded.episodes().t_started.tolist() == made.episodes().t_started.tolist()
    assert recorded.episodes().is_terminated.tolist() == made.episodes().is_terminated.tolist()


@pytest.mark.parametrize("num_lanes", [1, 3])
def test_steps_that_were_added_stay_when_the_recorder_uses_its_block_again(num_lanes):
    buffer, expected = ReplayBuffer(4000, seed=0), []
    for chunks in takes("array", num_lanes, [7] * 30, 0, has_extras=False):
        buffer.add(chunks)
        expected += [(episode.id_, episode.t_started, reward) for episode in chunks for reward in episode.get_rewards()]
        del chunks

    stored = buffer.episodes()
    found = [(episode.id_, reward) for episode in stored for reward in episode.get_rewards()]
    assert sorted(found) == sorted((id_, reward) for id_, _, reward in expected)
