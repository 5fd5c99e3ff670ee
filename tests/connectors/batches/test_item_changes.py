"""RLlib's helper that changes items one by one, on every form of a column."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from episodia import MultiAgentEpisode
from episodia.connectors import ConnectorV2, EnvToModulePipeline, LearnerConnectorPipeline, ModuleToEnvPipeline
from episodia.episodes.lists.ragged import Ragged, offsets_of
from episodia.errors import BatchError, ShapeError
from tiny_connectors import AddObservations, Call, run, walk

change = ConnectorV2.foreach_batch_item_change_in_place


def ragged(lengths, tail=0):
    """Return a column of numbers that count up, with stretches of these lengths (tails included)."""
    return Ragged(np.arange(sum(lengths), dtype=np.float32), offsets_of(lengths), tail)


def test_items_of_a_list_are_replaced_in_that_list():
    items = [1, 2, 3]
    batch = {"speed": items}
    change(batch, "speed", lambda item, *_: item + 1)

    assert items == [2, 3, 4]
    assert batch["speed"] is items


def test_the_function_gets_the_ids_that_items_are_filed_under():
    seen = []
    batch = {"a": [0], "b": {("walk",): [1, 2]}, "c": {("game", "left", "module"): [3]}}
    for column in batch:
        change(batch=batch, column=column, func=lambda *arguments: seen.append(arguments))

    assert seen == [
        (0, None, None, None),
        (1, "walk", None, None),
        (2, "walk", None, None),
        (3, "game", "left", "module"),
    ]


@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=5), tail=st.integers(0, 1))
def test_items_of_whole_stretches_are_all_changed_tails_included(lengths, tail):
    batch = {"obs": ragged(lengths, tail)}
    change(batch, "obs", lambda item, *_: np.full((2, 3), item * 2, np.int16))

    column = batch["obs"]
    assert isinstance(column, Ragged)
    assert column.values.dtype == np.int16
    assert column.values[:, 1, 1].tolist() == [2 * row for row in range(sum(lengths))]
    assert (column.offsets.tolist(), column.tail) == (offsets_of(lengths).tolist(), tail)


def test_items_of_nested_stretches_are_nested_before_and_may_be_plain_after():
    batch = {"obs": Ragged({"x": np.arange(3), "y": (np.ones(3),)}, offsets_of([1, 2]))}
    change(batch, "obs", lambda item, *_: item["x"] + item["y"][0])

    assert batch["obs"].values.tolist() == [1.0, 2.0, 3.0]


def test_items_of_stretches_of_tensors_are_tensors():
    batch = {"obs": Ragged(torch.arange(4.0), offsets_of([1, 3]))}
    change(batch, "obs", lambda item, *_: torch.stack([item, -item]))

    assert torch.equal(batch["obs"].values[:, 1], -torch.arange(4.0))


@pytest.mark.parametrize("column", [np.arange(3.0), torch.arange(3.0)], ids=["array", "tensor"])
def test_rows_of_an_array_are_items(column):
    batch = {"obs": column}
    change(batch, "obs", lambda item, *_: item * 2)

    assert type(batch["obs"]) is type(column)
    assert batch["obs"].tolist() == [0.0, 2.0, 4.0]


def test_without_rows_nothing_is_called_and_the_column_stays():
    batch = {"obs": ragged([0, 0]), "speed": [], "more": {}}
    for column in batch:
        change(batch, column, lambda *_: pytest.fail("there is no item"))

    assert (len(batch["obs"]), batch["speed"], batch["more"]) == (2, [], {})


# --- Several columns ------------------------------------------------------------------------------------------------


def swap(items, *_):
    return items[1], items[0]


@pytest.mark.parametrize("columns", [["a", "b"], ("a", "b")])
def test_several_columns_are_changed_together(columns):
    batch = {"a": {("x",): [1, 2], ("y",): [3]}, "b": {("y",): [30], ("x",): [10, 20]}}
    batch["b"] = {key: batch["b"][key] for key in batch["a"]}
    change(batch, columns, swap)

    assert batch == {"a": {("x",): [10, 20], ("y",): [30]}, "b": {("x",): [1, 2], ("y",): [3]}}


def test_items_by_episode_are_paired_by_their_ids():
    batch = {"a": {("x",): [1], ("y",): [2]}, "b": {("y",): [20], ("x",): [10]}}
    change(batch, ["a", "b"], swap)

    assert batch == {"a": {("x",): [10], ("y",): [20]}, "b": {("x",): [1], ("y",): [2]}}


def test_stretches_with_and_without_tails_are_changed_together_without_tails():
    batch = {"obs": ragged([3, 2], tail=1), "actions": ragged([2, 1])}
    change(batch, ["obs", "actions"], swap)

    assert batch["obs"].values.tolist() == [0.0, 1.0, 2.0]
    assert batch["actions"].values.tolist() == [0.0, 1.0, 3.0]
    assert batch["obs"].tail == 0


@pytest.mark.parametrize("other", [[1], ragged([2, 1]), {("x",): [1, 2, 3]}], ids=["list", "stretches", "items"])
def test_columns_with_other_items_are_rejected(other):
    with pytest.raises(BatchError, match=r"columns 'a' and 'b'.*the same episodes"):
        change({"a": [1, 2, 3], "b": other}, ["a", "b"], swap)


@pytest.mark.parametrize("result", [7, (1,), (1, 2, 3), None])
def test_a_function_for_two_columns_has_to_return_two_items(result):
    with pytest.raises(BatchError, match="a tuple of 2 items"):
        change({"a": [1], "b": [2]}, ["a", "b"], lambda *_: result)


# --- Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["missing", ["obs", "missing"]])
def test_an_unknown_column_is_rejected_and_the_columns_are_listed(column):
    with pytest.raises(ValueError, match=r"no column 'missing'.*\['obs', 'speed'\]"):
        change({"obs": [1], "speed": [2]}, column, swap)


@pytest.mark.parametrize("form", [lambda: [0, 1, 2], lambda: {("x",): [0, 1, 2]}, lambda: ragged([3])])
def test_a_function_that_fails_leaves_the_batch_as_it_was(form):
    batch = {"obs": form()}
    column = batch["obs"]

    with pytest.raises(KeyError):
        change(batch, "obs", lambda item, *_: {0: "changed"}[int(item)])
    assert batch["obs"] is column
    assert column in ([0, 1, 2], {("x",): [0, 1, 2]}) or column.values.tolist() == [0.0, 1.0, 2.0]


def test_items_that_do_not_fit_together_leave_the_batch_as_it_was():
    batch = {"obs": ragged([3]), "speed": ragged([3])}
    before = dict(batch)

    with pytest.raises(ShapeError):
        change(batch, ["obs", "speed"], lambda items, *_: (0.0, np.zeros(int(items[0]))))
    assert batch == before


def test_a_batch_that_is_sorted_by_modules_is_rejected():
    with pytest.raises(BatchError, match="name a column, not a module"):
        change({"left": {"obs": [1]}}, "left", swap)


@pytest.mark.parametrize("as_leaf", [np.asarray, torch.as_tensor], ids=["arrays", "tensors"])
def test_rows_of_nested_arrays_are_items(as_leaf):
    batch = {"actions": {"gear": as_leaf([1, 2]), "wheel": (as_leaf([[0.5], [1.5]]),)}}
    change(batch, "actions", lambda item, *_: {"gear": -item["gear"], "wheel": item["wheel"]})

    assert batch["actions"]["gear"].tolist() == [-1, -2]
    assert batch["actions"]["wheel"][0].tolist() == [[0.5], [1.5]]


def test_items_of_all_modules_are_changed_where_the_batch_is_grouped_by_module():
    batch = {"left": {"actions": np.array([1, 2])}, "right": {"actions": [3]}, "plain": {"obs": [4]}}
    change(batch, "actions", lambda item, *_: item * 10)

    assert batch["left"]["actions"].tolist() == [10, 20]
    assert (batch["right"], batch["plain"]) == ({"actions": [30]}, {"obs": [4]})


def test_items_of_all_modules_are_changed_where_columns_are_kept_apart_by_module():
    batch = {name: {"left": ragged([1, 2]), "right": ragged([2])} for name in ("obs", "speed")}
    change(batch, ["obs", "speed"], lambda items, *_: (items[0] + 1, items[1] * 0))

    assert batch["obs"]["left"].values.tolist() == [1, 2, 3]
    assert batch["speed"]["right"].values.tolist() == [0, 0]


def test_if_the_items_of_a_later_module_fail_no_module_is_changed():
    batch = {"left": {"actions": [1]}, "right": {"actions": ["stop"]}}

    with pytest.raises(TypeError):
        change(batch, "actions", lambda item, *_: item + 1)
    assert batch == {"left": {"actions": [1]}, "right": {"actions": ["stop"]}}


# --- In a pipeline --------------------------------------------------------------------------------------------------


def noting(seen):
    def note(item, *ids):
        seen.append((float(np.ravel(item)[0]), *ids))
        return item

    return Call(lambda batch, _: change(batch, "obs", note))


def test_in_a_learner_pipeline_rows_of_stretches_have_the_ids_of_their_episodes():
    seen = []
    run(
        LearnerConnectorPipeline(connectors=[AddObservations(), noting(seen)]),
        [walk("a", 1), walk("b", 2, start=10.0), walk("a", 1, start=20.0)],
    )

    expected = [(0, "a"), (1, "a"), (10, "b"), (11, "b"), (12, "b"), (20, "a"), (21, "a")]
    assert seen == [(float(first), eps_id, None, None) for first, eps_id in expected]


def game():
    return MultiAgentEpisode(
        "game",
        observations=[{"left": np.zeros(1), "right": np.ones(1)}, {"right": np.ones(1) * 2}],
        actions=[{"left": 0, "right": 0}],
        rewards=[{"right": 0.0}],
        len_lookback_buffer=0,
        agent_to_module_mapping_fn=lambda agent, _: f"{agent} module",
    )


def test_in_an_env_to_module_pipeline_rows_have_the_ids_of_the_agents_to_act():
    seen = []
    run(EnvToModulePipeline(connectors=[AddObservations(), noting(seen)]), [game()])

    assert seen == [(2.0, "game", "right", "right module")]


def test_in_a_module_to_env_pipeline_rows_of_an_array_have_the_ids_of_their_episodes():
    seen = []
    run(ModuleToEnvPipeline(connectors=[noting(seen)]), [walk("a"), walk("b")], batch={"obs": np.array([5.0, 6.0])})

    assert seen == [(5.0, "a", None, None), (6.0, "b", None, None)]


def test_in_a_learner_pipeline_rows_of_an_array_have_no_owner():
    seen = []
    run(
        LearnerConnectorPipeline(connectors=[noting(seen)]), [walk("a"), walk("b")], batch={"obs": np.array([5.0, 6.0])}
    )

    assert seen == [(5.0, None, None, None), (6.0, None, None, None)]
