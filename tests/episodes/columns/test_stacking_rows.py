"""The rows of a column are stacked as what they are, by whichever way they came in."""

import numpy as np
import pytest
from gymnasium import spaces

from episodia import EpisodiaError, LookbackBuffer

SPACE = spaces.Box(-10.0, 10.0, (4,), np.float32)
ROW = np.arange(4, dtype=np.float32)
# As many bytes as a row of the space has.
OTHER_DTYPE, OTHER_SHAPE = np.arange(2, dtype=np.float64), ROW.reshape(2, 2)


def append(column, item):
    column.append(item)


def overwrite(column, item):
    column.set(item, at_indices=-1)


def overwrite_several(column, item):
    column.set([item, item], at_indices=[0, 1])


def extend(column, item):
    column.space = None
    column.extend([item])
    column.space = SPACE


def concatenate(column, item):
    column.concat(LookbackBuffer([item]))


def append_under_another_space(column, item):
    column.space = spaces.Box(-10.0, 10.0, item.shape, item.dtype.type)
    column.append(item)


def append_in_a_part(column, item):
    concatenate(column, item)
    part = column.share(slice(1, 4), 0)
    part.append(ROW)
    column.pop()
    column.concat(part)


WAYS = (overwrite, overwrite_several, extend, concatenate, append_under_another_space, append_in_a_part)


def column_of_rows(count=3):
    """A column that has taken `count` rows of its space one by one."""
    column = LookbackBuffer(space=SPACE)
    for number in range(count):
        column.append(ROW + number)
    return column


@pytest.mark.parametrize("item", [OTHER_DTYPE, OTHER_SHAPE], ids=["other dtype", "other shape"])
@pytest.mark.parametrize("way", WAYS)
def test_a_row_of_another_shape_is_rejected_when_a_column_becomes_arrays(way, item):
    column = column_of_rows()
    way(column, item)
    before = column.get()

    with pytest.raises(EpisodiaError, match="item"):
        column.finalize()

    assert [found.tolist() for found in column.get()] == [expected.tolist() for expected in before]


@pytest.mark.parametrize("way", [append, *WAYS])
@pytest.mark.parametrize("item", [ROW, ROW.astype(np.float16), ROW[::-1]], ids=["plain", "narrow", "backwards"])
def test_rows_of_any_fitting_kind_are_stacked_by_value(way, item):
    column = column_of_rows()
    way(column, item)
    expected = np.stack(column.get())

    column.finalize()

    np.testing.assert_array_equal(column.get(), expected)


@pytest.mark.parametrize("part", [slice(0, 0), slice(0, 1), slice(1, 3)])
def test_a_part_of_rows_that_grows_is_stacked_as_the_list_of_its_items(part):
    column = column_of_rows().share(part, 0)
    column.append(ROW)
    column.append(ROW.astype(np.float16))
    expected = np.stack(column.get())

    column.finalize()

    np.testing.assert_array_equal(column.get(), expected)
