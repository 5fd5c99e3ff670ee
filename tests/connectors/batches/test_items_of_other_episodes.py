"""Items of episodes outside of the list: rows of mirrored, relabelled and imagined steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drives import drive
from episodia import Columns, MultiAgentEpisode, SingleAgentEpisode
from episodia.connectors import (
    AddObservationsFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AgentToModuleMapping,
    BatchIndividualItems,
    EnvToModulePipeline,
    LearnerConnectorPipeline,
    Standardize,
    defaults,
)
from episodia.errors import BatchError, ConnectorError
from tiny_connectors import Call, run

EPISODES = [drive(2, 0), drive(3, 1)]


def copy_of(episode, number=0):
    """Return an episode of the same agent, module and length with an id of its own."""
    return SingleAgentEpisode(
        f"copy-{number}-{episode.id_}",
        observations=list(range(len(episode) + 1)),
        actions=[0] * len(episode),
        rewards=[0.0] * len(episode),
        agent_id=episode.agent_id,
        module_id=episode.module_id,
        multi_agent_episode_id=None if episode.agent_id is None else f"copy-{episode.multi_agent_episode_id}",
        len_lookback_buffer=0,
    )


def adder(*columns, copies_only=False):
    """Return a piece that adds, for each episode and then for its copy, one item for each step to `columns`."""

    def add(batch, episodes):
        for episode in Call.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            for owner in [copy_of(episode)] if copies_only else [episode, copy_of(episode)]:
                sign = 1 if owner is episode else -1
                for column in columns:
                    items = [sign * (10 * len(episode) + t) for t in range(len(episode))]
                    Call.add_n_batch_items(batch, column, items, len(items), owner)

    return Call(add, name="Adder")


def learned(*pieces, episodes=EPISODES):
    pipeline = LearnerConnectorPipeline(connectors=[*pieces, AgentToModuleMapping(), BatchIndividualItems()])
    return run(pipeline, episodes)


def duel():
    """Return an episode of two agents with two modules and two steps."""
    return MultiAgentEpisode(
        "duel",
        observations=[{"a": t, "b": 10 + t} for t in range(3)],
        actions=[{"a": 0, "b": 1}] * 2,
        rewards=[{"a": 0.0, "b": 1.0}] * 2,
        agent_module_ids={"a": "left", "b": "right"},
        len_lookback_buffer=0,
    )


# --- Learners ---------------------------------------------------------------------------------------------------------


def test_a_learner_keeps_the_rows_of_other_episodes_in_the_order_in_which_they_were_added():
    batch = learned(adder("x", "y"))["default_policy"]

    assert batch["x"].tolist() == batch["y"].tolist() == [20, 21, -20, -21, 30, 31, 32, -30, -31, -32]


def test_a_learner_keeps_the_rows_of_other_agents_of_each_module():
    batch = learned(adder("x"), episodes=[duel()])

    assert {module: columns["x"].tolist() for module, columns in batch.items()} == {
        "left": [20, 21, -20, -21],
        "right": [20, 21, -20, -21],
    }


def test_modules_that_have_only_new_columns_may_have_different_numbers_of_rows():
    def add(batch, episodes):
        for episode in Call.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            for owner in [episode, copy_of(episode)][: 1 if episode.module_id == "left" else 2]:
                Call.add_n_batch_items(batch, "x", [7] * len(episode), len(episode), owner)

    batch = learned(Call(add), episodes=[duel()])

    assert {module_id: len(columns["x"]) for module_id, columns in batch.items()} == {"left": 2, "right": 4}


def test_rows_of_other_episodes_may_stand_for_those_of_the_list():
    batch = learned(AddObservationsFromEpisodesToBatch(), adder("x", copies_only=True))["default_policy"]

    assert batch["x"].tolist() == [-20, -21, -30, -31, -32]
    assert len(batch[Columns.OBS]) == 5


@given(order=st.permutations([("one", 2), ("two", 1), ("one", 1), ("other", 3), ("another", 1)]))
def test_rows_stand_in_the_order_of_a_dict_of_lists(order):
    listed = {name: SingleAgentEpisode(name) for name, _ in order}
    expected, batch = {}, {}
    for place, (name, count) in enumerate(order):
        expected.setdefault(name, []).extend([place] * count)
        Call.add_n_batch_items(batch, "x", np.full(count, place), count, listed[name])

    found = BatchIndividualItems()(rl_module=None, batch=batch, episodes=[])["x"]

    assert found.tolist() == [item for items in expected.values() for item in items]


@pytest.mark.parametrize("episodes", [EPISODES, [duel()]], ids=["one agent", "many agents"])
def test_columns_with_different_numbers_of_rows_raise_and_name_their_pieces(episodes):
    pipeline = defaults.learner(custom=[adder("x")])

    expected = r"(?s)'x': \d+, declared by no piece, perhaps by 'Adder'; 'obs': \d+, by 'AddObs"
    with pytest.raises(BatchError, match=expected):
        run(pipeline, episodes)


def test_a_pipeline_without_modules_checks_rows_too():
    pipeline = LearnerConnectorPipeline(
        connectors=[AddObservationsFromEpisodesToBatch(), adder("x"), BatchIndividualItems()]
    )

    with pytest.raises(BatchError, match=r"'obs': 5.*'x': 10"):
        run(pipeline, EPISODES)


def test_rows_in_another_order_than_in_another_column_raise():
    def add(batch, episodes):
        for column, owners in (("x", episodes), ("y", [*episodes][::-1])):
            for episode in owners:
                for owner in (episode, copy_of(episode)):
                    Call.add_n_batch_items(batch, column, np.zeros(len(owner)), len(owner), owner)

    with pytest.raises(ConnectorError, match=r"column 'y': found the rows of the episode .* same order"):
        learned(Call(add))


def test_a_piece_that_relates_rows_to_episodes_says_what_to_do():
    with pytest.raises(
        ConnectorError, match=r"(?s)'Standardize'.*copy-0-.*not in the list of episodes.*changes_episodes"
    ):
        learned(adder(Columns.ADVANTAGES), AgentToModuleMapping(name="first"), Standardize())


def test_items_of_a_module_that_acts_for_no_agent_raise():
    def add(batch, episodes):
        stranger = copy_of(next(Call.single_agent_episode_iterator(episodes)))
        stranger.module_id = "third"
        Call.add_batch_item(batch, "x", 1.0, stranger)

    with pytest.raises(ConnectorError, match=r"'third'.*belong to none of its modules"):
        learned(Call(add), episodes=[duel()])


# --- Runners ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("episodes", [EPISODES, [duel()]], ids=["one agent", "many agents"])
def test_a_runner_rejects_items_of_other_episodes(episodes):
    def add(batch, found):
        for episode in Call.single_agent_episode_iterator(found):
            Call.add_batch_item(batch, "x", 1.0, episode)
            Call.add_batch_item(batch, "x", 2.0, copy_of(episode))

    mapping = [AgentToModuleMapping()] if episodes is not EPISODES else []
    pipeline = EnvToModulePipeline(connectors=[Call(add), *mapping, BatchIndividualItems()])

    with pytest.raises(ConnectorError, match=r"copy-.*no environment acts on"):
        run(pipeline, episodes)


@pytest.mark.parametrize("modules", [["one", "one", "one"], ["one", "one", "two"], ["one", "two", "two"]])
def test_a_runner_leaves_out_items_of_agents_that_ended_or_wait(modules):
    episode = MultiAgentEpisode("game", agent_module_ids=dict(zip("abc", modules, strict=True)))
    episode.add_env_reset(observations={"a": 0, "b": 10, "c": 20})
    episode.add_env_step({"a": 1, "c": 21}, dict.fromkeys("abc", 0), dict.fromkeys("abc", 0.0), terminateds={"c": True})

    def add(batch, _):
        for single in episode.agent_episodes.values():
            Call.add_batch_item(batch, "x", single.get_observations(-1), single)

    pipeline = EnvToModulePipeline(connectors=[Call(add), AgentToModuleMapping(), BatchIndividualItems()])

    assert {module: part["x"].tolist() for module, part in run(pipeline, [episode]).items()} == {"one": [1]}


def test_a_runner_rejects_items_of_an_agent_that_a_listed_episode_does_not_have():
    def add(batch, found):
        for single in Call.single_agent_episode_iterator(found):
            stranger = copy_of(single)
            stranger.agent_id, stranger.multi_agent_episode_id = "z", "duel"
            Call.add_batch_item(batch, "x", 1.0, single)
            Call.add_batch_item(batch, "x", 2.0, stranger)

    pipeline = EnvToModulePipeline(connectors=[Call(add), AgentToModuleMapping(), BatchIndividualItems()])

    with pytest.raises(ConnectorError, match=r"'z', .*no environment acts on"):
        run(pipeline, [duel()])


# --- Batches made by hand ---------------------------------------------------------------------------------------------


def test_keys_made_by_hand_that_name_no_module_are_rejected():
    batch = {"x": {("match", "red", "policy"): [1], ("match", "blue"): [2]}}

    with pytest.raises(BatchError, match=r"found the key \('match', 'blue'\).*Name the module in the key"):
        AgentToModuleMapping()(rl_module=None, batch=batch, episodes=[], shared_data={})


def test_items_made_by_hand_become_arrays_without_episodes():
    batch = {"obs": {("one",): [0, 1], ("two",): [2, 3]}, "actions": [4, 5, 6, 7]}

    made = BatchIndividualItems()(rl_module=None, batch=batch, episodes=[])

    assert {name: column.tolist() for name, column in made.items()} == {"obs": [0, 1, 2, 3], "actions": [4, 5, 6, 7]}


def test_items_made_by_hand_are_grouped_by_the_modules_that_their_keys_name():
    batch = {
        "obs": {("game", "a", "left"): [0, 1, 2], ("game", "b", "right"): [3, 4]},
        "actions": {("game", "c", "left"): [8], ("game", "b", "right"): [9, 9]},
    }

    made = AgentToModuleMapping()(rl_module=None, batch=batch, episodes=[], shared_data={})

    assert made == {"left": {"obs": [0, 1, 2], "actions": [8]}, "right": {"obs": [3, 4], "actions": [9, 9]}}
    arrays = BatchIndividualItems()(rl_module=None, batch=made, episodes=[])
    assert arrays["right"]["obs"].tolist() == [3, 4]


class Stateful:
    """A module of which only the sequence length and the state matter."""

    max_seq_len = 3

    def is_stateful(self):
        return True

    def get_initial_state(self):
        return {"h": np.zeros(1)}


def test_a_piece_that_is_told_so_takes_a_plain_list_for_the_present_moment():
    batch = {Columns.OBS: [4, 5]}

    made = AddTimeDimToBatchAndZeroPad(as_learner_connector=False)(
        rl_module=Stateful(), batch=batch, episodes=EPISODES, shared_data={}
    )

    assert made[Columns.OBS].values.tolist() == [[4], [5]]


def test_each_piece_that_is_told_so_takes_a_plain_list_for_the_present_moment():
    made = AddObservationsFromEpisodesToBatch(as_learner_connector=False)(rl_module=None, batch={}, episodes=EPISODES)

    expected = [episode.get_observations(-1).tolist() for episode in EPISODES]
    assert made[Columns.OBS].values.tolist() == expected


def test_adding_to_whole_stretches_is_an_error_that_says_how_to_add_episodes():
    with pytest.raises(ConnectorError, match=r"add these to the list with `episodes\.extend"):
        run(LearnerConnectorPipeline(connectors=[AddObservationsFromEpisodesToBatch(), adder(Columns.OBS)]), EPISODES)
