"""Where stepping and reading multi-agent episodes of RLlib 2.60 goes wrong, one test each, named after what is right.

Numbers such as "silent 7" and "hard 9" count its confirmed silent errors and hard failures, "#62903" is an issue or a
pull request of ray-project/ray, and "measured" was seen when running it. Cutting, slicing and joining have a file of
their own.
"""

import json

import numpy as np
import pytest
from gymnasium import spaces

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError, EpisodeIndexError
from turn_taking import columns, play, turns

BOTH = {"a": 0, "b": 0}


def pair(**kwargs):
    """Return an episode after the reset, with two agents that may act at once."""
    episode = MultiAgentEpisode("pair", **kwargs)
    episode.add_env_reset(observations=BOTH)
    return episode


def step(episode, observations=BOTH, actions=BOTH, rewards=None, **kwargs):
    """Add a step in which both act, observe and get 1.0, but for what is given."""
    episode.add_env_step(observations, actions, {"a": 1.0, "b": 1.0} if rewards is None else rewards, **kwargs)


# --- Ends ---------------------------------------------------------------------------------------------------------


def test_all_truncated_is_not_all_terminated():
    """Silent 7: `get_truncateds()["__all__"]` returns `is_terminated`."""
    truncated, terminated = pair(), pair()
    step(truncated, truncateds={"__all__": True})
    step(terminated, terminateds={"__all__": True})

    assert truncated.get_truncateds() == {"a": True, "b": True, "__all__": True}
    assert truncated.get_terminateds() == {"a": False, "b": False, "__all__": False}
    assert terminated.get_truncateds() == {"a": False, "b": False, "__all__": False}


def test_a_truncated_agent_is_not_terminated_because_another_one_is():
    """Measured: with one agent terminated and the other truncated, the second becomes both."""
    episode = pair()
    step(episode, terminateds={"a": True}, truncateds={"b": True})

    assert episode.get_terminateds() == {"a": True, "b": False, "__all__": True}
    assert episode.get_truncateds() == {"a": False, "b": True, "__all__": False}


@pytest.mark.parametrize("flags", [True, {"__all__": True}], ids=["True", "__all__"])
def test_the_constructor_takes_one_flag_for_all_agents(flags):
    """Measured: `terminateds=True` fails with an AttributeError."""
    columns = {"observations": [BOTH, BOTH], "actions": [BOTH], "rewards": [{"a": 1.0, "b": 1.0}]}

    episode = MultiAgentEpisode(**columns, terminateds=flags, len_lookback_buffer=0)
    assert episode.get_terminateds() == {"a": True, "b": True, "__all__": True}


def test_an_agent_that_is_done_has_no_latest_observation_however_the_episode_was_built():
    """Silent 8: built by the constructor, the last observation of an agent that is done is returned for ever."""
    stepped = pair()
    step(stepped, {"a": 1, "b": 1}, terminateds={"b": True})
    step(stepped, {"a": 2}, {"a": 1}, {"a": 1.0})
    given = MultiAgentEpisode(
        "pair",
        observations=[BOTH, {"a": 1, "b": 1}, {"a": 2}],
        actions=[BOTH, {"a": 1}],
        rewards=[{"a": 1.0, "b": 1.0}, {"a": 1.0}],
        len_lookback_buffer=0,
    )

    for episode in (stepped, given):
        assert episode.get_observations(-1) == {"a": 2}
        assert episode.get_observations(-2) == {"a": 1, "b": 1}
        assert episode.env_t_to_agent_t["b"].get() == [0, 1, "S"]
        assert episode.get_terminateds() == {"a": False, "b": True, "__all__": False}


def test_an_observation_that_is_repeated_at_the_end_stands_at_no_environment_step():
    """Measured: the agent's mapping then has one entry more than there are environment steps."""
    episode = pair()
    step(episode, {"a": 1}, terminateds={"b": True})

    assert columns(episode, "b") == ([0, 0], [0], [1.0])
    assert episode.env_t_to_agent_t["b"].get() == [0, "S"]
    assert episode.get_observations(return_list=True) == [BOTH, {"a": 1}]


def test_a_truncation_without_a_last_observation_is_an_error_that_names_the_way_out():
    """#49381: some environments cannot return that observation, and RLlib only says that it is missing."""
    episode = pair()

    with pytest.raises(EpisodeError, match='missing_final_observation="repeat"'):
        step(episode, {"a": 1}, truncateds={"b": True})
    assert len(episode) == 0


def test_a_truncation_without_a_last_observation_can_repeat_the_previous_one():
    """#49381: tolerant truncation, for one agent as well as for all."""
    for flags in ({"b": True}, {"__all__": True}):
        episode = pair(missing_final_observation="repeat")
        step(episode, {"a": 1}, truncateds=flags)

        assert columns(episode, "b") == ([0, 0], [0], [1.0])
        assert episode.agent_episodes["b"].is_truncated


