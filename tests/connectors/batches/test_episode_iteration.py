"""RLlib's helper that goes through single-agent episodes, alone or together with a batch column."""

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from episodia.connectors import ConnectorV2
from episodia.episodes.lists.episode_list import EpisodeList
from episodia.episodes.lists.ragged import Ragged, offsets_of
from episodia.errors import BatchError
from tiny_connectors import walk

iterate = ConnectorV2.single_agent_episode_iterator


def game(id_="game"):
    """Return an episode in which 'left' rests at the last step, and 'done' has ended there."""
    episode = MultiAgentEpisode(id_, agent_to_module_mapping_fn=lambda _agent, _: "module")
    episode.add_env_reset(observations={"left": 0, "right": 0, "done": 0})
    episode.add_env_step(
        observations={"right": 1, "done": 1},
        actions={"left": 0, "right": 0, "done": 0},
        rewards={"right": 0.0, "done": 0.0},
        terminateds={"done": True},
    )
    return episode


def agents(pairs):
    return [pair[0].agent_id if isinstance(pair, tuple) else pair.agent_id for pair in pairs]


def test_single_agent_episodes_are_yielded_as_they_are():
    episodes = [walk("a"), walk("b")]

    assert list(iterate(episodes)) == list(iterate(EpisodeList(episodes))) == episodes


def test_of_multi_agent_episodes_only_agents_that_stepped_are_yielded():
    assert agents(iterate([game(), game()])) == ["right", "done"] * 2


def test_of_multi_agent_episodes_all_agents_are_yielded_on_demand():
    assert agents(iterate([game()], agents_that_stepped_only=False)) == ["left", "right", "done"]


def test_no_episodes_yield_nothing():
    assert list(iterate([])) == list(iterate([], zip_with_batch_column=[])) == []


def test_episodes_are_paired_with_the_items_of_a_list():
    episodes = [walk("a"), walk("b")]

    assert list(iterate(episodes, zip_with_batch_column=[5, 6])) == list(zip(episodes, [5, 6], strict=True))


def test_episodes_are_paired_with_items_by_their_ids():
    a, b = walk("a"), walk("b")

    assert list(iterate([a, b], zip_with_batch_column={("b",): [6], ("a",): [5]})) == [(a, 5), (b, 6)]


def test_two_chunks_of_one_episode_get_the_first_and_the_second_item():
    chunks = [walk("a"), walk("a")]

    assert [item for _, item in iterate(chunks, zip_with_batch_column={("a",): [5, 6]})] == [5, 6]


def test_agents_are_paired_with_items_by_episode_agent_and_module():
    column = {("game", "right", "module"): [5], ("game", "done", "module"): [6], ("game", "left", "module"): [7]}

    assert [item for _, item in iterate([game()], zip_with_batch_column=column)] == [5, 6]


def test_episodes_are_paired_with_the_rows_of_stretches():
    episodes = [walk("a"), walk("b")]
    column = Ragged({"x": np.array([5, 6])}, offsets_of([1, 1]))

    assert list(iterate(episodes, zip_with_batch_column=column)) == [(episodes[0], {"x": 5}), (episodes[1], {"x": 6})]


def test_agents_are_paired_with_the_rows_of_stretches_of_all_agents():
    column = Ragged(np.array([5, 6, 7]), offsets_of([1, 1, 1]))

    pairs = list(iterate([game()], zip_with_batch_column=column))
    assert [(episode.agent_id, item) for episode, item in pairs] == [("right", 6), ("done", 7)]


def test_at_the_present_moment_agents_that_do_not_act_have_no_row_and_are_left_out():
    column = Ragged(np.array([5]), offsets_of([1]))

    pairs = list(iterate(EpisodeList([game()]).current(), zip_with_batch_column=column))
    assert [(episode.agent_id, item) for episode, item in pairs] == [("right", 5)]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([5], "1 items for 2 episodes"),
        ([5, 6, 7], "3 items for 2 episodes"),
        ({("a",): [5]}, "no item for the episode"),
        ({("a",): [5], ("b",): []}, "no item for the episode"),
        (Ragged(np.zeros(3), offsets_of([1, 1, 1])), "3 stretches for 2 episodes"),
        (Ragged(np.zeros(3), offsets_of([1, 2])), r"other lengths than one row.*`column.split\(\)`"),
        (Ragged(np.zeros(4), offsets_of([2, 2]), 1), "other lengths than one row"),
    ],
)
def test_a_column_that_does_not_fit_is_rejected(column, message):
    with pytest.raises(BatchError, match=f"`zip_with_batch_column`: found .*{message}"):
        list(iterate([walk("a"), walk("b")], zip_with_batch_column=column))
