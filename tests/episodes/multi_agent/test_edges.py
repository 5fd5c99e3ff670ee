"""Where an agent begins and ends: cases that a random schedule seldom draws."""

import numpy as np
import pytest

from episodia import MultiAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing import assert_same_multi_agent_episode

GAME = {
    "observations": [{"w": 0}, {"b": 1}, {"w": 2}, {"b": 3}],
    "actions": [{"w": "a"}, {"b": "b"}, {}],
    "rewards": [{}, {}, {"w": 1.0, "b": -1.0}],
    "len_lookback_buffer": 0,
}


@pytest.mark.parametrize("terminateds", [True, {"w": True, "b": True}], ids=["all", "each"])
def test_an_agent_from_lists_ends_where_it_is_heard_of_for_the_last_time(terminateds):
    """White does not act on its last observation, and is paid one step later."""
    episode = MultiAgentEpisode("game", **GAME, terminateds=terminateds)

    assert {agent: single.get_rewards() for agent, single in episode.agent_episodes.items()} == {
        "w": [1.0],
        "b": [-1.0],
    }
    assert episode.get_terminateds() == {"w": True, "b": True, "__all__": True}


def test_an_agent_that_idles_in_a_truncated_episode_is_truncated():
    episode = MultiAgentEpisode(
        observations=[{"a": 0, "b": 0}, {"a": 1}, {"a": 2}],
        actions=[{"a": 0}, {"a": 1}],
        rewards=[{"a": 0.0}, {"a": 0.0}],
        truncateds=True,
        len_lookback_buffer=0,
    )

    assert episode.get_terminateds() == {"a": False, "b": False, "__all__": False}
    assert episode.get_truncateds() == {"a": True, "b": True, "__all__": True}


def two_agents(**kwargs):
    episode = MultiAgentEpisode("game", **kwargs)
    episode.add_env_reset(observations={"a": 0, "b": 0}, infos={"b": {"name": "b"}})
    episode.add_env_step({"a": 1}, {"a": 0}, {"a": 1.0})
    return episode


def test_what_is_told_of_an_agent_when_it_ends_stays_with_its_last_observation():
    episode = two_agents()

    episode.add_env_step({"a": 2}, {"a": 0}, {"a": 1.0}, infos={"b": {"why": "fell"}}, terminateds={"b": True})

    assert episode.agent_episodes["b"].get_infos() == [{"name": "b", "why": "fell"}]


def test_what_is_told_of_an_agent_after_its_end_is_a_choice():
    episode = two_agents(rewards_after_done="add")
    episode.add_env_step({"a": 2}, {"a": 0}, {"a": 1.0}, terminateds={"b": True})

    episode.add_env_step({"a": 3}, {"a": 0}, {"a": 1.0}, infos={"b": {"rank": 2}})

    assert episode.agent_episodes["b"].get_infos() == [{"name": "b", "rank": 2}]


def test_empty_infos_after_the_end_say_nothing():
    episode = two_agents()
    episode.add_env_step({"a": 2}, {"a": 0}, {"a": 1.0}, terminateds={"b": True})

    episode.add_env_step({"a": 3}, {"a": 0}, {"a": 1.0}, infos={"a": {}, "b": {}})

    assert len(episode) == 3


@pytest.mark.parametrize("cuts", [1, 2])
def test_what_is_told_of_an_agent_that_ended_in_an_earlier_chunk_reaches_it_when_they_are_joined(cuts):
    first = two_agents(rewards_after_done="add")
    first.add_env_step({"a": 2}, {"a": 0}, {"a": 1.0}, terminateds={"b": True})
    chunks = [first]
    for t in range(cuts):
        chunks.append(chunks[-1].cut())
        chunks[-1].add_env_step({"a": 3 + t}, {"a": 0}, {"a": 1.0}, infos={"b": {f"news {t}": t}})

    for chunk in chunks[1:]:
        first.concat_episode(chunk)

    assert first.agent_episodes["b"].get_infos() == [{"name": "b"} | {f"news {t}": t for t in range(cuts)}]


def test_agents_that_were_finalized_one_by_one_make_a_finalized_episode():
    episode = two_agents()
    episode.agent_episodes["a"].finalize()
    assert not episode.is_finalized

    episode.agent_episodes["b"].finalize()
    assert episode.is_finalized
    assert episode.is_numpy


