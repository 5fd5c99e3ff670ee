"""Minibatches: every row once per epoch, whole sequences, for each module on its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from episodia.errors import BatchError
from episodia.learners.minibatches import minibatches, plan, step_counts

counts_of_rows = st.lists(st.integers(0, 6), min_size=0, max_size=20).map(lambda counts: np.array(counts, np.int64))
seeds = st.none() | st.integers(0, 9)


def generator(seed):
    return None if seed is None else np.random.default_rng(seed)


def rows_of(batch, **kwargs):
    """Return the rows of each module's minibatches, in order."""
    found = {name: [] for name in batch}
    for parts in minibatches(batch, **kwargs):
        for name, part in parts.items():
            found[name].append(part.columns["obs"].tolist())
    return found


@given(counts_of_rows, st.integers(1, 8), seeds)
def test_each_row_that_counts_is_in_exactly_one_minibatch_of_an_epoch(counts, size, seed):
    found = [row for rows in plan(counts, size, generator(seed)) for row in rows.tolist()]

    assert len(found) == len(set(found))
    assert set(found) >= {row for row, count in enumerate(counts) if count}


@given(counts_of_rows, st.integers(1, 8), seeds)
def test_minibatches_are_as_many_as_come_closest_to_the_size_unless_single_rows_are_too_large(counts, size, seed):
    found = plan(counts, size, generator(seed))

    wanted = max(1, math.floor(counts.sum() / size + 0.5))
    assert len(found) <= wanted
    assert all(counts[rows].sum() > 0 for rows in found)
    if counts.any():
        # A row lies on one side of a cut or on the other, so each end is off by half of a row at most.
        longest = counts.max()
        assert all(counts[rows].sum() <= counts.sum() / wanted + longest for rows in found)


@given(st.integers(1, 200), st.integers(1, 50), seeds)
def test_single_steps_are_divided_evenly(rows, size, seed):
    found = [len(part) for part in plan(np.ones(rows, np.int64), size, generator(seed))]

    assert sum(found) == rows
    assert max(found) - min(found) <= 1
    assert len(found) == max(1, math.floor(rows / size + 0.5))


@given(st.integers(1, 9), st.integers(1, 8))
def test_a_multiple_of_the_size_is_cut_as_a_list_is(times, size):
    found = [part.tolist() for part in plan(np.ones(times * size, np.int64), size)]

    assert found == [list(range(times * size))[start : start + size] for start in range(0, times * size, size)]


def test_a_few_steps_too_many_are_no_gradient_step_of_their_own():
    observations = torch.arange(259)

    (parts,) = minibatches({"a": {"obs": observations}}, minibatch_size=256, rng=np.random.default_rng(0))

    assert parts["a"].columns["obs"] is observations


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1), st.integers(1, 4), st.integers(1, 3), seeds
)
def test_every_module_sees_each_of_its_rows_once_per_epoch(sizes, size, num_epochs, seed):
    batch = {name: {"obs": torch.arange(rows)} for name, rows in sizes.items()}

    found = rows_of(batch, num_epochs=num_epochs, minibatch_size=size, rng=generator(seed))

    for name, rows in sizes.items():
        seen = [row for part in found[name] for row in part]
        epochs = [seen[epoch * rows : (epoch + 1) * rows] for epoch in range(num_epochs)]
        assert len(seen) == rows * num_epochs
        assert all(sorted(epoch) == list(range(rows)) for epoch in epochs)


def test_minibatches_say_in_which_epoch_they_are():
    batch = {"long": {"obs": torch.arange(3)}, "short": {"obs": torch.arange(1)}}

    found = [
        {name: part.epoch for name, part in parts.items()}
        for parts in minibatches(batch, num_epochs=2, minibatch_size=2)
    ]

    assert found == [{"long": 0, "short": 0}, {"long": 0, "short": 1}, {"long": 1}, {"long": 1}]


def test_the_same_seed_gives_the_same_minibatches_and_another_one_others():
    batch = {"a": {"obs": torch.arange(50)}}

    first, again, other = (
        rows_of(batch, num_epochs=2, minibatch_size=10, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other


def test_epochs_have_different_orders():
    found = rows_of({"a": {"obs": torch.arange(50)}}, num_epochs=2, minibatch_size=25, rng=np.random.default_rng(0))

    assert found["a"][:2] != found["a"][2:]


def test_without_a_size_all_rows_come_together_and_are_not_copied():
    observations = torch.arange(5)

    parts = list(minibatches({"a": {"obs": observations}}, num_epochs=2, rng=np.random.default_rng(0)))

    assert len(parts) == 2
    assert all(part["a"].columns["obs"] is observations for part in parts)


def test_nested_columns_states_and_objects_are_taken_by_the_same_rows():
    infos = np.array([{"t": t} for t in range(4)], object)
    columns = {
        "obs": torch.arange(4),
        "state_in": {"h": torch.arange(4) * 10, "c": (torch.arange(4) * 100,)},
        "infos": infos,
    }

    for parts in minibatches({"a": columns}, minibatch_size=3, rng=np.random.default_rng(0)):
        found = parts["a"].columns
        rows = found["obs"].tolist()
        assert found["state_in"]["h"].tolist() == [row * 10 for row in rows]
        assert found["state_in"]["c"][0].tolist() == [row * 100 for row in rows]
        assert [info["t"] for info in found["infos"]] == rows


def test_sequences_stay_whole_and_count_the_steps_to_learn_from():
    mask = torch.tensor([[True, True, True], [True, False, False], [False, True, True], [True, True, False]])
    batch = {"a": {"obs": torch.arange(12).reshape(4, 3), "loss_mask": mask}}

    found = [parts["a"] for parts in minibatches(batch, minibatch_size=4)]

    assert [part.num_steps for part in found] == [4, 4]
    assert found[0].columns["obs"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_module_without_steps_to_learn_from_has_no_minibatches():
    batch = {
        "a": {"obs": torch.arange(2), "loss_mask": torch.zeros(2, dtype=torch.bool)},
        "b": {"obs": torch.arange(1)},
    }

    assert [list(parts) for parts in minibatches(batch)] == [["b"]]


def test_an_empty_batch_has_no_minibatches():
    assert list(minibatches({})) == []
    assert list(minibatches({"a": {"obs": torch.zeros(0, 3)}}, minibatch_size=2)) == []


def test_columns_of_different_lengths_are_an_error_that_names_them():
    with pytest.raises(BatchError, match=r"batch of 'a': found columns of different lengths.*'rewards'.*: 2"):
        step_counts("a", {"obs": torch.zeros(3), "rewards": torch.zeros(2)})


def test_rows_of_a_column_that_is_a_list_go_along():
    batch = {"a": {"obs": torch.arange(5), "words": list("abcde")}}

    found = [part["a"].columns for part in minibatches(batch, minibatch_size=2, rng=np.random.default_rng(0))]

    assert all(columns["words"] == ["abcde"[row] for row in columns["obs"].tolist()] for columns in found)
    assert len(found) == 3
