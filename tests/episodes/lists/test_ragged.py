"""Ragged columns against plain lists of lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from episodia.episodes.lists.ragged import Ragged, offsets_of, rows_of_ranges
from episodia.errors import BatchError, ShapeError

stretches = st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=5), min_size=1, max_size=6)


def track_of(lists: list[list[int]]) -> Ragged:
    """Return a track whose stretches are `lists`, the last item of each being its tail."""
    return Ragged(
        np.array([item for items in lists for item in items]), offsets_of([len(items) for items in lists]), tail=1
    )


@given(stretches)
def test_steps_and_tails_of_a_track_are_the_items_but_the_last_and_the_last(lists):
    column = track_of(lists)

    assert column.items() == [item for items in lists for item in items[:-1]]
    assert column.tails().tolist() == [items[-1] for items in lists]
    assert column.lengths.tolist() == [len(items) - 1 for items in lists]
    assert column.num_steps == sum(len(items) - 1 for items in lists)


@given(stretches)
def test_splitting_gives_the_steps_of_each_stretch(lists):
    assert [part.tolist() for part in track_of(lists).split()] == [items[:-1] for items in lists]
    assert [part.tolist() for part in track_of(lists).body().split()] == [items[:-1] for items in lists]


@given(stretches, st.data())
def test_selecting_stretches_agrees_with_selecting_lists(lists, data):
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))

    selected = track_of(lists).select(np.array(chosen, np.int64))

    assert [part.tolist() for part in selected.split()] == [lists[position][:-1] for position in chosen]
    assert selected.tails().tolist() == [lists[position][-1] for position in chosen]


@given(stretches)
def test_mapping_changes_tails_too(lists):
    doubled = track_of(lists).map(lambda leaf: leaf * 2)

    assert doubled.tails().tolist() == [2 * items[-1] for items in lists]
    assert doubled.items() == [2 * item for items in lists for item in items[:-1]]


def test_tensors_are_rows_like_arrays():
    column = Ragged({"x": torch.arange(5)}, np.array([0, 3, 5]), tail=1)

    assert column.body().values["x"].tolist() == [0, 1, 3]
    assert column.tails()["x"].tolist() == [2, 4]
    assert column.select(np.array([1])).values["x"].tolist() == [3, 4]


def test_a_function_that_loses_rows_is_rejected():
    with pytest.raises(ShapeError, match="found 1 rows for offsets that end at 3"):
        track_of([[1, 2, 3]]).map(lambda leaf: leaf[:1])


def test_tails_of_a_column_without_them_are_rejected():
    with pytest.raises(ShapeError, match="expected a track"):
        Ragged.from_items([[1], [2]]).tails()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=6))
def test_rows_of_ranges_agree_with_python_ranges(ranges):
    starts, counts = (np.array([pair[side] for pair in ranges], np.int64) for side in (0, 1))

    rows = rows_of_ranges(starts, counts)

    assert rows.tolist() == [row for start, count in ranges for row in range(start, start + count)]


@given(
    count=st.integers(1, 5),
    width=st.integers(2, 4),
    as_leaf=st.sampled_from([np.asarray, torch.from_numpy, lambda values: {"position": values}]),
)
def test_tracks_of_known_width_have_the_steps_and_the_following_rows_of_all_others(count, width, as_leaf):
    values, offsets = np.arange(count * width * 2).reshape(-1, 2), np.arange(count + 1) * width
    plain = Ragged(as_leaf(values), offsets, tail=1)

    known = Ragged(as_leaf(values), offsets, tail=1, width=width).map(lambda leaf: leaf + 1)

    for ours, theirs in ((known.body(), plain.body()), (known.following(), plain.following())):
        assert ours.offsets.tolist() == theirs.offsets.tolist()
        assert [item.tolist() for item in _leaf(ours)] == [(item + 1).tolist() for item in _leaf(theirs)]


def _leaf(column: Ragged) -> object:
    return column.values["position"] if isinstance(column.values, dict) else column.values


@given(stretches)
def test_rows_after_the_steps_of_a_track_are_the_items_but_the_first(lists):
    following = track_of(lists).following()

    assert following.items() == [item for items in lists for item in items[1:]]


def test_a_column_without_tails_has_no_rows_after_its_steps():
    with pytest.raises(ShapeError, match="without tails"):
        Ragged(np.arange(2), np.array([0, 2])).following()


@pytest.mark.parametrize("read", [list, np.asarray, np.mean])
def test_iterating_over_a_column_raises_instead_of_finding_no_rows(read):
    column = Ragged(np.ones((3, 2)), np.array([0, 1, 3]))

    with pytest.raises(BatchError, match=r"expected an array. The rows of all steps are `column.body\(\).values`"):
        read(column)
