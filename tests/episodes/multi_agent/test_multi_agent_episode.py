"""Every method of a multi-agent episode as a user reads about it; parts, errors and looks have files of their own."""

import time

import numpy as np
import pytest
from gymnasium import spaces

from episodia import MultiAgentEpisode, SingleAgentEpisode
from turn_taking import by_first_letter, columns, play, turns


def lists(**kwargs):
    """Return what `turns(5)` was made of, as the constructor takes it."""
    return {
        "observations": [{"a": "a0"}, {"b": "b1"}, {"a": "a2"}, {"b": "b3"}, {"a": "a4"}, {"b": "b5"}],
        "actions": [{"a": "A0"}, {"b": "B1"}, {"a": "A2"}, {"b": "B3"}, {"a": "A4"}],
        "rewards": [{"a": t, "b": 10.0 * t} for t in (1.0, 2.0, 3.0, 4.0, 5.0)],
        "len_lookback_buffer": 0,
        **kwargs,
    }


# --- Building -----------------------------------------------------------------------------------------------------


def test_an_episode_from_lists_is_the_one_built_step_by_step():
    infos = [{"a": {"i": "a0"}}, *({agent: {"i": f"{agent}{t}"}} for t, agent in enumerate("babab", 1))]
    outputs = [{agent: {"x": f"X{agent}{t}"}} for t, agent in enumerate("ababa")]
    given = MultiAgentEpisode("game", **lists(infos=infos, extra_model_outputs=outputs))

    for name in ("observations", "infos", "actions", "rewards", "extra_model_outputs"):
        assert getattr(given, f"get_{name}")() == getattr(turns(), f"get_{name}")()
    assert given._hanging_actions_end == {"a": "A4"}
    assert (given.env_t_started, given.env_t, len(given)) == (0, 5, 5)


def test_lists_are_the_past_by_default():
    episode = MultiAgentEpisode(**lists(len_lookback_buffer="auto", env_t_started=50, agent_t_started={"a": 20}))

    assert (len(episode), episode.env_t_started, episode.env_t) == (0, 50, 50)
    assert episode.get_observations() == {"b": ["b5"]}
    assert episode.get_observations(slice(-3, None)) == {"a": ["a4"], "b": ["b3", "b5"]}
    assert episode.agent_t_started == {"a": 20, "b": 0}
    assert episode.env_t_to_agent_t["a"].get(-1, neg_index_as_lookback=True) == 20


def test_a_part_of_the_lists_can_be_the_past():
    episode = MultiAgentEpisode(**lists(len_lookback_buffer=2))

    assert len(episode) == 3
    assert episode.get_observations(0) == {"a": "a2"}
    assert columns(episode, "b") == (["b3", "b5"], ["B3"], [90.0])
    assert episode.get_actions(-2, neg_index_as_lookback=True) == {"a": "A0"}


def test_in_lists_an_agent_that_stops_answering_has_terminated_unless_it_is_said_not_to_have():
    """An environment that shows nothing more to an agent, and asks nothing, is done with it."""
    data = {
        "observations": [{"a": 0, "b": 0}, {"a": 1, "b": 1}, {"a": 2}],
        "actions": [{"a": 0, "b": 0}, {"a": 1}],
        "rewards": [{"a": 0.0, "b": 0.0}, {"a": 0.0}],
        "len_lookback_buffer": 0,
    }

    assert MultiAgentEpisode(**data).get_terminateds() == {"a": False, "b": True, "__all__": False}
    assert not any(MultiAgentEpisode(**data, terminateds={"b": False}).get_terminateds().values())
    truncated = MultiAgentEpisode(**data, truncateds={"b": True})
    assert (truncated.get_terminateds()["b"], truncated.get_truncateds()["b"]) == (False, True)


def test_in_lists_the_last_agent_may_leave_before_the_next_comes():
    episode = MultiAgentEpisode(
        observations=[{"a": 0}, {"a": 1}, {"b": 2}, {"b": 3}],
        actions=[{"a": 0}, {}, {"b": 0}],
        rewards=[{"a": 1.0}, {}, {"b": 1.0}],
        len_lookback_buffer=0,
    )

    assert episode.get_terminateds() == {"a": True, "b": False, "__all__": False}


