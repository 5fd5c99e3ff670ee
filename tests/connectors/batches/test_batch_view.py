"""A view of a batch has its columns as attributes, and takes rows of all columns together."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodeList
from episodia.connectors import BatchView
from episodia.errors import BatchError
from episodia.testing import assert_same_items
from episodia.trees import map_batch
from walks import walk


def arrays(view):
    return map_batch(np.asarray, view.to_dict())


def batch(rows=6):
    return {
        "obs": {"x": np.arange(rows), "y": (torch.arange(rows) * 2.0, np.zeros((rows, 3)))},
        "rewards": torch.arange(rows) / 4,
        "keys": np.arange(rows) + 100,
    }


@given(index=st.slices(6) | st.integers(-6, 5) | st.lists(st.integers(-6, 5), min_size=1).map(np.array))
def test_rows_are_those_of_each_column(index):
    part = BatchView(batch())[index]
    wanted = range(6)[index] if isinstance(index, slice) else np.arange(6)[index]

    assert part.obs.x.tolist() == np.atleast_1d(list(wanted) if isinstance(wanted, range) else wanted).tolist()
    assert part.obs.y[0].tolist() == [2.0 * row for row in part.obs.x]
    assert part.rewards.tolist() == [row / 4 for row in part.obs.x]


def test_slices_share_memory_and_cannot_be_written():
    original = batch()
    view = BatchView(original)

    assert np.shares_memory(view[2:].obs.x, original["obs"]["x"])
    with pytest.raises(ValueError, match="read-only"):
        view.obs.x[0] = 7
    with pytest.raises(BatchError, match="a view is read-only"):
        view.rewards = 3
    original["obs"]["x"][0] = 7
    assert view.obs.x[0] == 7


def test_columns_are_read_by_name_and_by_brackets():
    view = BatchView(batch())

    assert view["obs"]["x"] is not None
    assert view["keys"].tolist() == [100, 101, 102, 103, 104, 105]
    assert view.keys() == ["obs", "rewards", "keys"]
    assert "rewards" in view
    assert "obs" in dir(view)
    with pytest.raises(BatchError, match="found the name 'rewrads'"):
        view["rewrads"]
    with pytest.raises(AttributeError, match="found the name 'rewrads'"):
        view.rewrads  # noqa: B018
    with pytest.raises(BatchError, match="found the row 6"):
        view[6]


@given(size=st.integers(1, 8), seed=st.none() | st.integers(0, 9))
def test_parts_joined_are_the_whole(size, seed):
    view = BatchView(batch())
    parts = list(view.split(size, rng=None if seed is None else np.random.default_rng(seed)))
    whole = BatchView.cat(parts)

    assert [len(part) for part in parts[:-1]] == [size] * (len(parts) - 1)
    order = whole.obs.x
    assert sorted(order) == list(range(6))
    assert_same_items(arrays(whole), arrays(view[order]))
    assert seed is not None or order.tolist() == list(range(6))


def test_steps_of_episodes_have_their_next_observations():
    view = BatchView.of(EpisodeList([walk(terminated=True), walk()]))

    assert view.obs.tolist() == [0, 1, 2, 3] * 2
    assert view.new_obs.tolist() == [1, 2, 3, 4] * 2
    assert view.terminateds.tolist() == [False, False, False, True] + [False] * 4
    assert view.logp.tolist() == [-0.1, -0.2, -0.3, -0.4] * 2


def test_views_are_copied_and_pickled():
    view = BatchView(batch())

    assert_same_items(arrays(pickle.loads(pickle.dumps(view))), arrays(view))
    assert_same_items(arrays(copy.deepcopy(view)), arrays(view))
    assert repr(BatchView({"a": np.zeros((2, 3))})) == "BatchView({'a': float64[2, 3]})"


def test_a_view_is_iterated_over_row_by_row():
    view = BatchView({"a": np.arange(3), "b": {"c": np.zeros((3, 2))}})

    assert [row.a.tolist() for row in view] == [[0], [1], [2]]
    assert [row.b.c.shape for row in view] == [(1, 2)] * 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BatchView.of({"a": np.zeros(2)}), r"Pass a batch to `BatchView\(batch\)`"),
        (lambda: BatchView({"a": np.zeros(2), "b": np.zeros(3)}), "expected one length"),
        (lambda: BatchView({"a": 1.0}), "expected one length"),
        (lambda: BatchView({}), "expected a dict of columns"),
        (lambda: BatchView([1]), "expected a dict of columns"),
        (lambda: BatchView.cat([]), "found no views"),
        (lambda: BatchView.cat([BatchView({"a": np.zeros(2)}), BatchView({"b": np.zeros(2)})]), "those of the first"),
        (lambda: BatchView.cat([BatchView({"a": np.zeros(2)}), BatchView({"a": np.zeros(2, int)})]), "nothing is cast"),
        (lambda: BatchView(batch()).split(0), "size=0"),
    ],
)
def test_wrong_arguments_are_rejected(call, words):
    with pytest.raises(BatchError, match=words):
        call()