def test_an_episode_of_which_one_agent_is_finalized_goes_on_and_takes_back_what_is_rejected():
    episode = two_agents()
    episode.agent_episodes["a"].finalize()

    with pytest.raises(EpisodeError, match="agent 'b'"):
        episode.add_env_step({"a": 2, "b": 2}, {"a": 0, "b": 1}, {"a": 2.5})
    episode.add_env_step({"a": 2, "new": 0}, {"a": 1}, {"a": 1.0})

    assert episode.agent_episodes["a"].get_observations().tolist() == [0, 1, 2]
    assert not episode.agent_episodes["new"].is_finalized
    assert episode.finalize().is_finalized


def test_extra_outputs_without_an_action_are_rejected():
    episode = two_agents()

    with pytest.raises(EpisodeError, match="without an action"):
        episode.add_env_step({"a": 2}, {"a": 0}, {"a": 1.0}, extra_model_outputs={"b": {"x": 1}})

    assert (len(episode), len(episode.agent_episodes["a"])) == (1, 1)


def test_of_a_single_own_step_an_agent_without_steps_is_left_out():
    assert two_agents().get_actions(-1, env_steps=False) == {"a": 0}


@pytest.mark.parametrize("start", ["x", -1, 1.5])
def test_the_first_environment_step_is_a_number(start):
    with pytest.raises(EpisodeError, match="env_t_started"):
        MultiAgentEpisode("game", env_t_started=start)


def test_no_agent_has_the_name_of_all():
    with pytest.raises(EpisodeError, match="stands for all agents"):
        MultiAgentEpisode("game").add_env_reset(observations={"__all__": 0})


def three_ends():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0, "b": 0, "c": 0})
    everybody = {"a": 1, "b": 1, "c": 1}
    flags = {"a": False, "b": True, "__all__": True}
    episode.add_env_step(everybody, everybody, everybody, terminateds=flags, truncateds={"a": True, "b": True})
    return episode


def test_an_agent_that_ends_by_a_flag_of_its_own_does_not_end_as_all_others_do():
    episode = three_ends()

    assert episode.get_terminateds() == {"a": False, "b": True, "c": True, "__all__": True}
    assert episode.get_truncateds() == {"a": True, "b": True, "c": False, "__all__": False}


def test_an_agent_that_terminates_where_all_are_truncated_stays_terminated():
    episode = two_agents()
    episode.add_env_step({"b": 2}, {}, {}, terminateds={"b": True}, truncateds={"__all__": True})

    assert episode.get_terminateds() == {"a": False, "b": True, "__all__": False}
    assert episode.get_truncateds() == {"a": True, "b": False, "__all__": True}


@pytest.mark.parametrize("steps", [0, 1])
def test_an_episode_made_of_its_own_lists_and_flags_ends_as_it_did(steps):
    episode = three_ends()
    lists = {
        "observations": episode.get_observations(return_list=True)[-1 - steps :],
        "actions": episode.get_actions(return_list=True)[-1:][:steps],
        "rewards": episode.get_rewards(return_list=True)[-1:][:steps],
    }
    ends = episode.get_terminateds(), episode.get_truncateds()

    again = MultiAgentEpisode("game", **lists, terminateds=ends[0], truncateds=ends[1], len_lookback_buffer=0)

    assert (again.get_terminateds(), again.get_truncateds()) == ends


def test_whatever_is_an_agent_is_that_agent_and_whatever_has_ids_in_it_is_those_agents():
    pair, team = ("a", "b"), frozenset({"a", "b"})
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": 0, "b": 1, pair: 2, team: 3})
    everybody = dict.fromkeys(episode.agent_ids, 0)
    outputs = {agent: {"logp": 0.5, "value": 1.0} for agent in everybody}
    episode.add_env_step(everybody, everybody, everybody, extra_model_outputs=outputs)

    assert set(episode.get_observations(0, agent_ids=pair)) == {pair}
    assert set(episode.get_observations(0, agent_ids=team)) == {team}
    assert set(episode.get_observations(0, agent_ids={"a": 1, "b": 2})) == {"a", "b"}
    for several in (lambda: (agent for agent in "ab"), lambda: map(str, "ab"), lambda: iter(["a", "b"])):
        assert set(episode.get_observations(0, agent_ids=several())) == {"a", "b"}
        assert episode.get_extra_model_outputs(indices=0, agent_ids=several()) == {key: outputs[key] for key in "ab"}


