"""Faults that other replay buffers had, one test each; they are named after the right behaviour."""

import threading
from contextlib import suppress

import numpy as np
import pytest

from episodia import SingleAgentEpisode
from episodia.errors import ReplayError, StaleSampleError
from episodia.replay import Proportional, ReplayBuffer, Sequences, Transitions
from plain_buffer import PlainBuffer, check_steps, columns, located, next_observations, place


def filled(*chunks, capacity=1000, **settings):
    buffer, plain = ReplayBuffer(capacity, seed=0, **settings), PlainBuffer()
    for chunk in chunks:
        buffer.add([plain.chunk(*chunk)])
    return buffer, plain


def test_the_next_observation_at_a_truncation_is_the_last_one_of_the_episode():
    buffer, _ = filled((0, 5, "truncated"), (1, 5, "truncated"))
    sampled = buffer.sample(200)

    last = np.array(columns(sampled, "truncateds")[0])

    assert {number % 100_000 for number in np.array(next_observations(sampled))[last].tolist()} == {5}


def test_the_newest_step_of_a_growing_episode_has_its_next_observation():
    buffer, plain = filled((0, 5))

    steps = check_steps(buffer.sample(200), plain)

    assert (0, 4) in steps


def n_steps_of_walk_0(end):
    """What 3-step transitions of a walk of 5 steps are: time, next observation, discount, terminated."""
    buffer, _ = filled((0, 5, end), (1, 5))
    sampled = buffer.sample(300, Transitions(3, 0.5))
    steps = located(sampled.flat("obs").values)
    rows = zip(steps, next_observations(sampled), *columns(sampled, "discounts", "terminateds"), strict=True)
    return {(t, after, discount, flag) for (walk, t), after, discount, flag in rows if walk == 0}


def test_n_steps_end_at_the_terminal_state_and_are_not_bootstrapped():
    found = n_steps_of_walk_0("terminated")

    assert found == {
        (0, 3, 0.125, False),
        (1, 4, 0.125, False),
        (2, 5, 0.0, True),
        (3, 5, 0.0, True),
        (4, 5, 0.0, True),
    }


def test_n_steps_at_a_truncation_bootstrap_from_the_last_observation_with_the_right_discount():
    found = n_steps_of_walk_0("truncated")

    assert found == {
        (0, 3, 0.125, False),
        (1, 4, 0.125, False),
        (2, 5, 0.125, False),
        (3, 5, 0.25, False),
        (4, 5, 0.5, False),
    }


def test_n_may_be_larger_than_every_episode():
    buffer, _ = filled((0, 3, "terminated"))

    sampled = buffer.sample(50, Transitions(20, 0.5))

    assert {t for _, t in located(sampled.flat("obs").values)} == {0, 1, 2}
    assert set(next_observations(sampled)) == {place(0, 3)}


def test_the_last_steps_of_an_episode_are_drawn_too():
    buffer, plain = ReplayBuffer(100, seed=0), PlainBuffer()
    buffer.add([plain.chunk(0, 6, "terminated"), plain.chunk(1, 4)])

    sampled = buffer.sample(300, Transitions(5, 0.5))

    assert set(located(sampled.flat("obs").values)) == plain.steps()


def test_extra_outputs_are_those_of_the_sampled_step():
    buffer = ReplayBuffer(100, seed=0)
    buffer.add([PlainBuffer().chunk(0, 9, extra_model_outputs={"logp": np.arange(9.0)})])
    sampled = buffer.sample(50, Transitions(3))

    assert sampled.flat("logp").values.tolist() == [float(t) for _, t in located(sampled.flat("obs").values)]


def test_a_chunk_may_continue_the_oldest_episode_at_full_capacity():
    buffer, plain = ReplayBuffer(64, evict="episodes", seed=0), PlainBuffer()
    for number in (0, 1, 2, 3):
        buffer.add([plain.chunk(number, 14)])

    buffer.add([plain.chunk(0, 14)])

    check_steps(buffer.episodes(), plain)
    assert (0, 27) in located(buffer.episodes().flat("actions").values)


def test_two_samples_may_be_drawn_before_both_are_updated():
    buffer, _ = filled((0, 30), selector=Proportional())
    first, second = buffer.sample(8), buffer.sample(8)

    assert buffer.update_priorities(first.keys, np.ones(8)) == buffer.update_priorities(second.keys, np.ones(8)) == 0


def test_an_update_does_not_reach_steps_that_took_the_place_of_others():
    buffer, plain = filled((0, 10, "truncated"), capacity=24, selector=Proportional(alpha=1.0, epsilon=0.0))
    keys = buffer.sample(30).keys
    for number in (1, 2, 3):
        buffer.add([plain.chunk(number, 10, "truncated")])

    assert buffer.update_priorities(keys, np.full(30, 1000.0)) == 30


def test_the_seed_decides_prioritized_draws():
    drawn = [filled((0, 30), selector=Proportional())[0].sample(20).flat("actions").values.tolist() for _ in range(2)]

    assert drawn[0] == drawn[1]


def test_weights_use_the_smallest_priority_of_now():
    buffer, _ = filled((0, 4), selector=Proportional(1.0, 1.0, 0.0, "buffer"))
    keys = buffer.episodes().flat("keys").values
    buffer.update_priorities(keys, np.array([0.1, 1.0, 1.0, 1.0]))
    buffer.update_priorities(keys[:1], np.array([1.0]))

    assert buffer.sample(8).weights.tolist() == [1.0] * 8