def test_rewards_after_the_end_of_an_agent_follow_a_policy():
    """Issue 301 of flatland-rl: an error with no way out; here one may ask to add them to the last step."""
    strict, tolerant = pair(), pair(rewards_after_done="add")
    for episode in (strict, tolerant):
        step(episode, terminateds={"b": True})

    with pytest.raises(EpisodeError, match='rewards_after_done="add"'):
        step(strict, {"a": 2}, {"a": 1})
    for _ in range(2):
        step(tolerant, {"a": 2}, {"a": 1}, {"a": 1.0, "b": 10.0})
    assert columns(tolerant, "b") == ([0, 0], [0], [21.0])


# --- Stepping -----------------------------------------------------------------------------------------------------


def test_an_agent_may_be_shown_something_new_before_it_has_acted():
    """Measured: a bare AssertionError."""
    episode = pair()
    step(episode, {"a": 1, "b": "new"}, {"a": 0}, {"a": 1.0})
    step(episode, {"a": 2, "b": 2}, {"a": 1, "b": 1})

    assert columns(episode, "b") == (["new", 2], [1], [1.0])
    assert episode.env_t_to_agent_t["b"].get() == ["S", 0, 1]


def test_a_reward_for_an_agent_that_idles_is_in_its_next_step():
    """Measured: it stays in `_hanging_rewards_end` for ever."""
    episode = pair()
    step(episode, {"a": 1}, {"a": 0}, {"a": 1.0, "b": 5.0})
    step(episode, {"a": 2, "b": 2}, {"a": 1, "b": 1})

    assert columns(episode, "b") == ([0, 2], [1], [6.0])
    assert episode._hanging_rewards_end == {}
    assert episode.get_return() == episode.get_return(include_hanging_rewards=True) == 8.0


def test_acting_twice_on_one_observation_is_an_error_with_a_message():
    """Measured: a bare AssertionError, after which the episode is half changed."""
    episode = turns(1)

    with pytest.raises(EpisodeError, match="agent 'a', environment step 2: found a second action"):
        episode.add_env_step({}, {"a": "again"}, {})
    assert episode._hanging_actions_end == {"a": "A0"}
    assert len(episode) == 1


def test_steps_can_be_added_to_a_numpyized_episode():
    """Hard 11: documented as impossible, and slow."""
    lists, arrays = turns(3), turns(3).to_numpy()
    for episode in (lists, arrays):
        play(episode, 2)

    assert arrays.is_numpy
    assert arrays.get_rewards()["b"].tolist() == lists.get_rewards()["b"] == [50.0, 90.0]
    assert arrays.agent_episodes["a"].get_actions().tolist() == ["A0", "A2"]


# --- Reading ------------------------------------------------------------------------------------------------------


def test_a_list_can_be_asked_for_one_index():
    """Hard 9: `get_observations(-1, return_list=True)` is a TypeError."""
    episode = turns()

    assert episode.get_observations(-1, return_list=True) == {"b": "b5"}
    assert episode.get_rewards(0, return_list=True) == {"a": 3.0}
    assert episode.get_extra_model_outputs("x", -1, return_list=True) == {"a": "Xa4"}


def test_without_items_of_any_agent_the_result_is_empty():
    """#62903: `get_rewards()` of an episode that is done: "list_of_structs does not contain any items"."""
    ended = MultiAgentEpisode(observations=[BOTH], terminateds=True)
    never_reset = MultiAgentEpisode()

    for episode in (ended, ended.to_numpy(), never_reset, turns(0), turns(0).to_numpy()):
        for mode in ({}, {"env_steps": False}, {"indices": slice(3, 9)}):
            assert episode.get_rewards(**mode) == episode.get_actions(**mode) == {}
        assert episode.get_rewards(return_list=True) == []
        assert episode.get_extra_model_outputs() == {}
    assert never_reset.get_observations() == {}


def test_counts_are_numbers_with_absent_agents_too():
    """#62635: an agent that is not in an episode makes the count of agent steps NaN."""
    episode = turns(5)
    absent = MultiAgentEpisode("none")
    absent.add_env_reset(observations={})
    absent.add_env_step({}, {}, {})

    assert (episode.env_steps(), episode.agent_steps()) == (5, 4)
    assert (absent.env_steps(), absent.agent_steps(), absent.get_return()) == (1, 0, 0.0)
    assert episode.get_rewards(agent_ids=["b", "nobody"]) == {"b": [50.0, 90.0]}


@pytest.mark.parametrize("mode", [{}, {"fill": ""}, {"env_steps": False}, {"return_list": True}], ids=str)
def test_all_extra_outputs_can_be_read_at_once_in_every_mode(mode):
    """Measured: `key=None` with a fill is an AttributeError, pending outputs with `env_steps=False` a TypeError."""
    episode = turns()

    everything, single = episode.get_extra_model_outputs(**mode), episode.get_extra_model_outputs("x", **mode)
    if isinstance(everything, list):
        assert everything == [{agent: {"x": x} for agent, x in row.items()} for row in single]
    else:
        assert everything == {agent: {"x": outputs} for agent, outputs in single.items()}


