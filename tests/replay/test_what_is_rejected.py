"""Chunks that do not fit are rejected as a whole, and say why; gaps and late ends are stored as what they are."""

import numpy as np
import pytest

from episodia.errors import ReplayError
from episodia.replay import (
    AtMost,
    Fresh,
    InMemory,
    InOrder,
    Proportional,
    ReplayBuffer,
    Selection,
    Sequences,
    Transitions,
)
from plain_buffer import PlainBuffer, check_steps, columns


def test_a_chunk_before_the_end_of_what_is_stored_is_rejected_with_all_others():
    buffer, plain = ReplayBuffer(100, seed=0), PlainBuffer()
    chunks = [plain.chunk(0, 4), plain.chunk(0, 4)]
    buffer.add(chunks)

    with pytest.raises(ReplayError, match="episode 'walk 0': found a chunk from t=4 on, expected one from t=8 on"):
        buffer.add([plain.chunk(1, 4), chunks[1]])
    assert len(buffer) == 8


def test_an_end_before_the_end_of_what_is_stored_is_rejected():
    buffer, plain = ReplayBuffer(100, seed=0), PlainBuffer()
    end = plain.chunk(0, 0, "terminated")
    later = PlainBuffer().chunk(0, 4)
    buffer.add([later])

    with pytest.raises(ReplayError, match="found an end at t=0, expected one at t=4 or later"):
        buffer.add([end])
    assert not buffer.episodes().is_terminated.any()


def test_a_chunk_of_more_than_half_of_the_buffer_is_rejected():
    buffer = ReplayBuffer(100, seed=0)

    with pytest.raises(ReplayError, match="found 50 steps in one chunk, expected at most 49 in a buffer of 100 rows"):
        buffer.add([PlainBuffer().chunk(0, 50)])
    assert len(buffer) == 0


def test_what_comes_after_a_gap_is_a_part_of_its_own():
    buffer, plain = ReplayBuffer(100, seed=0), PlainBuffer()
    buffer.add([plain.chunk(0, 4)])
    plain.chunk(0, 3)

    buffer.add([plain.chunk(0, 5, "terminated")])

    assert buffer.episodes().lengths.tolist() == [4, 5]
    assert buffer.episodes().t_started.tolist() == [0, 7]
    check_steps(buffer.episodes(), plain)
    assert set(buffer.sample(100, Sequences(2), lookback=2).t_started.tolist()) <= {0, 1, 2, 3, 9, 10, 11}


def test_an_end_without_steps_belongs_to_the_last_stored_step():
    buffer, plain = ReplayBuffer(100, seed=0), PlainBuffer()
    buffer.add([plain.chunk(0, 4)])

    buffer.add([plain.chunk(0, 0, "terminated")])

    assert columns(buffer.episodes(), "terminateds") == [[False, False, False, True]]


def test_columns_that_come_later_are_filled_and_masked():
    buffer, plain = ReplayBuffer(100, seed=0), PlainBuffer()
    buffer.add([plain.chunk(0, 2)])
    buffer.add([plain.chunk(0, 2, extra_model_outputs={"logp": np.array([-1.0, -2.0])})])
    buffer.add([plain.chunk(0, 1)])

    assert columns(buffer.episodes(), "logp", "logp_mask") == [
        [0.0, 0.0, -1.0, -2.0, 0.0],
        [False, False, True, True, False],
    ]