def test_the_four_cases_of_a_step():
    """`both` acts and observes, `acts` only acts, `sees` only observes, `idle` does neither but is paid."""
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations=dict.fromkeys(["both", "acts", "sees", "idle"], 0))
    episode.add_env_step({"both": 1}, {"both": 0, "acts": 0, "sees": 0}, {"both": 1.0, "acts": 1.0, "sees": 1.0})
    pays = dict.fromkeys(["both", "acts", "sees", "idle"], 10.0)
    episode.add_env_step({"both": 2, "sees": 2}, {"both": 1}, pays)

    assert columns(episode, "both") == ([0, 1, 2], [0, 1], [1.0, 10.0])
    assert columns(episode, "sees") == ([0, 2], [0], [11.0])
    assert columns(episode, "acts") == columns(episode, "idle") == ([0], [], [])
    assert episode._hanging_actions_end == {"acts": 0}
    assert episode._hanging_rewards_end == {"acts": 11.0, "idle": 10.0}


def test_an_agent_that_is_new_starts_with_its_first_observation():
    episode = turns(2)
    episode.add_env_step({"late": 7}, {}, {"late": 0.5}, {"late": {"from": "the left"}})

    assert episode.agent_episodes["late"].get_observations() == [7]
    assert episode.get_infos(-1) == {"late": {"from": "the left"}}
    assert episode.env_t_to_agent_t["late"].get() == ["S", "S", "S", 0]
    assert episode._hanging_rewards_begin["late"] == 0.5


def test_infos_wait_for_the_next_observation_of_their_agent():
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0}, infos={"a": {"n": 0}, "b": {"seed": 3}})
    episode.add_env_step({"b": 1}, {"a": 0}, {"a": 0.0}, {"b": {"n": 1}, "a": {"tip": "wait"}})
    episode.add_env_step({"a": 2}, {"b": 0}, {"b": 0.0}, {"a": {"n": 2}})

    assert episode.get_infos() == {"a": [{"n": 0}, {"tip": "wait", "n": 2}], "b": [{"seed": 3, "n": 1}]}


def test_what_concerns_only_an_agent_that_waits_is_stored_while_another_acts():
    """A termination, an info, a reward: all alone in their dict, beside an agent that acts and observes."""
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations=dict.fromkeys("abc", 0))
    episode.add_env_step({"a": 1}, {"a": 0, "b": 0, "c": 0}, {"a": 0.0})
    episode.add_env_step({"a": 2}, {"a": 1}, {"a": 0.0}, {"c": {"tip": 1}}, terminateds={"b": True})
    episode.add_env_step({"a": 3, "c": 3}, {"a": 2}, {"a": 0.0})

    assert episode.get_terminateds() == {"a": False, "b": True, "c": False, "__all__": False}
    assert episode.get_infos(-1, agent_ids="c") == {"c": {"tip": 1}}


def test_infos_for_all_agents_together_make_no_agent():
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0}, infos={"__common__": {"wind": 3}})
    episode.add_env_step({"a": 1}, {"a": 0}, {"a": 0.0}, {"__common__": {"wind": 4}})

    assert episode.agent_ids == set(episode.get_infos()) == {"a"}
    assert list(episode.roster.records) == ["a"]
    assert episode.roster.records["a"].pending is None


def test_the_episode_ends_with_its_last_agent():
    """Terminated if any agent has terminated, truncated if all were truncated."""
    for flags, how in ((("terminateds", "truncateds"), "terminated"), (("truncateds", "truncateds"), "truncated")):
        episode = MultiAgentEpisode()
        episode.add_env_reset(observations={"a": 0, "b": 0})
        episode.add_env_step({"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": 0, "b": 0}, **{flags[0]: {"a": True}})
        assert not episode.is_done
        episode.add_env_step({"b": 2}, {"b": 0}, {"b": 0}, **{flags[1]: {"b": True}})

        assert episode.is_done
        assert (episode.is_terminated, episode.is_truncated) == (how == "terminated", how == "truncated")


