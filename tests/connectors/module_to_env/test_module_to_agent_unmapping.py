"""On the way from module to environment: the time axis goes, rows find their agents, columns can be taken apart."""

import numpy as np
import pytest
import torch

from episodia import Columns, EpisodiaError
from episodia.connectors.common.agent_to_module_mapping import row_owners
from episodia.connectors.common.batch_individual_items import BatchIndividualItems
from episodia.connectors.module_to_env.module_to_agent_unmapping import ModuleToAgentUnmapping
from episodia.connectors.module_to_env.remove_single_ts_time_rank_from_batch import RemoveSingleTsTimeRankFromBatch
from episodia.connectors.module_to_env.un_batch_to_individual_items import UnBatchToIndividualItems
from episodia.episodes import EpisodeList
from episodia.errors import BatchError
from episodia.trees import map_batch
from module_columns import ACTION_SPACES, Acting, module_actions, row, same, started, started_match

_ADDED = {"_added_single_ts_time_rank": True}


def _run(piece, batch, *, episodes=(), shared_data=None, module=None):
    return piece(rl_module=module, batch=batch, episodes=episodes, shared_data=shared_data)


# --- Time axis ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTION_SPACES)
@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_the_axis_of_one_step_is_taken_from_every_column_but_the_state(name, kind):
    actions = module_actions(ACTION_SPACES[name], 3)
    as_kind = torch.from_numpy if kind == "tensor" else np.asarray
    state = {"h": np.zeros((3, 1, 2))}
    batch = {Columns.ACTIONS: map_batch(lambda leaf: as_kind(leaf[:, None]), actions), Columns.STATE_OUT: state}

    after = _run(RemoveSingleTsTimeRankFromBatch(), batch, shared_data=_ADDED)

    assert same(map_batch(np.asarray, after[Columns.ACTIONS]), actions)
    assert after[Columns.STATE_OUT] is state


@pytest.mark.parametrize("shared_data", [None, {}, {"_added_single_ts_time_rank": False}])
def test_nothing_is_taken_that_was_not_added(shared_data):
    actions = np.zeros((3, 1))

    after = _run(RemoveSingleTsTimeRankFromBatch(), {Columns.ACTIONS: actions}, shared_data=shared_data)

    assert after[Columns.ACTIONS] is actions


def test_of_several_modules_only_stateful_ones_have_a_time_axis():
    modules = {"plain": Acting(None), "recurrent": Acting(None, stateful=True)}
    batch = {"plain": {Columns.ACTIONS: np.zeros((3, 1))}, "recurrent": {Columns.ACTIONS: np.zeros((2, 1))}}

    after = _run(RemoveSingleTsTimeRankFromBatch(), batch, shared_data=_ADDED, module=modules)

    assert after["plain"][Columns.ACTIONS].shape == (3, 1)
    assert after["recurrent"][Columns.ACTIONS].shape == (2,)


@pytest.mark.parametrize("shared_data", [None, {}])
def test_a_stateful_module_needs_the_note_whether_an_axis_was_added(shared_data):
    module, actions = Acting(None, stateful=True), np.zeros((3, 1))
    several = {"plain": Acting(None), "recurrent": module}

    for modules, batch, name in [
        (module, {Columns.ACTIONS: actions}, "Acting"),
        (several, {"plain": {Columns.ACTIONS: actions}, "recurrent": {Columns.ACTIONS: actions}}, "'recurrent'"),
    ]:
        with pytest.raises(BatchError, match=rf"module {name}: found no note.*Pass one dict as `shared_data=`"):
            _run(RemoveSingleTsTimeRankFromBatch(), batch, shared_data=shared_data, module=modules)
    without = {"plain": {Columns.ACTIONS: actions}}
    assert _run(RemoveSingleTsTimeRankFromBatch(), without, shared_data=shared_data, module=several) == without


def test_a_column_without_the_axis_is_rejected_and_nothing_is_changed():
    batch = {Columns.ACTIONS: np.zeros((3, 1)), "extra": np.zeros(3)}

    with pytest.raises(EpisodiaError, match="'extra'"):
        _run(RemoveSingleTsTimeRankFromBatch(), batch, shared_data=_ADDED)
    assert batch[Columns.ACTIONS].shape == (3, 1)