@pytest.mark.parametrize("num_lanes", [1, 16, 256])
def test_few_rows_are_left_unused(num_lanes):
    buffer, plain = ReplayBuffer(20_000, seed=0), PlainBuffer()
    for _ in range(12_000 // num_lanes // 4):
        buffer.add([plain.chunk(lane, 4) for lane in range(num_lanes)])

    claimed = buffer.get_state()["tables"][0]["writer"]["ring"]["claimed"]

    assert claimed <= 1.05 * (len(buffer) + num_lanes) + 64 + 4 * num_lanes


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReplayBuffer(7),
        lambda: ReplayBuffer(100, evict="oldest"),
        lambda: ReplayBuffer(100, selector=Proportional),
        lambda: ReplayBuffer(100, seed=-1),
        lambda: ReplayBuffer(100, storage="disk"),
        lambda: ReplayBuffer(100, storage=InMemory),
        lambda: Transitions(0),
        lambda: Transitions(1, 1.5),
        lambda: Sequences(0),
        lambda: Sequences(3, end="cut"),
        lambda: Proportional(alpha=-1.0),
        lambda: Proportional(normalize="rows"),
        lambda: InOrder("random"),
        lambda: AtMost(0),
        lambda: Fresh(decay=2.0),
        lambda: ReplayBuffer(100).sample(4),
        lambda: ReplayBuffer(100).sample(0),
        lambda: ReplayBuffer(100).sample(4, Transitions),
        lambda: ReplayBuffer(100).update_priorities([1.5], [1.0]),
    ],
)
def test_wrong_arguments_are_rejected(make):
    with pytest.raises(ReplayError, match=r"found .*expected "):
        make()


def test_a_buffer_shows_what_it_holds():
    buffer, plain = ReplayBuffer(100, seed=0), PlainBuffer()
    assert repr(buffer) == "ReplayBuffer(empty, capacity=100)"

    buffer.add([plain.chunk(0, 4), plain.chunk(1, 5, "truncated")])

    assert repr(buffer) == "ReplayBuffer(9 steps of 2 episodes, 11 % of 100 rows, 2.4 kB)"
    assert "<td" in buffer._repr_html_()
    assert "walk 1" in buffer._repr_html_()


def test_priorities_whose_sum_is_infinite_are_rejected():
    buffer = ReplayBuffer(100, selector=Proportional(alpha=1.0), seed=0)
    buffer.add([PlainBuffer().chunk(0, 40)])
    sampled = buffer.sample(8)

    with pytest.raises(ReplayError, match=r"values whose powers have a finite sum. Clip the values"):
        buffer.update_priorities(sampled.keys, np.full(8, 1.7e308))
    assert len(set(buffer.sample(40).keys.tolist())) > 1


class Selecting:
    """A selector that returns what it is told."""

    def __init__(self, selection):
        self.selection = selection

    def on_add(self, rows, added):
        pass

    def on_evict(self, rows):
        pass

    def select(self, num, steps, rng):
        return self.selection

    def update(self, rows, values):
        pass


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (None, "found None from `select`"),
        (np.arange(4), r"found int64\[4\] from `select`"),
        (Selection([0, 1, 2, 3]), r"found \(\[0, 1, 2, 3\], None\) from `select`"),
        (Selection(np.arange(4.0)), r"found \(float64\[4\], None\) from `select`"),
        (Selection(np.arange(3)), r"expected a `Selection` with int64\[4\] rows"),
        (Selection(np.zeros((4, 1), int)), r"found \(int64\[4, 1\], None\)"),
        (Selection(np.arange(4), np.ones(3)), r"found \(int64\[4\], float64\[3\]\)"),
        (Selection(np.arange(4), [1.0] * 4), r"with float64\[4\] weights or None"),
        (Selection(np.full(4, 10**6)), "some are no stored steps"),
        (Selection(np.full(4, 50)), "some are no stored steps"),
    ],
)
def test_what_a_selector_must_not_return_is_named(selection, words):
    buffer = ReplayBuffer(100, selector=Selecting(selection), seed=0)
    buffer.add([PlainBuffer().chunk(0, 9, "truncated")])

    with pytest.raises(ReplayError, match=words):
        buffer.sample(4)


def test_more_steps_together_than_fit_into_memory_are_rejected():
    with pytest.raises(ReplayError, match="expected an integer of at least 1 and below 65536"):
        Transitions(10**9)