@pytest.mark.parametrize("index", [None, slice(None), slice(0, 9), [0, 1, 2]], ids=str)
def test_a_pending_action_is_the_last_item_of_its_agent_whatever_the_index(index):
    """Measured: with `env_steps=False`, None leaves it out, and a slice returns an array of a growing episode."""
    episode = turns()

    assert episode.get_actions(index, agent_ids="a", env_steps=False) == {"a": ["A0", "A2", "A4"]}
    assert episode.get_rewards(index, agent_ids="a", env_steps=False) == {"a": [3.0, 7.0, 5.0]}
    assert episode.get_actions(-1, env_steps=False) == {"a": "A4", "b": "B3"}


def test_numpy_integers_arrays_and_empty_lists_are_indices():
    """Hard 4: bare AssertionErrors, and a ValueError."""
    for episode in (turns(), turns().to_numpy()):
        assert episode.get_actions(np.int64(-1)) == {"a": "A4"}
        assert list(episode.get_actions(np.array([0, 2]))["a"]) == ["A0", "A2"]
        assert episode.get_actions([]) == episode.get_actions([], env_steps=False) == {}


def test_an_environment_step_that_is_not_there_is_named():
    """Measured: "list index out of range"."""
    episode = turns()

    with pytest.raises(EpisodeIndexError, match="found the environment step 6, expected one within the 6 environment"):
        episode.get_observations(6)
    assert episode.get_observations(6, fill="-") == {"a": "-", "b": "-"}


def test_vectors_and_infos_can_be_filled_without_a_space():
    """Hard 5: a ValueError once finalized."""
    episode = pair()
    step(episode, {"a": 1}, extra_model_outputs={"a": {"state": np.ones(2)}, "b": {"state": np.ones(2)}})
    step(episode, {"a": 2, "b": 2}, {"a": 1}, {"a": 1.0}, extra_model_outputs={"a": {"state": np.ones(2)}})
    episode.finalize()

    states = episode.get_extra_model_outputs("state", slice(-2, 2), neg_index_as_lookback=True, fill=0.0)
    assert states["b"].tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]
    assert list(episode.get_infos(fill={"none": True})["b"]) == [{}, {"none": True}, {}]


# --- Shapes and forms ---------------------------------------------------------------------------------------------


def test_print_takes_agents_of_any_kind_and_empty_episodes(capsys):
    """Hard 3: a TypeError for ids that are no strings, a failure without agents."""
    episode = MultiAgentEpisode()
    episode.print()
    episode.add_env_reset(observations={"long name": 0, 7: 0, ("tuple", 1): 0})
    episode.add_env_step({7: 1}, {7: 0}, {7: 0.0})
    episode.print()

    assert capsys.readouterr().out.splitlines() == [
        "ts",
        "ts           0 1",
        "long name    x",
        "7            x x",
        "('tuple', 1) x",
    ]


def test_an_empty_episode_knows_its_form():
    """Measured: `is_numpy` is a StopIteration."""
    episode = MultiAgentEpisode("none")

    assert not episode.is_numpy
    assert episode.to_numpy().is_numpy
    assert len(episode) == 0


def test_observations_of_a_numpyized_dict_space_can_be_set():
    """Hard 2: always fails."""
    space = spaces.Dict(x=spaces.Box(-9.0, 9.0, (2,), np.float32), y=spaces.Discrete(3))

    def item(value):
        return {"x": np.full(2, value, np.float32), "y": value % 3}

    episode = MultiAgentEpisode(observation_space={"a": space})
    episode.add_env_reset(observations={"a": item(0)})
    episode.add_env_step({"a": item(1)}, {"a": 0}, {"a": 0.0})

    episode.to_numpy().set_observations(new_data={"a": item(5)}, at_indices=-1)
    assert episode.get_observations()["a"]["x"].tolist() == [[0, 0], [5, 5]]
    assert episode.get_observations()["a"]["y"].tolist() == [0, 2]


def test_the_state_of_an_episode_is_plain_data():
    """#50390: episodes cannot be written to a file without pickling private objects."""
    state = turns().get_state()
    assert callable(state.pop("agent_to_module_mapping_fn"))

    text = json.dumps(state)
    again = MultiAgentEpisode.from_state({**json.loads(text), "agent_to_module_mapping_fn": None})
    assert again.get_actions(return_list=True) == turns().get_actions(return_list=True)
    assert again.module_for("a") == "mod_a"


def test_a_state_shares_nothing_with_its_episode():
    """Measured: mapping buffers and dicts go into the state by reference."""
    episode = turns(4)
    state = episode.get_state()
    again = MultiAgentEpisode.from_state(state)
    play(episode, 2)
    episode.module_for("c")

    assert again.env_t_to_agent_t["a"].get() == [0, "S", 1, "S", 2]
    assert again.get_actions(-1) == {"b": "B3"}
    assert "c" not in again._agent_to_module_mapping