@pytest.mark.parametrize("options", [{}, {"env_steps": False}, {"return_list": True}], ids=str)
def test_an_array_of_one_index_is_that_index(options):
    episode = two_agents()

    assert episode.get_observations(np.array(-1), "a", **options) == {"a": 1}
    assert episode.get_rewards(np.array(0), "a", **options) == {"a": 1.0}


def test_an_episode_may_begin_at_a_later_environment_step():
    episode = MultiAgentEpisode("game", env_t_started=5)
    episode.add_env_reset(observations={"a": 0})
    episode.add_env_step({"a": 1}, {"a": 0}, {"a": 1.0})

    assert (episode.env_t_started, episode.env_t, len(episode)) == (5, 6, 1)
    assert episode.get_observations() == {"a": [0, 1]}
    with pytest.raises(EpisodeError, match="found a second reset"):
        episode.add_env_reset(observations={"a": 0})


@pytest.mark.parametrize("place", [0, 1, 2])
def test_joining_gives_a_done_episode_back_wherever_it_was_taken_apart(place):
    episode = two_agents()
    episode.add_env_step({"a": 2, "b": 2}, {"a": 0}, {"a": 1.0, "b": 3.0}, terminateds={"__all__": True})
    first, rest = episode[:place], episode[place:]

    first.concat_episode(rest)

    assert_same_multi_agent_episode(first, episode, ignore=["times"])


def test_nothing_is_joined_to_the_end_but_an_end_without_steps():
    episode = two_agents()
    running = episode.cut()
    episode.is_terminated = True
    with pytest.raises(EpisodeError, match="after the end"):
        episode.concat_episode(running)


def with_clock(**fields):
    return lambda state: {**state, "clock": {**state["clock"], **fields}}


def with_record(name, **fields):
    """Change the record of one agent, or add one of an agent that is not there."""

    def changed(state):
        records = {record["agent"]: record for record in state["records"]}
        nobody = {**dict.fromkeys(records["a"]), "agent": name, "timeline": [], "early_rewards": []}
        nobody.update(is_split=False, is_carried=False)
        return {**state, "records": [*({**records, name: {**records.get(name, nobody), **fields}}).values()]}

    return changed


WAITING = {"reward": 1.0, "infos": None, "action": 0}
PARTS_THAT_DO_NOT_FIT = {
    "no records": lambda state: {**state, "records": []},
    "no timeline": with_record("a", timeline=None),
    "an empty timeline": with_record("a", timeline=[]),
    "a timeline too short": with_record("a", timeline=[1]),
    "a timeline of words": with_record("a", timeline=["x", 1]),
    "an unknown agent": lambda state: {**state, "observed_last": ["zz"]},
    "a later clock": with_clock(env_t=99),
    "a clock before the start": with_clock(env_t_started=2),
    "a negative lookback": with_clock(env_lookback=-5),
    "an end of an unknown agent": with_record("zz", ended_at=1),
    "an end of who goes on": with_record("a", ended_at=1),
    "an action of an unknown agent": with_record("zz", pending=WAITING),
    "a part of a step of an unknown agent": with_record("zz", is_split=True, gone="terminated"),
    "an earlier action of an unknown agent": with_record("zz", is_carried=True, gone="terminated"),
}


@pytest.mark.parametrize("parts", PARTS_THAT_DO_NOT_FIT.values(), ids=PARTS_THAT_DO_NOT_FIT)
def test_a_state_whose_parts_do_not_belong_together_is_rejected(parts):
    state = two_agents().get_state()
    assert MultiAgentEpisode.from_state(state).get_state() == state

    with pytest.raises(EpisodeError, match="a multi-agent episode's state"):
        MultiAgentEpisode.from_state(parts(state))


def test_a_growing_episode_from_a_state_can_be_finalized():
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": np.zeros(2), "b": np.zeros(2)})
    episode.add_env_step({"a": np.ones(2), "b": np.ones(2)}, {"a": 0, "b": 0}, {"a": 1.0, "b": 1.0})

    again = MultiAgentEpisode.from_state(episode.get_state()).finalize()

    assert_same_multi_agent_episode(again, episode.finalize())
