"""Rows are written into columns as NumPy writes them with an index, of whatever shape, type and layout they are."""

import numpy as np
import pytest

from episodia.replay.rows.row_columns import RowColumns
from episodia.replay.rows.row_storage import InMemory

_GIVEN = {
    "numbers": np.arange(6.0),
    "vectors": np.arange(12.0).reshape(6, 2),
    "frames": np.arange(72, dtype=np.uint8).reshape(6, 3, 4),
    "every other row": np.arange(24.0).reshape(12, 2)[::2],
    "turned": np.arange(12).reshape(2, 6).T,
    "without numbers": np.zeros((6, 0)),
    "objects": np.array([[None, "a"]] * 6, object),
    "nested": {"x": np.arange(6), "y": (np.arange(12, dtype=np.float32).reshape(6, 2),)},
}


def _mapped(function, item):
    if isinstance(item, dict):
        return {key: _mapped(function, value) for key, value in item.items()}
    return tuple(_mapped(function, value) for value in item) if isinstance(item, tuple) else function(item)


def _written(given, sources, first=None):
    columns, rows = RowColumns(9, InMemory(), ""), np.array([7, 0, 4])
    columns.begin({"actions": given if first is None else first}, had_rows=False)
    columns.write({"actions": given}, (rows, sources), (rows, sources))
    return columns.take("actions", rows)


@pytest.mark.parametrize("sources", [np.array([5, 1, 1]), slice(2, 5)], ids=["index", "slice"])
@pytest.mark.parametrize("given", _GIVEN.values(), ids=_GIVEN)
def test_written_rows_are_those_of_an_index(given, sources):
    found = _written(given, sources)

    assert _mapped(np.ndarray.tolist, found) == _mapped(lambda leaf: leaf[sources].tolist(), given)


def test_narrower_numbers_are_written_as_those_of_the_column():
    given = np.arange(12, dtype=np.float32).reshape(6, 2)

    found = _written(given, np.array([5, 1, 1]), first=given.astype(np.float64))

    assert found.dtype == np.float64
    assert found.tolist() == given[[5, 1, 1]].tolist()


def test_no_rows_are_written_without_an_error():
    columns, none = RowColumns(9, InMemory(), ""), np.empty(0, np.int64)
    columns.begin({"actions": np.ones((1, 2))}, had_rows=False)

    columns.write({"actions": np.ones((0, 2))}, (none, slice(None)), (none, slice(None)))

    assert not columns["actions"].any()