# --- Agents ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_rows_of_modules_go_to_their_agents(name):
    space = ACTION_SPACES[name]
    rows = {"left": [(0, "a"), (2, "a"), (2, "b")], "right": [(2, "c"), (0, "b")]}
    batch = {module: {Columns.ACTIONS: module_actions(space, len(owners))} for module, owners in rows.items()}
    batch["left"]["speed"] = np.array([1.5, 2.5, 3.5])

    after = _run(ModuleToAgentUnmapping(), batch, episodes=[None] * 3, shared_data={"memorized_map_structure": rows})

    assert [set(dicts) for dicts in after[Columns.ACTIONS]] == [{"a", "b"}, set(), {"a", "b", "c"}]
    for module, owners in rows.items():
        for index, (position, agent) in enumerate(owners):
            assert same(after[Columns.ACTIONS][position][agent], row(batch[module][Columns.ACTIONS], index))
    assert after["speed"] == [{"a": 1.5}, {}, {"a": 2.5, "b": 3.5}]


def test_without_rows_there_are_no_columns():
    assert _run(ModuleToAgentUnmapping(), {}, episodes=[None], shared_data={}) == {}


@pytest.mark.parametrize(
    ("shared_data", "batch", "message"),
    [
        (None, {"left": {Columns.ACTIONS: np.zeros(1)}}, "AgentToModuleMapping"),
        ({"memorized_map_structure": {"right": []}}, {"left": {Columns.ACTIONS: np.zeros(1)}}, "right"),
        (
            {"memorized_map_structure": {"left": [(0, "a")]}},
            {"left": {Columns.ACTIONS: np.zeros(2)}},
            "expected 1 rows",
        ),
        ({"memorized_map_structure": {"left": [(1, "a")]}}, {"left": {Columns.ACTIONS: np.zeros(1)}}, "2 episodes"),
        ({}, {Columns.ACTIONS: np.zeros(1)}, "grouped by module"),
        ({}, {"noise": np.zeros(1)}, "noise"),
    ],
)
def test_rows_that_cannot_be_told_apart_are_rejected(shared_data, batch, message):
    with pytest.raises(EpisodiaError, match=message):
        _run(ModuleToAgentUnmapping(), batch, episodes=[None], shared_data=shared_data)


# --- Items ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_batching_undoes_unbatching(name):
    episodes = EpisodeList([started(0, id_="walk"), started(1, id_="run"), started(2, id_="walk")]).current()
    actions = module_actions(ACTION_SPACES[name], 3)

    items = _run(UnBatchToIndividualItems(), {Columns.ACTIONS: actions}, episodes=episodes)
    after = _run(BatchIndividualItems(), items, episodes=episodes)

    assert same(after[Columns.ACTIONS], actions)


def test_items_are_filed_by_episode_and_chunks_of_one_episode_together():
    episodes = [started(0, id_="walk"), started(1, id_="run"), started(2, id_="walk")]

    items = _run(UnBatchToIndividualItems(), {Columns.ACTIONS: np.array([5, 6, 7])}, episodes=episodes)

    assert items == {Columns.ACTIONS: {("walk",): [5, 7], ("run",): [6]}}


def test_items_of_agents_are_filed_by_episode_agent_and_module():
    matches = EpisodeList([started_match("m0", {"a": 0, "b": 1}), started_match("m1", {"a": 2})]).current()
    shared_data = {"memorized_map_structure": row_owners(matches)}
    batch = {"shared": {Columns.ACTIONS: np.array([5, 6, 7])}}

    items = _run(UnBatchToIndividualItems(), batch, episodes=matches, shared_data=shared_data)
    after = _run(BatchIndividualItems(), items, episodes=matches)

    assert after["shared"][Columns.ACTIONS].tolist() == [5, 6, 7]
    filed = _run(UnBatchToIndividualItems(), batch, episodes=matches, shared_data=shared_data)["shared"][
        Columns.ACTIONS
    ]
    assert filed[("m1", "a", "shared")] == [7]


def test_more_rows_than_episodes_are_rejected():
    with pytest.raises(EpisodiaError, match="expected 1 rows"):
        _run(UnBatchToIndividualItems(), {Columns.ACTIONS: np.zeros(2)}, episodes=[started(0)])
