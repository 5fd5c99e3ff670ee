"""Extra model outputs that change at a cut, while an action is pending."""

import copy
import pickle

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing import assert_same_multi_agent_episode

FORMS = pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])
WAYS = {
    "itself": lambda episode: episode,
    "from a state": lambda episode: MultiAgentEpisode.from_state(episode.get_state()),
    "unpickled": lambda episode: pickle.loads(pickle.dumps(episode)),
    "fork": copy.copy,
}
BOTH = {"logp": [-1.0, 0.0], "logp_mask": [True, False], "value": [0.0, 2.5], "value_mask": [False, True]}


def acted(extras, finalized=False):
    """The agent has one complete step, and acts on the next with `extras`."""
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0})
    episode.add_env_step({"a": 1}, {"a": 0}, {"a": 1.0}, extra_model_outputs={"a": {"logp": -3.0}})
    if finalized:
        episode.finalize()
    episode.add_env_step({}, {"a": 1}, {"a": 1.0}, extra_model_outputs={"a": extras})
    return episode


def answer(episode):
    episode.add_env_step({"a": episode.env_t + 1}, {}, {})


def act(episode, extras, *, answered=True):
    observations = {"a": episode.env_t + 1} if answered else {}
    episode.add_env_step(observations, {"a": 2}, {"a": 1.0}, extra_model_outputs={"a": extras})


def outputs(episode):
    columns = episode.agent_episodes["a"].extra_model_outputs
    return {name: list(column.get()) for name, column in columns.items()}


@FORMS
@pytest.mark.parametrize("answered", [True, False], ids=["at once", "later"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_outputs_may_change_at_a_cut_also_while_an_action_is_pending(finalized, answered, way):
    chunk = way(acted({"logp": -1.0}, finalized).cut())
    answer(chunk)
    chunk = way(chunk)

    act(chunk, {"value": 2.5}, answered=answered)
    if not answered:
        answer(chunk)

    assert outputs(chunk) == BOTH
    chunk.validate()


def test_further_steps_have_the_new_outputs_only():
    chunk = acted({"logp": -1.0}).cut()
    answer(chunk)
    for value in (2.5, 3.5):
        act(chunk, {"value": value})

    assert outputs(chunk) == {
        "logp": [-1.0, 0.0, 0.0],
        "logp_mask": [True, False, False],
        "value": [0.0, 2.5, 3.5],
        "value_mask": [False, True, True],
    }


def test_outputs_may_come_or_go_altogether():
    comes, goes = acted({"logp": -1.0}).cut(), acted({"logp": -1.0}).cut()
    for chunk, extras in ((comes, {"logp": -2.0, "value": np.ones(2)}), (goes, {})):
        answer(chunk)
        act(chunk, extras)

    assert outputs(goes) == {"logp": [-1.0, 0.0], "logp_mask": [True, False]}
    assert outputs(comes)["logp"] == [-1.0, -2.0]
    assert [row.tolist() for row in outputs(comes)["value"]] == [[0.0, 0.0], [1.0, 1.0]]
    assert outputs(comes)["value_mask"] == [False, True]


@FORMS
def test_chunks_with_masked_outputs_are_joined_as_others_are(finalized):
    first = acted({"logp": -1.0}, finalized)
    chunk = first.cut()
    answer(chunk)
    act(chunk, {"value": 2.5})

    first.concat_episode(chunk)

    assert outputs(first) == {
        "logp": [-3.0, -1.0, 0.0],
        "logp_mask": [True, True, False],
        "value": [0.0, 0.0, 2.5],
        "value_mask": [False, False, True],
    }


def test_outputs_do_not_change_a_second_time_within_the_chunk():
    chunk = acted({"logp": -1.0}).cut()
    answer(chunk)
    act(chunk, {"value": 2.5})

    with pytest.raises(EpisodeError, match=r"'a', .* found the extra model outputs \['other'\]"):
        act(chunk, {"other": 0.0})


def test_outputs_do_not_change_within_a_chunk_that_began_with_its_own_step():
    episode = acted({"logp": -1.0})
    answer(episode)

    for answered in (True, False):
        with pytest.raises(EpisodeError, match=r"found the extra model outputs \['value'\], expected \['logp'\]"):
            act(episode, {"value": 2.5}, answered=answered)


@FORMS
def test_a_rejected_step_leaves_no_mask_behind(finalized):
    chunk = acted({"logp": -1.0}, finalized).cut()
    answer(chunk)
    before = copy.deepcopy(chunk)

    with pytest.raises(EpisodeError):
        chunk.add_env_step({"a": 5}, {"a": 2}, {"a": "much"}, extra_model_outputs={"a": {"value": 2.5}})
    with pytest.raises(EpisodeError):  # of an agent whose name is taken, when a's part is stored already
        chunk.add_env_step({"a": 5, "__all__": 0}, {"a": 2}, {"a": 1.0}, extra_model_outputs={"a": {"value": 2.5}})

    assert_same_multi_agent_episode(chunk, before)


@pytest.mark.parametrize("end", [{}, {"terminateds": {"a": True}}], ids=["goes on", "ends"])
@pytest.mark.parametrize("outputs", [{}, {"a": {}}, {"a": {"other": 5.0}}], ids=str)
@pytest.mark.parametrize("waits_again", [False, True])
def test_outputs_may_change_after_the_step_that_was_carried_over(end, outputs, waits_again):
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0})
    episode.add_env_step({}, {"a": 1}, {}, extra_model_outputs={"a": {"tag": 1.0}})
    chunk = episode.cut()
    chunk.add_env_step({"a": 2}, {}, {"a": 1.0})
    if waits_again:
        chunk.add_env_step({}, {"a": 3}, {}, extra_model_outputs=outputs)
        chunk.add_env_step({"a": 4}, {}, {"a": 1.0}, **end)
    else:
        chunk.add_env_step({"a": 4}, {"a": 3}, {"a": 1.0}, extra_model_outputs=outputs, **end)

    single = chunk.agent_episodes["a"]
    assert single.get_actions() == [1, 3]
    assert single.get_extra_model_outputs("tag") == [1.0, 0.0]
    assert single.get_extra_model_outputs("tag_mask") == [True, False]
