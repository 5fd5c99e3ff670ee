"""Extra model outputs that come and go between the chunks of one episode: filled, and masked."""

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from episodia import SingleAgentEpisode
from episodia.errors import EpisodeError, SpaceError


def chunks_with(*outputs, finalize=False):
    """Return the chunks of one episode, each of two steps with its own extra outputs."""
    chunks = [SingleAgentEpisode("walk")]
    chunks[0].add_env_reset(0)
    for number, extras in enumerate(outputs):
        if number:
            chunks.append(chunks[-1].cut(len_lookback_buffer=1))
        for t in range(2):
            chunks[-1].add_env_step(2 * number + t + 1, 0, 0.0, extra_model_outputs=extras)
    return [chunk.finalize() if finalize else chunk for chunk in chunks]


def joined(chunks):
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole.concat_episode(chunk)
    whole.validate()
    return whole


def columns_of(episode):
    return {key: np.array(column.get()).tolist() for key, column in episode.extra_model_outputs.items()}


@pytest.mark.parametrize("finalize", [False, True])
def test_a_column_that_goes_is_filled_and_masked(finalize):
    whole = joined(chunks_with({"logp": -1.0}, {}, finalize=finalize))

    assert columns_of(whole) == {"logp": [-1, -1, 0, 0], "logp_mask": [True, True, False, False]}
    assert whole.is_finalized is finalize


@pytest.mark.parametrize("finalize", [False, True])
def test_a_column_that_comes_is_filled_and_masked(finalize):
    whole = joined(chunks_with({}, {"logits": np.array([1.0, 2.0])}, finalize=finalize))

    assert columns_of(whole) == {
        "logits": [[0, 0], [0, 0], [1, 2], [1, 2]],
        "logits_mask": [False, False, True, True],
    }


def test_a_column_that_comes_back_keeps_its_one_mask():
    whole = joined(chunks_with({"logp": -1.0}, {}, {"logp": -2.0}))

    assert columns_of(whole) == {
        "logp": [-1, -1, 0, 0, -2, -2],
        "logp_mask": [True, True, False, False, True, True],
    }


def test_the_order_of_joining_makes_no_difference():
    outputs = ({"logp": -1.0}, {}, {"logp": -2.0, "value": 5.0}, {"value": 6.0})
    from_the_left = joined(chunks_with(*outputs))
    first, *rest = chunks_with(*outputs)

    first.concat_episode(joined(rest))

    assert columns_of(first) == columns_of(from_the_left)
    assert columns_of(first)["value_mask"] == [False] * 4 + [True] * 4


def test_columns_that_stay_get_no_mask():
    assert columns_of(joined(chunks_with({"logp": -1.0}, {"logp": -2.0}))) == {"logp": [-1, -1, -2, -2]}


@pytest.mark.parametrize("finalize", [False, True])
def test_a_chunk_without_steps_has_nothing_to_mask(finalize):
    chunk = SingleAgentEpisode("walk")
    chunk.add_env_reset(0)
    whole = chunk.cut()
    chunk.add_env_step(1, 0, 0.0, extra_model_outputs={"logp": -1.0})
    if finalize:
        whole, chunk = whole.finalize(), chunk.finalize()

    whole.concat_episode(chunk)

    assert columns_of(whole) == {"logp": [-1.0]}


def test_nested_and_textual_outputs_are_filled_with_zeros_and_none():
    whole = joined(chunks_with({}, {"out": {"state": (np.ones(2, np.float32), 3), "word": "go"}}))

    filled, real = whole.get_extra_model_outputs("out", [0, 3])
    assert filled["state"][0].tolist() == [0, 0]
    assert filled["state"][0].dtype == np.float32
    assert (filled["state"][1], filled["word"]) == (0, None)
    assert (real["state"][1], real["word"]) == (3, "go")


@pytest.mark.parametrize(("first", "second"), [(False, True), (True, False)])
def test_a_joined_episode_has_one_form(first, second):
    chunks = chunks_with({"logp": -1.0}, {"value": 2.0})
    forms = [chunk.finalize() if wanted else chunk for chunk, wanted in zip(chunks, (first, second), strict=True)]

    whole = joined(forms)

    kinds = {type(column.get()) for column in whole.extra_model_outputs.values()}
    assert kinds == {np.ndarray if first else list}
    assert columns_of(whole.finalize())["value_mask"] == [False, False, True, True]


def test_a_column_of_the_chunk_before_can_still_be_looked_back_at_until_the_first_step():
    chunk = chunks_with({"logp": -1.0})[0].cut(1)

    assert chunk.get_extra_model_outputs("logp", -1) == -1.0
    chunk.add_env_step(3, 0, 0.0)
    assert "logp" not in chunk.extra_model_outputs


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "infos"])
def test_an_extra_output_with_the_name_of_another_column_hides_nothing_of_it(name):
    episode = SingleAgentEpisode("walk", action_space=Discrete(3))
    episode.add_env_reset(0)
    episode.add_env_step(1, 2, 0.5, extra_model_outputs={name: 7})

    episode.finalize()

    columns = [episode.get_observations(), episode.get_actions(), episode.get_rewards()]
    assert [type(column) for column in columns] == [np.ndarray] * 3
    assert [column.tolist() for column in columns] == [[0, 1], [2], [0.5]]
    assert episode.get_extra_model_outputs(name).tolist() == [7]


def test_bounds_and_lengths_are_checked_whatever_extra_outputs_are_called():
    columns = {"observations": [0, 1], "actions": [9], "rewards": [0.0], "len_lookback_buffer": 0}
    outside = SingleAgentEpisode(**columns, action_space=Discrete(3), extra_model_outputs={"actions": [1]})
    with pytest.raises(SpaceError, match="actions"):
        outside.validate()
    with pytest.raises(EpisodeError, match="'actions': 2"):
        SingleAgentEpisode(**{**columns, "actions": [1, 2]}, extra_model_outputs={"actions": [1]})


def test_a_damaged_column_in_a_state_is_found_behind_an_extra_output_of_its_name():
    episode = SingleAgentEpisode("walk")
    episode.add_env_reset(0)
    episode.add_env_step(1, 2, 0.5, extra_model_outputs={"actions": 7})
    state = episode.get_state()
    state["actions"] = {}

    with pytest.raises(EpisodeError, match="column 'actions'"):
        SingleAgentEpisode.from_state(state)
