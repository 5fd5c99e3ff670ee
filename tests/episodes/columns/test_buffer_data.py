"""Writes to `buffer.data`, as code that was written for RLlib makes them."""

import copy
import operator
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import (
    EpisodeList,
    Learner,
    LookbackBuffer,
    MultiAgentEpisode,
    SingleAgentEnvRunner,
    SingleAgentEpisode,
)
from episodia.errors import EpisodeError, EpisodiaError, SpaceError
from episodia.learners import PPOConfig
from episodia.modules import DefaultActorCritic

COLUMNS = {"observations": [0, 1, 2], "actions": [5, 6], "rewards": [0.0, 1.0]}


def walk(**kwargs):
    return SingleAgentEpisode("walk", **COLUMNS, len_lookback_buffer=0, **kwargs)


@given(
    old=st.lists(st.integers(0, 9), max_size=6),
    new=st.lists(st.integers(0, 9), max_size=6),
    lookback=st.integers(0, 6),
    finalized=st.booleans(),
    gives_array=st.booleans(),
)
def test_assigned_data_are_those_of_a_new_buffer_in_the_form_of_the_old_one(old, new, lookback, finalized, gives_array):
    buffer = LookbackBuffer(old, lookback)
    if finalized:
        buffer.finalize()
    lookback = buffer.lookback

    buffer.data = np.array(new) if gives_array else new

    assert list(buffer.data) == new
    assert buffer.finalized == finalized
    assert list(buffer.get(slice(0, None))) == new[lookback:]
    buffer.append(7)
    assert list(buffer.data) == [*new, 7]


@pytest.mark.parametrize("finalize", [False, True])
def test_getters_of_an_episode_show_assigned_data_and_its_forks_do_not(finalize):
    episode = walk()
    episode = episode.finalize() if finalize else episode
    before = episode[:2]

    episode.actions.data = [8, 9]

    assert list(episode.get_actions()) == [8, 9]
    assert list(before.get_actions()) == [5, 6]
    episode.validate()


def test_what_the_caller_assigned_stays_apart_from_the_buffer():
    buffer, items = LookbackBuffer([np.zeros(2)]), [np.ones(2)]

    buffer.data = items
    items[0][:] = 5
    items.append(6)

    assert [item.tolist() for item in buffer.data] == [[1.0, 1.0]]


def test_nested_data_of_a_finalized_buffer_may_be_assigned_as_arrays():
    buffer = LookbackBuffer([{"a": 1, "b": (2.0, 3)}])
    buffer.finalize()

    buffer.data = {"a": np.array([4, 5]), "b": (np.array([6.0, 7.0]), np.array([8, 9]))}

    assert buffer[1] == {"a": 5, "b": (7.0, 9)}


def test_infos_may_be_assigned():
    episode = walk()

    episode.infos.data = [{"n": t} for t in range(3)]

    assert episode.get_infos(-1) == {"n": 2}


def test_data_outside_of_the_space_of_a_finalized_buffer_are_rejected_and_change_nothing():
    buffer = LookbackBuffer([0, 1], space=spaces.Discrete(3))
    buffer.finalize()

    with pytest.raises(SpaceError, match="inside of Discrete"):
        buffer.data = [0, 9]

    assert buffer.data.tolist() == [0, 1]


def test_another_number_of_items_than_steps_is_found_by_validate():
    episode = walk()

    episode.actions.data = [1]

    with pytest.raises(EpisodeError, match="different lengths"):
        episode.validate()


@pytest.mark.parametrize("column", ["observations", "actions", "rewards", "infos"])
@pytest.mark.parametrize("change", [1, -1])
def test_another_number_of_items_than_steps_is_rejected_by_finalize(column, change):
    episode = walk()
    buffer = getattr(episode, column)
    data = list(buffer.data)

    buffer.data = data[:-1] if change < 0 else [*data, data[-1]]

    with pytest.raises(EpisodeError, match=rf"'walk'.*'{column}': {len(data) + change}.*T actions"):
        episode.finalize()
    assert not episode.is_finalized


@pytest.mark.parametrize("column", ["observations", "actions"])
def test_another_number_of_items_than_steps_is_rejected_in_episodes_of_several_agents(column):
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0})
    episode.add_env_step(observations={"a": 1}, actions={"a": 5}, rewards={"a": 0.5})
    buffer = getattr(episode.agent_episodes["a"], column)

    buffer.data = [*buffer.data, 7]

    with pytest.raises(EpisodeError, match=f"'game', agent 'a'.*'{column}': {len(buffer)}"):
        episode.finalize()


