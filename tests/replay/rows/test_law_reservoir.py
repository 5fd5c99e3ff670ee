"""A reservoir keeps whole episodes, each with the same probability, however early, late or cut they came."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import MultiAgentEpisode
from episodia.errors import StaleSampleError
from episodia.replay import InOrder, Proportional, ReplayBuffer
from plain_buffer import HISTORIES, PlainBuffer, check_steps, located, played


def walks_of(buffer):
    """The numbers of the stored walks."""
    return {number for number, _ in located(buffer.episodes().flat("actions").values)} if len(buffer) else set()


@settings(max_examples=100)
@given(history=HISTORIES, capacity=st.integers(24, 160), seed=st.integers(0, 50))
def test_what_is_stored_of_an_episode_is_all_that_came(history, capacity, seed):
    buffer = ReplayBuffer(capacity, evict="reservoir", seed=seed)
    plain = played(buffer, history)

    steps = set(check_steps(buffer.episodes(), plain))

    assert steps == {step for step in plain.steps() if step[0] in walks_of(buffer)}


@settings(max_examples=100)
@given(history=HISTORIES, capacity=st.integers(24, 160))
def test_an_episode_that_was_dropped_never_comes_back(history, capacity):
    buffer = ReplayBuffer(capacity, evict="reservoir", seed=0)
    before = played(buffer, history)
    dropped = {number for number, walk in before.walks.items() if walk.length} - walks_of(buffer)

    for number in dropped:
        buffer.add([before.chunk(number, 1)])

    assert not dropped & walks_of(buffer)


@settings(max_examples=100)
@given(history=HISTORIES, capacity=st.integers(24, 160))
def test_steps_that_came_were_stored_or_evicted(history, capacity):
    buffer, plain, counts = ReplayBuffer(capacity, evict="reservoir", seed=0), PlainBuffer(), [0, 0]
    for turn, chunks in enumerate(history):
        for lane, length, end in chunks:
            added = buffer.add([plain.chunk(100 * turn + lane, length, end)])
            counts = [counts[0] + added.num_steps, counts[1] + added.num_evicted_steps]

    assert counts[0] == len(plain.steps())
    assert len(buffer) == counts[0] - counts[1]


def test_every_episode_is_kept_with_the_same_probability():
    rng, times, num = np.random.default_rng(0), np.zeros(40), 400
    for seed in range(num):
        buffer, plain = ReplayBuffer(64, evict="reservoir", seed=seed), PlainBuffer()
        for number in range(40):
            for length in rng.multinomial(6, [0.5, 0.5]):  # cut anywhere
                buffer.add([plain.chunk(number, int(length))])
            buffer.add([plain.chunk(number, 0, "terminated")])
        times[list(walks_of(buffer))] += 1

    # Nine episodes of 7 rows fit into 64 rows.
    expected = times.sum() / 40
    assert 8.0 < times.sum() / num <= 9.0
    # Of 40 counts with 39 degrees of freedom, 1 of 10,000 has more than 81.
    assert ((times - expected) ** 2 / expected).sum() < 81


@pytest.mark.parametrize("num_lanes", [1, 16, 100])
def test_most_rows_hold_steps(num_lanes):
    buffer, plain, rng = ReplayBuffer(5_000, evict="reservoir", seed=0), PlainBuffer(), np.random.default_rng(0)
    numbers, left = list(range(num_lanes)), rng.integers(1, 60, num_lanes)
    for step in range(60_000 // num_lanes):
        ends = ["terminated" if left[lane] == step % 60 else "" for lane in range(num_lanes)]
        buffer.add([plain.chunk(numbers[lane], 1, ends[lane]) for lane in range(num_lanes)])
        for lane in np.flatnonzero(np.array(ends) != ""):
            numbers[lane] = len(plain.walks)
            plain.chunk(numbers[lane], 0)

    assert buffer.episodes().lengths.sum() + len(buffer.episodes()) > 0.85 * 5_000


def test_an_episode_that_is_longer_than_the_buffer_is_dropped():
    buffer, plain = ReplayBuffer(64, evict="reservoir", seed=0), PlainBuffer()
    for _ in range(30):
        buffer.add([plain.chunk(0, 5)])
    buffer.add([plain.chunk(1, 5, "terminated")])

    assert walks_of(buffer) <= {1}


@pytest.mark.parametrize("selector", [Proportional(), InOrder("newest"), InOrder("oldest", times=3)])
@pytest.mark.parametrize("is_saved", [False, True])
def test_a_restored_reservoir_goes_on_like_the_first(selector, is_saved, tmp_path):
    one = ReplayBuffer(100, evict="reservoir", selector=selector, seed=3)
    other = ReplayBuffer(100, evict="reservoir", selector=selector, seed=4)
    plain = PlainBuffer()
    for number in range(30):
        one.add([plain.chunk(number, 3 + number % 5, "terminated" if number % 3 else "")])
    if is_saved:
        one.save(tmp_path / "buffer")
        other.load(tmp_path / "buffer")
    else:
        other.set_state(one.get_state())

    for number in [*range(0, 30, 3), *range(30, 80)]:
        chunk = plain.chunk(number, 4, "terminated")
        assert one.add([chunk]) == other.add([chunk])
        assert one.sample(3).keys.tolist() == other.sample(3).keys.tolist()
    assert one.episodes().origins == other.episodes().origins


def test_agents_of_an_episode_are_kept_together():
    buffer = ReplayBuffer(40, evict="reservoir", seed=0)
    for number in range(30):
        game = MultiAgentEpisode(f"game {number}")
        game.add_env_reset(observations={"red": 0, "blue": 0})
        for t in range(4):
            game.add_env_step({"red": t, "blue": t}, {"red": 0, "blue": 0}, {"red": 0.0, "blue": 0.0})
        buffer.add([game])

    by_agent = {agent: set() for agent in ("red", "blue")}
    for id_, agent in buffer.episodes().origins:
        by_agent[agent].add(id_)
    assert by_agent["red"] == by_agent["blue"] != set()


def test_samples_are_read_until_their_rows_are_claimed_again():
    buffer, plain, outcomes = ReplayBuffer(64, evict="reservoir", seed=0), PlainBuffer(), set()
    buffer.add([plain.chunk(0, 5, "terminated")])
    for number in range(1, 100):
        sampled = buffer.sample(8)
        expected = sampled.flat("actions").values.tolist()
        buffer.add([plain.chunk(number, 5, "terminated")])
        try:
            outcomes.add(sampled.flat("actions").values.tolist() == expected)
        except StaleSampleError:
            outcomes.add("stale")

    assert outcomes == {True, "stale"}


@settings(max_examples=60)
@given(history=HISTORIES, later=HISTORIES, capacity=st.integers(24, 160))
def test_updates_reach_only_the_steps_that_were_sampled(history, later, capacity):
    buffer = ReplayBuffer(capacity, evict="reservoir", selector=Proportional(), seed=0)
    plain = played(buffer, history)
    if not len(buffer):
        return
    sampled = buffer.sample(20)
    steps = located(sampled.load().flat("actions").values)
    for turn, chunks in enumerate(later):
        for lane, length, end in chunks:
            buffer.add([plain.chunk(1000 + 100 * turn + lane, length, end)])

    num_stale = buffer.update_priorities(sampled.keys, np.ones(20))

    stored = set(located(buffer.episodes().flat("actions").values)) if len(buffer) else set()
    assert num_stale == sum(step not in stored for step in steps)