@pytest.mark.parametrize(
    ("yes", "no"),
    [(np.True_, np.False_), (1, 0), (np.int8(1), np.int8(0)), (np.array(True), np.array(False))],
    ids=repr,
)
def test_flags_may_come_from_numpy(yes, no):
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0, "b": 0, "c": 0})
    episode.add_env_step(
        dict.fromkeys("abc", 1),
        dict.fromkeys("abc", 0),
        dict.fromkeys("abc", 0.0),
        terminateds={"a": yes, "b": no, "__all__": no},
        truncateds={"b": yes, "c": None},
    )

    assert episode.get_terminateds() == {"a": True, "b": False, "c": False, "__all__": False}
    assert episode.get_truncateds() == {"a": False, "b": True, "c": False, "__all__": False}
    assert {*map(type, episode.get_terminateds().values()), *map(type, episode.get_truncateds().values())} == {bool}


def test_the_end_of_an_agent_that_was_never_seen_ends_nothing():
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={})
    episode.add_env_step({}, {}, {"ghost": 1.0}, terminateds={"ghost": True})

    assert not episode.is_done
    assert episode.agent_ids == set()
    assert episode._hanging_rewards_begin == {"ghost": 1.0}


# --- Reading ------------------------------------------------------------------------------------------------------

OBSERVATIONS = {
    "all": ({}, {"a": ["a0", "a2", "a4"], "b": ["b1", "b3", "b5"]}),
    "one environment step": ({"indices": 2}, {"a": "a2"}),
    "the last": ({"indices": -1}, {"b": "b5"}),
    "a slice": ({"indices": slice(-3, None)}, {"a": ["a4"], "b": ["b3", "b5"]}),
    "a slice of one agent's steps": ({"indices": slice(0, 5, 2)}, {"a": ["a0", "a2", "a4"]}),
    "some": ({"indices": [0, -1]}, {"a": ["a0"], "b": ["b5"]}),
    "one agent": ({"agent_ids": "a"}, {"a": ["a0", "a2", "a4"]}),
    "some agents": ({"indices": -1, "agent_ids": ["a", "b"]}, {"b": "b5"}),
    "an unknown agent": ({"agent_ids": "nobody"}, {}),
    "filled": ({"indices": slice(4, 7), "fill": "-"}, {"a": ["a4", "-", "-"], "b": ["-", "b5", "-"]}),
    "one filled": ({"indices": -1, "fill": "-"}, {"a": "-", "b": "b5"}),
    "a list": (
        {"return_list": True},
        [{"a": "a0"}, {"b": "b1"}, {"a": "a2"}, {"b": "b3"}, {"a": "a4"}, {"b": "b5"}],
    ),
    "a list of one agent": ({"indices": slice(4, 6), "agent_ids": "b", "return_list": True}, [{}, {"b": "b5"}]),
    "a filled list": (
        {"indices": slice(4, 6), "fill": "-", "return_list": True},
        [{"a": "a4", "b": "-"}, {"a": "-", "b": "b5"}],
    ),
    "an agent's own step": ({"indices": 1, "env_steps": False}, {"a": "a2", "b": "b3"}),
    "own steps": ({"indices": slice(-2, None), "env_steps": False}, {"a": ["a2", "a4"], "b": ["b3", "b5"]}),
    "own steps, filled": ({"indices": [2, 3], "env_steps": False, "fill": "-"}, {"a": ["a4", "-"], "b": ["b5", "-"]}),
}