READERS = {
    "flat": lambda episodes, column: episodes.flat(column),
    "windows": lambda episodes, column: episodes.windows(column, shifts=[-1, 0], fill=0),
    "preceding": lambda episodes, column: episodes.preceding(column, 0),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("lookback", [0, 1])
@pytest.mark.parametrize("change", [1, -1])
def test_a_learner_rejects_another_number_of_items_than_steps(read, lookback, change):
    episode = SingleAgentEpisode(
        "run", observations=range(5), actions=np.arange(4), rewards=np.ones(4), len_lookback_buffer=lookback
    )
    episode.actions.data = np.arange(4 + change)
    steps = 4 - lookback

    with pytest.raises(EpisodeError, match=f"'run': found {steps + change} items.*'actions'.*expected {steps}"):
        read(EpisodeList([episode]), "actions")


def test_the_batch_of_a_learner_never_loses_actions_in_silence():
    with SingleAgentEnvRunner("CartPole-v1", seed=0) as runner:
        episodes = runner.sample(num_timesteps=30)
    episodes[0].actions.data = np.zeros(len(episodes[0]) + 5, np.int64)
    module = DefaultActorCritic(episodes[0].observation_space, episodes[0].action_space)
    learner = Learner(module, PPOConfig())

    with pytest.raises(EpisodiaError, match=r"found.*items in the column 'actions'"):
        learner.batch_of(episodes)


IN_PLACE = {
    "an item": lambda data: operator.setitem(data, 0, 9),
    "a slice": lambda data: operator.setitem(data, slice(0, 1), [9]),
    "a deletion": lambda data: operator.delitem(data, 0),
    "+=": lambda data: operator.iadd(data, [9]),
    "*=": lambda data: operator.imul(data, 2),
    "append": lambda data: data.append(9),
    "extend": lambda data: data.extend([9]),
    "insert": lambda data: data.insert(0, 9),
    "pop": lambda data: data.pop(),
    "remove": lambda data: data.remove(1),
    "clear": lambda data: data.clear(),
    "sort": lambda data: data.sort(reverse=True),
    "reverse": lambda data: data.reverse(),
}


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_a_change_of_the_list_in_place_is_rejected_with_the_remedy(change):
    buffer = LookbackBuffer([1, 2])

    with pytest.raises(EpisodeError, match=r"would not reach the buffer.*buffer\.data = items"):
        change(buffer.data)

    assert buffer.data == [1, 2]


def test_every_method_that_changes_a_list_is_rejected():
    reading = {"copy", "count", "index"}
    data = LookbackBuffer([1]).data

    changing = {name for name in vars(list) if not name.startswith("_")} - reading
    assert {name for name in changing if getattr(data, name).__func__ is not type(data).append} == set()


def test_copies_of_the_list_are_plain():
    data = LookbackBuffer([1, 2]).data

    copies = [list(data), data[:], [*data], data.copy(), copy.deepcopy(data), pickle.loads(pickle.dumps(data))]
    assert [(type(found), found) for found in copies] == [(list, [1, 2])] * 6


# --- Fills of another type --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", ["skip", 9.9, -1, True, 2**70, b"x"], ids=repr)
@pytest.mark.parametrize("items", [[1, 2], [0.5, 1.5], ["a", "b"], [np.uint8(1), np.uint8(2)]], ids=repr)
def test_a_list_without_a_space_is_filled_with_anything(items, fill):
    buffer = LookbackBuffer(items)

    assert buffer.get(slice(-3, 1), neg_index_as_lookback=True, fill=fill) == [fill] * 3 + items[:1]
    assert buffer.get([0, 5], fill=fill) == [items[0], fill]


def test_arrays_in_a_list_are_filled_with_arrays_of_their_shape():
    buffer = LookbackBuffer([np.array([1, 2], np.uint8)])

    found = [*buffer.get([0, 1], fill=9.9), buffer.get(1, fill=-1), buffer.get(1, fill=7)]

    assert [item.tolist() for item in found] == [[1, 2], [9.9, 9.9], [-1, -1], [7, 7]]
    assert found[3].dtype == np.uint8
    assert buffer.get(1, fill="skip") == "skip"


def test_nested_items_in_a_list_are_filled_at_every_leaf():
    buffer = LookbackBuffer([{"a": 1, "b": np.zeros(2, np.int64)}])

    found = buffer.get(1, fill=0.5)

    assert found["a"] == 0.5
    assert found["b"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("fill", [{"a": 0, "b": 1}, {"a": 0}, (1, 2), [1, 2]], ids=repr)
def test_nested_items_are_not_filled_with_nested_items(is_final, fill):
    buffer = LookbackBuffer([{"a": 1, "b": 2}])
    if is_final:
        buffer.finalize()

    with pytest.raises(EpisodeError, match="expected one value, which fills a whole item"):
        buffer.get(1, fill=fill)


def test_growing_rewards_are_filled_with_anything_and_finalized_ones_with_numbers():
    episode = pickle.loads(pickle.dumps(walk()))

    assert episode.get_rewards([0, 5], fill="skip") == [0.0, "skip"]
    assert episode.get_rewards(slice(-1, 1), neg_index_as_lookback=True, fill="skip") == ["skip", 0.0]
    with pytest.raises(EpisodeError, match="fill='skip'"):
        episode.finalize().get_rewards([0, 5], fill="skip")


@pytest.mark.parametrize("fill", ["skip", 9.9], ids=repr)
def test_arrays_and_spaces_still_reject_what_they_cannot_hold(fill):
    finalized, spaced = LookbackBuffer([1, 2]), LookbackBuffer([1, 2], space=spaces.Discrete(3))
    finalized.finalize()

    for buffer in (finalized, spaced):
        with pytest.raises(EpisodeError, match="fill="):
            buffer.get(slice(0, 4), fill=fill)
