"""Items that plugins add one by one become the column of all episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drives import drive
from episodia import EpisodeList, MultiAgentEpisode
from episodia.connectors.batches.batch_columns import split_by_module
from episodia.connectors.batches.batch_items import as_ragged
from episodia.connectors.connector_v2 import ConnectorV2
from episodia.errors import BatchError

episodes = EpisodeList([drive(2, 0), drive(0, 1), drive(3, 2)])


def test_items_under_episode_ids_become_rows_in_the_order_of_the_episodes():
    batch = {}
    for number in (2, 0, 1):
        for t in range(len(episodes[number])):
            ConnectorV2.add_batch_item(batch, "x", 10 * number + t, episodes[number])

    column = as_ragged(batch["x"], episodes)

    assert [part.tolist() for part in column.split()] == [[0, 1], [], [20, 21, 22]]


def test_arrays_of_items_are_joined_and_not_stacked():
    batch = {}
    chunks = EpisodeList([drive(2, 0), drive(3, 2)])
    for episode in chunks:
        ConnectorV2.add_n_batch_items(batch, "x", np.full((len(episode), 2), len(episode)), len(episode), episode)

    assert as_ragged(batch["x"], chunks).values[:, 0].tolist() == [2, 2, 3, 3, 3]


def test_a_plain_list_has_one_item_for_each_step():
    assert [part.tolist() for part in as_ragged([1, 2, 3, 4, 5], episodes).split()] == [[1, 2], [], [3, 4, 5]]


def test_one_item_more_for_each_episode_is_its_tail():
    column = as_ragged(list(range(8)), episodes)

    assert column.tails().tolist() == [2, 3, 7]
    assert column.items() == [0, 1, 4, 5, 6]


def test_tensors_stay_tensors():
    column = as_ragged([torch.ones(2)] * 5, episodes)

    assert torch.equal(column.values, torch.ones(5, 2))


def test_two_chunks_of_one_episode_share_a_list_in_order():
    first = drive(2, 0)
    second = first.cut()
    second.add_env_step(np.zeros(2, np.float32), 0, 0.0, {}, extra_model_outputs={"action_logp": 0.0})
    chunks = EpisodeList([second, first])
    batch = {}
    for value, episode in enumerate([second, first, first]):
        ConnectorV2.add_batch_item(batch, "x", value, episode)

    assert [part.tolist() for part in as_ragged(batch["x"], chunks).split()] == [[0], [1, 2]]


def test_a_wrong_number_of_items_is_rejected_with_both_numbers():
    with pytest.raises(BatchError, match=r"found 4 items .* expected 5: one for each of the rows of 3 episodes"):
        as_ragged([1, 2, 3, 4], episodes)


def test_an_episode_without_items_is_named():
    batch = {}
    ConnectorV2.add_batch_item(batch, "x", 1, episodes[0])

    with pytest.raises(BatchError, match="no items for the episode 'drive-2-3'"):
        as_ragged(batch["x"], episodes)


def test_a_list_for_all_agents_is_split_by_module():
    game = MultiAgentEpisode(
        observations=[{"a": 0, "b": 1}, {"a": 2, "b": 3}, {"a": 4, "b": 5}],
        actions=[{"a": 0, "b": 0}] * 2,
        rewards=[{"a": 0.0, "b": 0.0}] * 2,
        len_lookback_buffer=0,
        agent_to_module_mapping_fn=lambda agent, _: f"module of {agent}",
    )

    split = split_by_module([1, 2, 3, 4], EpisodeList([game]))

    assert {module: column.items() for module, column in split.items()} == {
        "module of a": [1, 2],
        "module of b": [3, 4],
    }


def test_one_item_too_many_here_and_one_too_few_there_is_an_error_that_names_the_episode():
    batch = {}
    chunks = EpisodeList([drive(2, 0), drive(3, 2)])
    for episode, count in zip(chunks, (1, 4), strict=True):
        ConnectorV2.add_n_batch_items(batch, "x", np.zeros(count), count, episode)

    with pytest.raises(BatchError, match=r"found 1 items for the episode \('drive-0-2',\), expected 2"):
        as_ragged(batch["x"], chunks)
