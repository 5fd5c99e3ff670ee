"""After an exception in the middle of a call, a buffer is as before or after it, or says so."""

import numpy as np
import pytest

from episodia.errors import ReplayError, StaleSampleError
from episodia.replay import Proportional, ReplayBuffer
from interrupts import interrupted_at
from plain_buffer import PlainBuffer, check_steps


def filled():
    """Return a full buffer, and the plain one, with two episodes that go on."""
    buffer, plain = ReplayBuffer(64, selector=Proportional(), seed=0), PlainBuffer()
    for number in (2, 3, 4):
        buffer.add([plain.chunk(0, 4), plain.chunk(1, 6), plain.chunk(number, 9, "terminated")])
    return buffer, plain


def rejects_all(buffer, chunk, sampled):
    calls = [
        lambda: buffer.add([chunk]),
        lambda: buffer.sample(4),
        lambda: buffer.update_priorities(sampled.keys, [1.0] * 4),
        buffer.episodes,
        buffer.get_state,
    ]
    for call in calls:
        with pytest.raises(ReplayError, match=r"exception such as Ctrl-C came during `add` or `clear`"):
            call()
    return all("interrupted while adding" in text for text in (repr(buffer), buffer._repr_html_()))


def test_an_interrupt_at_any_line_of_add_leaves_whole_rows_or_an_error():
    for number in range(0, 2_000, 3):
        buffer, plain = filled()
        sampled = buffer.sample(4)
        chunks = [plain.chunk(0, 4), plain.chunk(1, 20, "truncated"), plain.chunk(5, 5)]
        _, place = interrupted_at(number, lambda buffer=buffer, chunks=chunks: buffer.add(chunks), only="replay")
        if place is None:
            break
        try:
            check_steps(buffer.episodes(), plain)
            check_steps(buffer.sample(20), plain)
        except ReplayError:
            assert rejects_all(buffer, plain.chunk(6, 2), sampled)
    assert number > 100


def test_a_buffer_can_be_filled_again_after_an_interrupt():
    for number in range(0, 2_000, 15):
        buffer, plain = filled()
        sampled = buffer.sample(4)
        _, place = interrupted_at(
            number, lambda buffer=buffer, plain=plain: buffer.add([plain.chunk(0, 20)]), only="replay"
        )
        if place is None:
            break
        buffer.clear()
        later = PlainBuffer()
        buffer.add([later.chunk(7, 20), later.chunk(8, 6)])

        assert buffer.update_priorities(sampled.keys, [1.0] * 4) == 4
        assert len(check_steps(buffer.episodes(), later)) == 26
        check_steps(buffer.sample(20), later)
        with pytest.raises(StaleSampleError):
            sampled.flat("obs")
    assert number > 30


def test_f10_an_interrupt_at_any_line_of_new_priorities_leaves_old_or_new_ones():
    for number in range(2_000):
        buffer, plain = filled()
        sampled = buffer.sample(6)
        buffer.update_priorities(sampled.keys, np.arange(6.0))
        values = np.array([9.0, 0.5, 3.0, 9.0, 0.1, 7.0])
        _, place = interrupted_at(
            number,
            lambda buffer=buffer, keys=sampled.keys, values=values: buffer.update_priorities(keys, values),
            only="replay",
        )
        if place is None:
            break
        selector = next(iter(buffer._tables.values())).selector  # what draws and new steps depend on
        rows = np.flatnonzero(selector.priorities)

        assert selector._tree.total == pytest.approx(selector.priorities.sum())
        assert selector._tree.find(selector.priorities.cumsum()[rows] - 1e-9).tolist() == rows.tolist()
        largest = selector.priorities.max()
        buffer.add([plain.chunk(9, 3)])
        assert selector.priorities.max() == largest
        assert np.count_nonzero(selector.priorities == largest) >= 3
    assert number > 30


def test_f10_an_interrupt_at_any_line_of_clear_leaves_all_steps_or_none_or_an_error():
    for number in range(2_000):
        buffer, plain = filled()
        _, place = interrupted_at(number, buffer.clear, only="replay")
        if place is None:
            break
        try:
            left = len(check_steps(buffer.episodes(), plain))
            assert left in (0, buffer.num_steps)
            assert not left or next(iter(buffer._tables.values())).selector.priorities.any()
        except ReplayError:
            buffer.clear()
        later = PlainBuffer()
        buffer.clear()
        buffer.add([later.chunk(7, 20)])

        check_steps(buffer.sample(20), later)
    assert number > 5
