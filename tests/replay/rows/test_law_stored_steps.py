"""However episodes are cut, interleaved and evicted, the buffer holds true steps of them, and follows each to its next one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import SingleAgentEpisode
from episodia.errors import ReplayError
from episodia.replay import ReplayBuffer, Transitions, WholeEpisodes
from plain_buffer import HISTORIES, PlainBuffer, check_steps, columns, located, next_observations, played


@settings(max_examples=60)
@given(history=HISTORIES, capacity=st.integers(24, 160), evict=st.sampled_from(["steps", "episodes", "reservoir"]))
def test_what_is_stored_are_steps_that_were_added_each_once(history, capacity, evict):
    buffer = ReplayBuffer(capacity, evict=evict, seed=0)
    plain = played(buffer, history)

    steps = check_steps(buffer.episodes(), plain)

    assert len(set(steps)) == len(steps) == len(buffer)
    assert set(steps) <= plain.steps()


@settings(max_examples=60)
@given(history=HISTORIES, evict=st.sampled_from(["steps", "episodes", "reservoir"]))
def test_a_buffer_with_room_keeps_all_steps(history, evict):
    buffer = ReplayBuffer(4096, evict=evict, seed=0)
    plain = played(buffer, history)

    assert set(check_steps(buffer.episodes(), plain)) == plain.steps()


@settings(max_examples=60)
@given(history=HISTORIES, capacity=st.integers(24, 160), evict=st.sampled_from(["steps", "episodes", "reservoir"]))
def test_transitions_are_stored_steps(history, capacity, evict):
    buffer = ReplayBuffer(capacity, evict=evict, seed=0)
    plain = played(buffer, history)
    if not len(buffer):
        return

    steps = check_steps(buffer.sample(100), plain)

    assert set(steps) <= set(located(buffer.episodes().flat("actions").values))


@settings(max_examples=60)
@given(history=HISTORIES, capacity=st.integers(24, 160), n=st.integers(1, 9))
def test_n_steps_are_those_of_the_episode_as_far_as_it_has_gone(history, capacity, n):
    buffer = ReplayBuffer(capacity, seed=0)
    plain = played(buffer, history)
    if not len(buffer):
        return

    sampled = buffer.sample(50, Transitions(n, 0.5))

    names = ("rewards", "discounts", "terminateds", "truncateds") if n > 1 else ("rewards", "terminateds", "truncateds")
    found = list(zip(next_observations(sampled), *columns(sampled, *names), strict=True))
    expected = [plain.n_step(*step, n, 0.5) for step in located(sampled.flat("obs").values)]
    assert found == (expected if n > 1 else [(row[0], row[1], *row[3:]) for row in expected])


@settings(max_examples=60)
@given(history=HISTORIES, capacity=st.integers(24, 160))
def test_whole_episodes_are_runs_of_neighbouring_steps(history, capacity):
    buffer = ReplayBuffer(capacity, evict="episodes", seed=0)
    plain = played(buffer, history)
    if not len(buffer):
        return

    sampled = buffer.sample(10, WholeEpisodes())

    check_steps(sampled, plain)
    assert len(sampled) == 10
    for stretch, t, length in zip(sampled.flat("obs").split(), sampled.t_started, sampled.lengths, strict=True):
        number = located(stretch)[0][0]
        assert located(stretch) == [(number, t + i) for i in range(length)]


@settings(max_examples=60)
@given(history=HISTORIES, capacity=st.integers(24, 160), evict=st.sampled_from(["steps", "episodes"]))
def test_the_newest_step_is_always_stored(history, capacity, evict):
    buffer = ReplayBuffer(capacity, evict=evict, seed=0)
    played(buffer, history)
    newest = PlainBuffer().chunk(99, 1, "terminated")

    buffer.add([newest])

    assert (99, 0) in located(buffer.episodes().flat("actions").values)


class Counted:
    """A buffer that keeps what `add` has returned."""

    def __init__(self, buffer):
        self.buffer, self.counts = buffer, []

    def add(self, episodes):
        self.counts.append(self.buffer.add(episodes))


@settings(max_examples=100)
@given(history=HISTORIES, capacity=st.integers(24, 160), evict=st.sampled_from(["steps", "episodes", "reservoir"]))
def test_steps_that_came_are_stored_or_counted_as_evicted(history, capacity, evict):
    counted = Counted(ReplayBuffer(capacity, evict=evict, seed=0))
    plain = played(counted, history)

    assert sum(added.num_steps for added in counted.counts) == len(plain.steps())
    assert sum(added.num_steps - added.num_evicted_steps for added in counted.counts) == len(counted.buffer)


def test_episodes_with_different_extra_columns_are_all_stored_by_the_first_call():
    extras = [{"value": [1.0, 2.0]}, {}, {"value": [3.0, 4.0]}]
    buffer = ReplayBuffer(100, seed=0)
    buffer.add([walk(extra_model_outputs=extra) for extra in extras])

    assert len(buffer) == 6
    assert buffer.episodes().flat("value").values.tolist() == [1.0, 2.0, 0.0, 0.0, 3.0, 4.0]


def test_nothing_is_stored_if_one_of_several_columns_does_not_fit():
    extras = [{"value": [1.0, 2.0]}, {}, {"value": [[3.0], [4.0]]}]
    buffer = ReplayBuffer(100, seed=0)

    with pytest.raises(ReplayError, match="column 'value'"):
        buffer.add([walk(extra_model_outputs=extra) for extra in extras])

    assert len(buffer) == 0


def test_a_chunk_that_comes_twice_in_one_call_is_rejected_whatever_its_columns():
    twice = walk(id_="twice")
    buffer = ReplayBuffer(100, seed=0)

    with pytest.raises(ReplayError, match="from t=2 on"):
        buffer.add([twice, walk(extra_model_outputs={"value": [1.0, 2.0]}), twice])

    assert len(buffer) == 0


def walk(*, id_=None, extra_model_outputs=None):
    return SingleAgentEpisode(
        id_=id_,
        observations=[0, 1, 2],
        actions=[5, 6],
        rewards=[0.5, 1.0],
        extra_model_outputs=extra_model_outputs or {},
        len_lookback_buffer=0,
    )
