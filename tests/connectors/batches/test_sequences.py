"""Sequences against plain lists."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from episodia.connectors.batches.sequences import first_rows, padded, sequences, unpadded
from episodia.episodes import Ragged
from episodia.episodes.lists.ragged import offsets_of

lengths = st.lists(st.integers(0, 7), max_size=5)


def plain_sequences(lists: list[list[int]], size: int, burn_in: int) -> list[tuple[list[int], list[int]]]:
    """Return for each sequence the steps to warm up with, and those to learn from."""
    return [
        (items[max(0, start - burn_in) : start], items[start : start + size])
        for items in lists
        for start in range(0, len(items), size)
    ]


@given(lengths, st.integers(1, 4), st.integers(0, 3), st.integers(0, 1))
def test_padding_agrees_with_cutting_lists(counts, size, burn_in, tail):
    numbers = iter(range(1, 1000))
    lists = [[next(numbers) for _ in range(count + tail)] for count in counts]
    column = Ragged(
        np.array([n for items in lists for n in items], np.int64), offsets_of([len(i) for i in lists]), tail
    )
    cut = sequences(np.array(counts, np.int64), size, burn_in)

    expected = plain_sequences([items[: len(items) - tail] for items in lists], size, burn_in)
    full = size + burn_in
    assert padded(column, cut).tolist() == [
        [*warm, *learn] + [0] * (full - len(warm) - len(learn)) for warm, learn in expected
    ]
    assert cut.lengths.tolist() == [len(warm) + len(learn) for warm, learn in expected]
    assert cut.loss_mask.tolist() == [
        [False] * len(warm) + [True] * len(learn) + [False] * (full - len(warm) - len(learn))
        for warm, learn in expected
    ]
    assert first_rows(column, cut).tolist() == [[*warm, *learn][0] for warm, learn in expected]


@given(lengths, st.integers(1, 4), st.integers(0, 3))
def test_unpadding_gives_every_step_once_and_in_order(counts, size, burn_in):
    steps = np.arange(sum(counts))
    cut = sequences(np.array(counts, np.int64), size, burn_in)

    assert unpadded(padded(Ragged(steps, offsets_of(counts)), cut), cut).tolist() == steps.tolist()


def test_tensors_and_objects_are_padded_like_arrays():
    cut = sequences(np.array([3]), 2)
    offsets = np.array([0, 3])

    assert padded(Ragged({"x": torch.arange(1, 4)}, offsets), cut)["x"].tolist() == [[1, 2], [3, 0]]
    objects = np.array([{"a": 1}, None, "b"], object)
    assert padded(Ragged(objects, offsets), cut).tolist() == [[{"a": 1}, None], ["b", None]]
