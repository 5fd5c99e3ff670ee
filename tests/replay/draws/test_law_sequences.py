"""Sequences, stacks and previous steps equal those of each episode alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.errors import DroppedHistoryError, ReplayError
from episodia.replay import ReplayBuffer, Sequences, Transitions, WholeEpisodes
from plain_buffer import HISTORIES, PlainBuffer, check_steps, columns, located, place, played

CAPACITIES = st.integers(24, 160)


def kept(buffer, plain):
    """Walk and time of all stored steps, and of the observations after them."""
    steps = set(check_steps(buffer.episodes(), plain))
    return steps, steps | {(number, t + 1) for number, t in steps}


@settings(max_examples=60)
@given(history=HISTORIES, capacity=CAPACITIES, length=st.integers(1, 12), burn_in=st.integers(0, 4))
def test_sequences_are_the_stored_steps_around_the_chosen_ones(history, capacity, length, burn_in):
    buffer = ReplayBuffer(capacity, evict="episodes", seed=0)
    plain = played(buffer, history)
    if not len(buffer):
        return
    steps, _ = kept(buffer, plain)

    sampled = buffer.sample(20, Sequences(length, burn_in))

    check_steps(sampled, plain)
    for stretch, t_started in zip(sampled.flat("obs").split(), sampled.t_started.tolist(), strict=True):
        number, first = located(stretch)[0]
        assert first == t_started
        assert located(stretch) == [(number, first + i) for i in range(len(stretch))]
    if burn_in:
        for stretch, mask in zip(sampled.flat("obs").split(), sampled.flat("loss_mask").split(), strict=True):
            begin = mask.tolist().index(True)
            number, t = located(stretch)[begin]
            assert all(mask[begin:])
            assert begin == sum((number, t - i) in steps for i in range(1, burn_in + 1))
            assert len(mask) - begin == sum((number, t + i) in steps for i in range(length))


@settings(max_examples=40)
@given(
    history=HISTORIES, length=st.integers(1, 6), every=st.integers(1, 4), start=st.sampled_from(["anywhere", "episode"])
)
def test_starts_and_full_lengths_are_as_asked_for(history, length, every, start):
    buffer = ReplayBuffer(4096, seed=0)
    plain = played(buffer, history)
    draw = Sequences(length, every=every, start=start, end="full")
    possible = {
        (number, t)
        for number, t in plain.steps()
        if t % every == 0 and t + length <= plain.walks[number].length and (start == "anywhere" or t == 0)
    }
    if not possible:
        with pytest.raises(ReplayError, match="no step that this draw can take"):
            buffer.sample(1, draw)
        return

    sampled = buffer.sample(100, draw)

    assert set(sampled.lengths.tolist()) == {length}
    assert {located(stretch)[0] for stretch in sampled.flat("obs").split()} <= possible


def stack(number, t, count):
    """The observations of the last `count` time steps, -1 before the first one."""
    return [place(number, u) if u >= 0 else -1 for u in range(t - count + 1, t + 1)]


@settings(max_examples=60)
@given(
    history=HISTORIES,
    capacity=CAPACITIES,
    count=st.integers(1, 5),
    n=st.integers(1, 4),
    evict=st.sampled_from(["steps", "episodes", "reservoir"]),
)
def test_stacked_observations_are_those_of_the_episode(history, capacity, count, n, evict):
    buffer = ReplayBuffer(capacity, evict=evict, seed=0)
    plain = played(buffer, history)
    steps, observations = kept(buffer, plain) if len(buffer) else (set(), set())
    if not any(t == 0 or (number, t - count + 1) in observations for number, t in steps):
        return

    sampled = buffer.sample(30, Transitions(n, 0.5), lookback=count - 1)

    found = sampled.windows("obs", shifts=range(-count + 1, 1), fill=-1, tail=True).values.tolist()
    expected = []
    for number, t in located(sampled.flat("obs").values):
        width = min(n, plain.walks[number].length - t)
        expected += [stack(number, t, count), stack(number, t + width, count)]
    assert found == expected


@settings(max_examples=60)
@given(history=HISTORIES, capacity=CAPACITIES, n=st.integers(1, 4), length=st.integers(0, 5))
def test_the_step_before_is_that_of_the_episode(history, capacity, n, length):
    buffer = ReplayBuffer(capacity, seed=0)
    plain = played(buffer, history)
    steps, _ = kept(buffer, plain) if len(buffer) else (set(), set())
    if not any(t == 0 or (number, t - 1) in steps for number, t in steps):
        return

    sampled = buffer.sample(30, Sequences(length) if length else Transitions(n), lookback=1)

    found = sampled.preceding("actions", -1)
    track = sampled.flat("obs", tail=True)
    assert found.offsets.tolist() == track.offsets.tolist()
    assert found.values.tolist() == [place(number, t - 1) if t else -1 for number, t in located(track.values)]


@settings(max_examples=60)
@given(history=HISTORIES, capacity=CAPACITIES, lookback=st.integers(0, 3))
def test_whole_episodes_whose_beginning_was_evicted_look_back_to_their_first_stored_steps(history, capacity, lookback):
    buffer = ReplayBuffer(capacity, seed=0)
    plain = played(buffer, history)
    steps, observations = kept(buffer, plain) if len(buffer) else (set(), set())
    if not any(t == 0 or (number, t - lookback) in observations for number, t in steps):
        return

    sampled = buffer.sample(30, WholeEpisodes(), lookback=lookback)

    stacks = sampled.windows("obs", shifts=range(-lookback, 1), fill=-1).values.tolist()
    found = check_steps(sampled, plain)
    assert stacks == [stack(number, t, lookback + 1) for number, t in found]
    first = {number: min(t for walk, t in steps if walk == number) for number, _ in found}
    assert set(found) == {
        (number, t) for number, t in steps if number in first and (first[number] == 0 or t >= first[number] + lookback)
    }


def test_windows_beyond_the_lookback_are_rejected():
    buffer = ReplayBuffer(100, seed=0)
    buffer.add([PlainBuffer().chunk(0, 20)])
    sampled = buffer.sample(20, lookback=1)

    with pytest.raises(DroppedHistoryError, match=r"Pass `lookback=pipeline.lookback` to `ReplayBuffer.sample`"):
        sampled.windows("obs", shifts=[-2, 0], fill=0)


def test_rewards_before_n_steps_are_single_rewards():
    buffer = ReplayBuffer(100, seed=0)
    plain = PlainBuffer()
    buffer.add([plain.chunk(0, 20)])

    sampled = buffer.sample(20, Transitions(3), lookback=1)

    before = sampled.windows("rewards", shifts=[-1], fill=-5.0).values[:, 0].tolist()
    times = [t for _, t in located(sampled.flat("obs").values)]
    assert before == [float((3 * (t - 1)) % 11) if t else -5.0 for t in times]


def test_sequences_have_the_keys_of_their_chosen_steps():
    buffer = ReplayBuffer(100, seed=0)
    buffer.add([PlainBuffer().chunk(0, 20)])

    sampled = buffer.sample(10, Sequences(3, burn_in=2))

    keys, mask = columns(sampled, "keys", "loss_mask")
    chosen = [mask.index(True, begin) for begin in sampled.flat("keys").offsets[:-1].tolist()]
    assert sampled.keys.tolist() == np.array(keys)[chosen].tolist()
