"""Columns that were written stay unread until their items are read, and are like any other column."""

import copy
import pickle

import numpy as np
import pytest

from episodia.episodes.columns.lookback_buffer import LookbackBuffer
from episodia.episodes.columns.watched_columns import is_unread, mark_unread, noted_writes

READS = {
    "item": lambda column: column[0],
    "get": lambda column: column.get(slice(-1, 1), neg_index_as_lookback=True),
    "data": lambda column: column.data,
    "iterate": list,
    "lend": lambda column: column.lend(),
    "fork": LookbackBuffer.fork,
    "equal": lambda column: columns()[column.finalized] == column,
    "sum": lambda column: column + 1,
    "repr": repr,
    "state": LookbackBuffer.get_state,
    "pickle": pickle.dumps,
    "copy": copy.deepcopy,
}
WRITES = {
    "set": lambda column: column.set(5, at_indices=0),
    "set several": lambda column: column.set([5, 6]),
    "item": lambda column: column.__setitem__(-1, 5),
    "data": lambda column: setattr(column, "data", [5, 6, 7]),
}


def columns():
    return [LookbackBuffer([1, 2, 3], 1), LookbackBuffer(np.array([1, 2, 3]), 1)]


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_items_is_noticed_and_gives_what_other_columns_give(read):
    for column, ordinary in zip(columns(), columns(), strict=True):
        mark_unread(column)
        found, expected = read(column), read(ordinary)

        assert not is_unread(column)
        assert type(found) is type(expected)
        assert column == ordinary


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing_is_noted_and_ends_the_wait_for_a_reader(write):
    for column in columns():
        mark_unread(column)
        with noted_writes() as written:
            write(column)

        assert [id(noted) for noted in written] == [id(column)]
        assert not is_unread(column)


def test_counting_items_is_not_reading():
    for column in columns():
        mark_unread(column)

        assert (len(column), column.len_incl_lookback(), column.lookback) == (2, 3, 1)
        assert is_unread(column)


def test_finalizing_reads_the_items_of_an_open_column():
    column = columns()[0]
    mark_unread(column)
    column.finalize()

    assert not is_unread(column)
    assert column == columns()[1]


def test_only_writes_in_the_context_are_noted():
    column = columns()[0]
    column[0] = 1
    with noted_writes() as written:
        column[0]
    column[0] = 2

    assert written == []


def test_the_inner_one_of_two_contexts_notes_a_write():
    column = columns()[0]
    with noted_writes() as outer, noted_writes() as inner:
        column[0] = 1

    assert (len(outer), len(inner)) == (0, 1)
