"""RLlib's helpers that add items to a batch, and that sort it by modules."""

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from episodia.connectors import BatchedNdArray
from episodia.connectors import ConnectorV2 as Connector
from episodia.episodes.lists.ragged import Ragged
from episodia.errors import BatchError
from tiny_connectors import Tiny, walk


def team():
    """Return the episodes of two agents, with a module each."""
    episode = MultiAgentEpisode(
        "game",
        observations=[{"left": 0, "right": 1}, {"left": 2, "right": 3}],
        actions=[{"left": 0, "right": 1}],
        rewards=[{"left": 0.0, "right": 1.0}],
        agent_to_module_mapping_fn=lambda agent, _: f"{agent} module",
    )
    return episode.agent_episodes


def test_items_without_an_episode_are_collected_in_a_list():
    batch = {}
    Connector.add_batch_item(batch, "speed", 5)
    Connector.add_batch_item(batch, "speed", item_to_add=6)

    assert batch == {"speed": [5, 6]}


def test_items_of_episodes_are_collected_by_their_ids():
    batch = {}
    for episode, item in ((walk("a"), 5), (walk("b"), 6), (walk("a"), 7)):
        Tiny().add_batch_item(batch, "speed", item, single_agent_episode=episode)

    assert batch == {"speed": {("a",): [5, 7], ("b",): [6]}}


def test_items_of_agents_are_collected_by_episode_agent_and_module():
    batch = {}
    for agent, episode in team().items():
        Connector.add_batch_item(batch, "speed", agent.upper(), episode)

    assert batch == {"speed": {("game", "left", "left module"): ["LEFT"], ("game", "right", "right module"): ["RIGHT"]}}


def test_lists_of_items_are_added_one_by_one():
    batch = {}
    Connector.add_n_batch_items(batch, "speed", [{"x": 1}, {"x": 2}], num_items=2, single_agent_episode=walk("a"))

    assert batch == {"speed": {("a",): [{"x": 1}, {"x": 2}]}}


def test_arrays_of_items_are_added_as_they_are_and_marked():
    batch, array = {}, np.arange(6).reshape(3, 2)
    Connector.add_n_batch_items(batch, "speed", array, 3, walk("a"))
    Connector.add_n_batch_items(batch, "nested", {"x": array, "y": (array,)}, 3)

    added = batch["speed"]["a",][0]
    assert isinstance(added, BatchedNdArray)
    assert np.shares_memory(added, array)
    assert isinstance(batch["nested"][0]["y"][0], BatchedNdArray)


@pytest.mark.parametrize("items", [[1, 2], np.zeros((2, 3)), {"x": np.zeros(2)}])
def test_a_wrong_number_of_items_is_rejected(items):
    batch = {}

    with pytest.raises(BatchError, match="'speed': found 2 items, expected 3"):
        Connector.add_n_batch_items(batch, "speed", items, 3)
    assert batch == {}


def test_items_are_not_added_to_whole_stretches():
    column = Ragged(np.zeros(3), np.array([0, 3]))
    batch = {"obs": column}

    for episode in (None, walk("a")):
        with pytest.raises(BatchError, match=r"'obs': found whole stretches.*another name"):
            Connector.add_batch_item(batch, "obs", 1, episode)
    assert batch == {"obs": column}


@pytest.mark.parametrize(
    ("column", "episode"), [([1], walk("a")), ({("a",): [1]}, None), (np.zeros(2), None), ({"left": [1]}, walk("a"))]
)
def test_a_column_has_one_form(column, episode):
    with pytest.raises(BatchError, match="A column has one form"):
        Connector.add_batch_item({"speed": column}, "speed", 1, episode)


def test_items_of_agents_are_not_added_to_a_batch_that_is_sorted_by_modules():
    with pytest.raises(BatchError, match=r"sorted by modules.*before `AgentToModuleMapping`"):
        Connector.add_batch_item({"left module": {}}, "speed", 1, team()["left"])


def test_items_of_an_episode_without_a_module_are_not_added_to_a_batch_of_the_default_module():
    with pytest.raises(BatchError, match=r"sorted by modules.*before `AgentToModuleMapping`"):
        Connector.add_batch_item({"default_policy": {"obs": [1]}}, "speed", 1, walk("a"))


def test_a_batch_is_sorted_by_modules():
    batch = {"obs": {"left": [1], "right": [2]}, "actions": {"right": [3]}}

    assert Connector.switch_batch_from_column_to_module_ids(batch) == {
        "left": {"obs": [1]},
        "right": {"obs": [2], "actions": [3]},
    }


def test_a_column_that_is_not_by_module_cannot_be_sorted():
    with pytest.raises(BatchError, match=r"'obs'.*data by module"):
        Connector.switch_batch_from_column_to_module_ids({"obs": [1]})