@pytest.mark.parametrize("form", [lambda episode: episode, lambda episode: episode.finalize()], ids=["lists", "arrays"])
@pytest.mark.parametrize(("query", "expected"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_observations_are_read_by_environment_steps_or_by_agent_steps(form, query, expected):
    found = form(turns()).get_observations(**query)

    if isinstance(found, dict):
        found = {agent: items.tolist() if isinstance(items, np.ndarray) else items for agent, items in found.items()}
    assert found == expected


def test_infos_are_read_like_observations():
    episode = turns()

    assert episode.get_infos(-1) == {"b": {"i": "b5"}}
    assert episode.get_infos(slice(0, 2), return_list=True) == [{"a": {"i": "a0"}}, {"b": {"i": "b1"}}]
    assert episode.get_infos(0, env_steps=False) == {"a": {"i": "a0"}, "b": {"i": "b1"}}


def test_actions_rewards_and_outputs_stand_where_the_observation_is_that_they_answer():
    """The last environment step has no action yet, so there is one fewer of each."""
    episode = turns()

    assert episode.get_actions(-1) == {"a": "A4"}  # pending
    assert episode.get_rewards(-1) == {"a": 5.0}  # so far
    assert episode.get_extra_model_outputs("x", -1) == {"a": "Xa4"}
    assert episode.get_rewards(return_list=True) == [{"a": 3.0}, {"b": 50.0}, {"a": 7.0}, {"b": 90.0}, {"a": 5.0}]
    assert episode.get_extra_model_outputs(indices=[0, 1]) == {"a": {"x": ["Xa0"]}, "b": {"x": ["Xb1"]}}


def test_a_window_may_reach_over_both_ends():
    chunk = turns(4).cut(2)
    play(chunk, 1)

    window = {"indices": slice(-3, 3), "neg_index_as_lookback": True}
    assert chunk.get_actions(**window) == {"a": ["A2", "A4"], "b": ["B3"]}
    assert chunk.get_actions(**window, fill="-") == {
        "a": ["-", "A2", "-", "A4", "-", "-"],
        "b": ["-", "-", "B3", "-", "-", "-"],
    }


def test_discrete_actions_can_be_read_as_one_hot_vectors():
    episode = MultiAgentEpisode(action_space={"a": spaces.Discrete(3), "b": spaces.Discrete(2)})
    episode.add_env_reset(observations={"a": 0, "b": 0})
    episode.add_env_step({"a": 1}, {"a": 2, "b": 1}, {"a": 0.0})

    hot = episode.get_actions(0, one_hot_discrete=True)
    assert {agent: vector.tolist() for agent, vector in hot.items()} == {"a": [0, 0, 1], "b": [0, 1]}


def test_arrays_that_come_out_are_read_only_and_those_that_go_in_are_copied():
    seen, acted = np.zeros(2), np.zeros(2)
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": seen})
    episode.add_env_step({}, {"a": acted}, {})
    seen[:] = acted[:] = 9.0

    for items in (episode.get_observations(0), episode.get_actions(0), episode._hanging_actions_end):
        assert items["a"].tolist() == [0.0, 0.0]
        assert not items["a"].flags.writeable


def test_who_is_to_act_and_who_was_shown_something():
    episode = turns(2)
    assert episode.get_agents_to_act() == episode.get_agents_that_stepped() == {"a"}

    play(episode, 1, terminateds={"b": True})
    assert episode.get_agents_to_act() == set()
    assert episode.get_agents_that_stepped() == {"b"}


def test_the_return_may_include_what_is_not_in_a_complete_step():
    """b's first reward came before its first observation; a's last belongs to an action that is pending."""
    episode = turns(5)

    assert episode.get_return() == 3.0 + 7.0 + 50.0 + 90.0
    assert episode._hanging_rewards_begin == {"b": 10.0}
    assert episode._hanging_rewards_end == {"a": 5.0}
    assert episode.get_return(include_hanging_rewards=True) == episode.get_return() + 10.0 + 5.0 == 15.0 * 11


def test_time_is_taken_from_the_reset_to_the_last_step():
    assert MultiAgentEpisode().get_duration_s() == turns(0).get_duration_s() == 0.0
    episode = turns(1)
    time.sleep(0.002)
    play(episode, 1)

    assert 0.002 <= episode.get_duration_s() < 60.0


# --- Writing ------------------------------------------------------------------------------------------------------


def test_setters_write_at_the_agents_own_steps():
    for episode in (turns(), turns().finalize()):
        episode.set_observations(new_data={"a": "new", "b": "newer"}, at_indices=-1)
        episode.set_actions(new_data={"b": ["B1!", "B3!"]})
        episode.set_rewards(new_data={"a": [0.5, 0.25]}, at_indices=[0, 1])
        episode.set_extra_model_outputs(key="x", new_data={"a": "X!"}, at_indices=0)

        assert episode.get_observations(-1, env_steps=False) == {"a": "new", "b": "newer"}
        assert list(episode.agent_episodes["b"].get_actions()) == ["B1!", "B3!"]
        assert list(episode.agent_episodes["a"].get_rewards()) == [0.5, 0.25]
        assert list(episode.agent_episodes["a"].get_extra_model_outputs("x")) == ["X!", "Xa2"]
        assert episode._hanging_actions_end == {"a": "A4"}


def test_setters_reach_into_the_lookback():
    chunk = turns(5).cut(3)
    chunk.set_rewards(new_data={"a": 0.5, "b": 0.25}, at_indices=-1, neg_index_as_lookback=True)

    assert chunk.get_rewards(slice(-3, None)) == {"a": [0.5, 5.0], "b": [0.25]}


# --- What it is ---------------------------------------------------------------------------------------------------


def test_steps_are_counted_on_both_clocks():
    episode = turns()

    assert len(episode) == episode.env_steps() == 5
    assert episode.agent_steps() == 4
    assert episode.SKIP_ENV_TS_TAG == "S"
    assert episode.env_t_to_agent_t["b"].get() == ["S", 0, "S", 1, "S", 2]


def test_agents_have_episodes_with_ids_of_their_own():
    given = MultiAgentEpisode("game", agent_episode_ids={"a": "mine"})
    given.add_env_reset(observations={"a": 0, 1: 0})

    assert given.agent_ids == {"a", 1}
    assert given.agent_episode_ids == {"a": "mine", 1: "game[1]"}
    assert MultiAgentEpisode().id_ != MultiAgentEpisode().id_
    single = given.agent_episodes["a"]
    assert isinstance(single, SingleAgentEpisode)
    assert (single.agent_id, single.module_id, single.multi_agent_episode_id) == ("a", "default_policy", "game")


def test_an_agent_keeps_the_module_that_the_mapping_gave_it_first():
    calls = []

    def newest(agent, episode):
        calls.append((agent, episode.id_))
        return f"version {len(calls)}"

    episode = MultiAgentEpisode("game", agent_module_ids={"fixed": "teacher"}, agent_to_module_mapping_fn=newest)
    episode.add_env_reset(observations={"a": 0, "fixed": 0})

    assert episode.module_for("a") == episode.module_for("a") == "version 1"
    assert episode.cut()[0:0].module_for("a") == "version 1"
    assert episode.module_for("fixed") == episode.agent_episodes["fixed"].module_id == "teacher"
    assert calls == [("a", "game")]


@pytest.mark.parametrize("kind", [dict, spaces.Dict])
def test_spaces_are_given_by_agent_in_a_dict_or_a_dict_space(kind):
    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    episode = MultiAgentEpisode(observation_space=kind({"a": box}), action_space=kind({"a": spaces.Discrete(3)}))
    episode.add_env_reset(observations={"a": np.zeros(2, np.float32), "free": "anything"})

    assert episode.agent_episodes["a"].observation_space == box
    assert episode.agent_episodes["a"].action_space == spaces.Discrete(3)
    assert episode.agent_episodes["free"].observation_space is None
    again = MultiAgentEpisode.from_state(episode.get_state())
    assert type(again.observation_space) is kind
    assert again.observation_space["a"] == box


def test_the_version_of_the_weights_holds_for_all_agents_from_now_on():
    episode = turns(2, agent_to_module_mapping_fn=by_first_letter)
    assert episode.weights_version is None
    episode.weights_version = 3
    play(episode, 2)
    episode.add_env_step({"late": 0}, {}, {})

    assert episode.weights_version == 3
    assert {single.weights_version for single in episode.agent_episodes.values()} == {3}
    assert episode.agent_episodes["a"].weights_version_at(0) is None
    assert episode.cut().weights_version == 3


def test_custom_data_is_yours():
    episode = turns(1)
    episode.custom_data["path"] = [1]
    chunk = episode.cut()
    chunk.custom_data["path"].append(2)

    assert episode.custom_data == {"path": [1]}
    episode.concat_episode(chunk)
    assert episode.custom_data == {"path": [1, 2]}


def test_a_valid_episode_validates_in_every_state():
    for steps in range(6):
        for episode in (turns(steps), turns(steps).finalize(), turns(steps).cut(2), turns(steps)[1:3]):
            episode.validate()


def test_the_state_of_an_equal_episode_is_equal_to_the_order_of_its_agents():
    agents = [f"agent {index}" for index in range(20)]
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations=dict.fromkeys(agents, 0))
    assert episode.get_state()["observed_last"] == agents
    assert repr(MultiAgentEpisode.from_state(episode.get_state()).get_state()) == repr(episode.get_state())