def test_stacks_do_not_repeat_frames_where_the_past_was_evicted():
    buffer, plain = ReplayBuffer(64, seed=0), PlainBuffer()
    for _ in range(20):
        buffer.add([plain.chunk(0, 9)])
    sampled = buffer.sample(100, lookback=3)

    found = sampled.windows("obs", shifts=range(-3, 1), fill=-1).values.tolist()

    assert found == [[number - 3 + i for i in range(4)] for number in sampled.flat("obs").values.tolist()]


def test_stacks_do_not_reach_over_a_truncated_end():
    buffer, _ = filled((0, 3, "truncated"), (1, 3, "truncated"))
    sampled = buffer.sample(100, lookback=2)

    found = sampled.windows("obs", shifts=range(-2, 1), fill=-1).values.tolist()

    assert all(len({number // 100_000 for number in stack if number >= 0}) == 1 for stack in found)


def test_sequences_of_interleaved_environments_stay_in_their_episodes():
    buffer, plain = ReplayBuffer(1000, seed=0), PlainBuffer()
    for _ in range(20):
        buffer.add([plain.chunk(lane, 1) for lane in range(7)])

    sampled = buffer.sample(50, Sequences(5, end="full"))

    check_steps(sampled, plain)
    assert all(len({walk for walk, _ in located(part)}) == 1 for part in sampled.flat("obs").split())


@pytest.mark.parametrize("capacity", [24, 33, 100, 129])
def test_capacities_need_not_be_powers_of_two(capacity):
    buffer, plain = ReplayBuffer(capacity, selector=Proportional(), seed=0), PlainBuffer()
    for number in range(30):
        buffer.add([plain.chunk(number, 7, "terminated")])

    check_steps(buffer.sample(100), plain)


def test_alpha_counts_once():
    buffer, _ = filled((0, 2), selector=Proportional(alpha=0.5, epsilon=0.0))
    buffer.update_priorities(buffer.episodes().flat("keys").values, np.array([16.0, 4.0]))

    priorities = buffer.get_state()["tables"][0]["selector"]["priorities"]

    assert priorities[priorities > 0].tolist() == [4.0, 2.0]


def test_windows_over_the_newest_row_stay_among_older_steps():
    buffer, plain = ReplayBuffer(40, seed=0), PlainBuffer()
    for number in range(9):
        buffer.add([plain.chunk(number, 6, "truncated")])
    sampled = buffer.sample(200, Transitions(4, 0.5))

    expected = [plain.n_step(*step, 4, 0.5) for step in located(sampled.flat("obs").values)]

    assert list(zip(next_observations(sampled), *columns(sampled, "rewards", "discounts"), strict=True)) == [
        row[:3] for row in expected
    ]


def test_adding_and_sampling_in_two_threads_gives_true_steps():
    buffer, plain = ReplayBuffer(2000, seed=0), PlainBuffer()
    episodes = [plain.chunk(number, 20, "truncated") for number in range(300)]
    buffer.add(episodes[:20])
    errors = []

    def read():
        try:
            for _ in range(100):
                with suppress(StaleSampleError):  # overtaken before it was loaded
                    check_steps(buffer.sample(32).load(), plain)
        except BaseException as error:  # noqa: BLE001  # shown by the test
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20, 300):
        buffer.add([episodes[number]])
    reader.join()

    assert errors == []


def test_numbers_keep_their_dtypes():
    buffer = ReplayBuffer(100, seed=0)
    observations, actions = np.zeros((3, 2), np.uint8), np.zeros((2, 1), np.float64)
    walk = SingleAgentEpisode(observations=observations, actions=actions, rewards=[0.0, 1.0], len_lookback_buffer=0)
    buffer.add([walk])
    sampled = buffer.sample(4)

    assert [sampled.flat(name).values.dtype for name in ("obs", "actions")] == [np.uint8, np.float64]


def test_other_dtypes_are_rejected_and_nothing_is_stored():
    buffer, _ = filled((0, 3))
    odd = SingleAgentEpisode(observations=[0.5, 1.5], actions=[1], rewards=[0.0], len_lookback_buffer=0)

    with pytest.raises(ReplayError, match="column 'obs': found rows of float64"):
        buffer.add([odd])
    assert len(buffer) == 3


@pytest.mark.slow
def test_h7_a_million_sampled_rows_never_cross_an_episode():
    buffer, plain = ReplayBuffer(20_000, selector=Proportional(), seed=0), PlainBuffer()
    rng, lanes, begun = np.random.default_rng(0), {}, 0
    num_rows = 0
    while num_rows < 1_000_000:
        chunks = []
        for lane in range(16):
            if lane not in lanes:
                lanes[lane], begun = begun, begun + 1
            end = str(rng.choice(["", "", "", "terminated", "truncated"]))
            chunks.append(plain.chunk(lanes[lane], int(rng.integers(1, 40)), end))
            if end:
                del lanes[lane]
        buffer.add(chunks)
        sampled = buffer.sample(1000, Sequences(10))
        check_steps(sampled, plain)
        buffer.update_priorities(sampled.keys, rng.random(1000))
        num_rows += sampled.flat("obs").num_steps
    assert num_rows >= 1_000_000
