"""What an index into a column means, against a plain Python list.

A column is an endless track on which only the positions 0 .. size - 1 have items. With `fill`, a reader gets the fill
wherever there is none. Without it, slices are clipped as Python clips slices of lists, and all other indices raise.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import LookbackBuffer
from episodia.errors import IndexTypeError
from episodia.testing import indices, slices
from plain_column import read, read_or_error

FILL = -99


def column(size, lookback, finalized):
    buffer = LookbackBuffer(list(range(size)), lookback)
    if finalized:
        buffer.finalize()
    return buffer


def got(buffer, index, **options):
    try:
        found = buffer.get(index, **options)
    except IndexError:
        return IndexError
    return found.tolist() if isinstance(found, (np.ndarray, np.generic)) else found


@st.composite
def sizes(draw):
    size = draw(st.integers(0, 7))
    return size, draw(st.integers(0, size))


@settings(max_examples=3 * settings.default.max_examples)
@given(data=st.data(), size=sizes(), finalized=st.booleans(), as_lookback=st.booleans())
def test_an_index_means_what_it_means_on_a_list(data, size, finalized, as_lookback):
    size, lookback = size
    index = data.draw(indices(size - lookback, lookback))

    found = got(column(size, lookback, finalized), index, neg_index_as_lookback=as_lookback)

    assert found == read_or_error(list(range(size)), lookback, index, as_lookback=as_lookback)


@settings(max_examples=3 * settings.default.max_examples)
@given(data=st.data(), size=sizes(), finalized=st.booleans(), as_lookback=st.booleans())
def test_a_fill_stands_wherever_there_is_no_item(data, size, finalized, as_lookback):
    size, lookback = size
    index = data.draw(indices(size - lookback, lookback, reach=8))

    found = got(column(size, lookback, finalized), index, neg_index_as_lookback=as_lookback, fill=FILL)

    assert found == read(list(range(size)), lookback, index, as_lookback=as_lookback, fill=FILL)


@given(data=st.data(), size=sizes(), finalized=st.booleans(), as_lookback=st.booleans())
def test_a_slice_far_out_of_range_is_clipped(data, size, finalized, as_lookback):
    size, lookback = size
    key = data.draw(slices(size - lookback, lookback, reach=10**30))

    found = got(column(size, lookback, finalized), key, neg_index_as_lookback=as_lookback)

    assert found == read(list(range(size)), lookback, key, as_lookback=as_lookback)


@given(data=st.data(), size=sizes(), finalized=st.booleans(), as_lookback=st.booleans())
def test_writing_goes_where_reading_looks(data, size, finalized, as_lookback):
    size, lookback = size
    index = data.draw(indices(size - lookback, lookback))
    buffer, track = column(size, lookback, finalized), list(range(size))
    places = read_or_error(track, lookback, index, as_lookback=as_lookback)
    new = [100 + count for count in range(len(places))] if isinstance(places, list) else 100
    if places is IndexError:
        new = [0] * len(index) if isinstance(index, (list, tuple, range, np.ndarray)) else 0
        with pytest.raises(IndexError):
            buffer.set(new, at_indices=index, neg_index_as_lookback=as_lookback)
    else:
        buffer.set(new, at_indices=index, neg_index_as_lookback=as_lookback)
        for position, item in zip(places, new, strict=True) if isinstance(places, list) else [(places, new)]:
            track[position] = item

    assert list(buffer.data) == track


BOUNDS = [None, *range(-6, 7)]
STEPS = [None, 1, 2, 3, -1, -2, -3]


@pytest.mark.parametrize("as_lookback", [False, True])
@pytest.mark.parametrize(("size", "lookback"), [(0, 0), (1, 0), (1, 1), (4, 0), (4, 2), (4, 4), (5, 1)])
def test_every_short_slice_agrees_with_a_list(size, lookback, as_lookback):
    buffer, track = column(size, lookback, finalized=False), list(range(size))
    options = {"neg_index_as_lookback": as_lookback}

    for key in itertools.starmap(slice, itertools.product(BOUNDS, BOUNDS, STEPS)):
        clipped, filled = buffer.get(key, **options), buffer.get(key, **options, fill=FILL)
        assert clipped == read(track, lookback, key, as_lookback=as_lookback), key
        assert filled == read(track, lookback, key, as_lookback=as_lookback, fill=FILL), key


@pytest.mark.parametrize("finalized", [False, True])
@pytest.mark.parametrize(
    ("key", "expected"), [(slice(None), [2, 3, 4]), (slice(None, None, -1), [4, 3, 2]), (None, [2, 3, 4])]
)
def test_bounds_that_are_left_out_mean_the_ends_after_the_lookback(key, expected, finalized):
    assert got(column(5, 2, finalized), key) == expected


MASK, TABLE = np.array([True]), np.zeros((1, 1), int)
WRONG = [True, 1.0, "1", {}, [0.5], [True], [None], np.array([0.0]), MASK, TABLE, slice("a")]


@pytest.mark.parametrize("finalized", [False, True])
@pytest.mark.parametrize("index", WRONG, ids=repr)
def test_an_index_of_a_wrong_type_is_rejected_and_nothing_is_changed(index, finalized):
    buffer = column(4, 1, finalized)

    for fill in (None, FILL):
        with pytest.raises(IndexTypeError):
            buffer.get(index, fill=fill)
    with pytest.raises(IndexTypeError):
        buffer.set([7], at_indices=index)
    assert list(buffer.data) == [0, 1, 2, 3]


@pytest.mark.parametrize("finalized", [False, True])
def test_a_step_of_zero_is_rejected(finalized):
    with pytest.raises(ValueError, match="step 0"):
        column(4, 1, finalized).get(slice(0, 2, 0))
