"""After an exception in the middle of `add`, a buffer says so instead of sampling rows that were not written."""

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
        with pytest.raises(ReplayError, match=r"exception such as Ctrl-C came during `add`"):
            call()
    return "interrupted while adding" in repr(buffer)


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
