"""Law 8: nothing a caller does to what it passed in or got out changes an episode, and a rejected step changes nothing."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bad_env_steps import bad_env_steps
from episodia import EpisodiaError, MultiAgentEpisode
from episodia.testing import (
    ITEM_KINDS,
    MULTI_AGENT_EPISODES,
    MULTI_AGENT_TRAJECTORIES,
    Content,
    agent_groups,
    assert_same_multi_agent_episode,
    contents,
    multi_agent_trajectories,
    next_env_steps,
    reset_trajectories,
)
from multi_agent_checks import GETTERS
from vandal import arrays_in, ruin

NESTED = st.builds(Content, st.sampled_from(["vectors", "nested"]), st.just(float), st.just(("logits", "state")))
RUNNING = [name for name, make in MULTI_AGENT_EPISODES.items() if make().is_reset and not make().is_done]
RESTORE = {
    "as it was": lambda episode: episode,
    "from a state": lambda episode: MultiAgentEpisode.from_state(episode.get_state()),
    "unpickled": lambda episode: pickle.loads(pickle.dumps(episode)),
    "deep copy": copy.deepcopy,
    "fork": copy.copy,
    "cut": lambda episode: episode.cut(2),
    "slice": lambda episode: episode[1:],
}


def in_form(episode, finalized):
    return episode.finalize() if finalized else episode


def twin(episode):
    """The same episode, which shares nothing with it."""
    return pickle.loads(pickle.dumps(episode))


def everything_out(episode):
    """All that an episode returns, in every way of asking."""
    everything = slice(-episode.env_lookback - 1, None)
    for name in GETTERS.values():
        get = getattr(episode, name)
        yield get()
        yield get(env_steps=False)
        yield get(everything, neg_index_as_lookback=True, fill=0)
        yield get(everything, neg_index_as_lookback=True, return_list=True)
        yield get(-1, fill=0)
        yield get([0, -1, 0], fill=0)
    yield episode.get_extra_model_outputs()
    yield episode.get_extra_model_outputs(env_steps=False)
    yield episode.get_extra_model_outputs(indices=everything, neg_index_as_lookback=True, return_list=True)
    yield from handed_out_facts(episode)


def handed_out_facts(episode):
    for name in ("actions_end", "rewards_end", "extra_model_outputs_end", "rewards_begin"):
        yield getattr(episode, f"_hanging_{name}")
    yield [line.data for line in episode.env_t_to_agent_t.values()]
    for facts in (
        episode.agent_episode_ids,
        episode.agent_t_started,
        episode.get_terminateds(),
        episode.get_truncateds(),
    ):
        yield facts
    for facts in (episode.agent_ids, episode.get_agents_to_act(), episode.get_agents_that_stepped()):
        facts.clear()
    for line in episode.env_t_to_agent_t.values():
        line.append(7)


# --- What was passed in ---


def writable(value):
    """A deep copy of which every array can be written."""
    value = copy.deepcopy(value)
    for array in arrays_in(value):
        array.setflags(write=True)
    return value


@given(schedule=multi_agent_trajectories(content=NESTED), finalized=st.booleans())
def test_what_was_passed_to_a_step_is_not_kept(schedule, finalized):
    reset, *steps = map(writable, schedule.entries())
    episode = schedule.empty()
    episode.add_env_reset(observations=reset["observations"], infos=reset["infos"])
    ruin(reset)
    if finalized:
        episode.finalize()

    for step in steps:
        episode.add_env_step(**step)
        ruin(step)

    expected = in_form(schedule.until(0).stepped(), finalized)
    for step in range(1, len(schedule) + 1):
        expected.add_env_step(**schedule.entry(step))
    assert_same_multi_agent_episode(episode, expected, ignore=["times"])


@pytest.mark.parametrize("finalized", [False, True])
def test_a_pending_step_is_made_of_copies(finalized):
    action, logits, info, reward = np.ones(2, np.float32), {"x": np.ones(2)}, {"seen": [np.ones(2)]}, np.array(1.5)
    episode = MultiAgentEpisode("game")
    episode.add_env_reset(observations={"a": np.zeros(2, np.float32), "b": 0})
    in_form(episode, finalized)

    episode.add_env_step({}, {"a": action}, {"a": reward}, {"a": info}, extra_model_outputs={"a": {"out": logits}})
    for passed in (action, logits, info, reward):
        ruin(passed)
    episode.add_env_step({"a": np.zeros(2, np.float32)}, {}, {})

    assert episode.get_actions(0)["a"].tolist() == [1.0, 1.0]
    assert episode.get_rewards(0) == {"a": 1.5}
    assert episode.get_extra_model_outputs("out", 0)["a"]["x"].tolist() == [1.0, 1.0]
    assert episode.get_infos(-1)["a"]["seen"][0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", MULTI_AGENT_TRAJECTORIES)
def test_lists_that_were_passed_to_the_constructor_are_not_kept(name):
    schedule = MULTI_AGENT_TRAJECTORIES[name]()
    lists = {column: [entry[column] for entry in schedule.entries()] for column in (*GETTERS, "extra_model_outputs")}
    for column in ("actions", "rewards", "extra_model_outputs"):
        lists[column] = lists[column][1:]
    options = {"missing_final_observation": "repeat", "rewards_after_done": "add", "len_lookback_buffer": 0}
    expected = MultiAgentEpisode("game", **copy.deepcopy(lists), **options)

    episode = MultiAgentEpisode("game", **lists, **options)
    ruin(lists)

    assert_same_multi_agent_episode(episode, expected, ignore=["times"])


@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_a_state_that_was_passed_is_not_kept(name):
    episode = MULTI_AGENT_EPISODES[name]()
    state = writable({**episode.get_state(), "agent_to_module_mapping_fn": None})
    restored = MultiAgentEpisode.from_state({**state, "agent_to_module_mapping_fn": episode.agent_to_module_mapping_fn})

    ruin(state)

    assert_same_multi_agent_episode(restored, episode)


@pytest.mark.parametrize("finalized", [False, True])
def test_what_was_passed_to_a_setter_is_not_kept(finalized):
    episode = in_form(MULTI_AGENT_EPISODES["vectors in spaces"](), finalized)
    new = {"white": np.full(2, 7.0, np.float32)}

    episode.set_observations(new_data=new, at_indices=0)
    episode.set_actions(new_data=new, at_indices=0)
    ruin(new)

    assert episode.agent_episodes["white"].get_observations(0).tolist() == [7.0, 7.0]
    assert episode.agent_episodes["white"].get_actions(0).tolist() == [7.0, 7.0]


def test_mappings_that_were_passed_are_not_kept():
    modules, names = {"a": "left"}, {"a": "first"}
    spaces = {"a": ITEM_KINDS["numbers"]}
    episode = MultiAgentEpisode("game", agent_module_ids=modules, agent_episode_ids=names, observation_space=spaces)

    modules.clear()
    names.clear()
    episode.add_env_reset(observations={"a": 0})

    assert episode.module_for("a") == episode.agent_episodes["a"].module_id == "left"
    assert episode.agent_episode_ids == {"a": "first"}


# --- What was got out ---


@pytest.mark.parametrize("way", RESTORE)
@pytest.mark.parametrize("name", RUNNING)
def test_ruining_what_came_out_does_not_change_a_named_episode(name, way):
    episode = RESTORE[way](MULTI_AGENT_EPISODES[name]())
    expected = twin(episode)

    for found in (*everything_out(episode), {**episode.get_state(), "agent_to_module_mapping_fn": None}):
        ruin(found)
        assert_same_multi_agent_episode(episode, expected)


@given(schedule=multi_agent_trajectories(content=NESTED), finalized=st.booleans())
def test_arrays_that_come_out_of_a_drawn_episode_are_read_only(schedule, finalized):
    episode = in_form(schedule.stepped(), finalized)

    for found in everything_out(episode):
        assert not any(array.flags.writeable for array in arrays_in(found))


@given(schedule=multi_agent_trajectories(content=NESTED), finalized=st.booleans(), lookback=st.integers(0, 3))
def test_ruining_what_came_out_does_not_change_a_drawn_chunk(schedule, finalized, lookback):
    episode = in_form(schedule.stepped(), finalized)
    episode = episode if episode.is_done else episode.cut(lookback)
    expected = twin(episode)

    for found in everything_out(episode):
        ruin(found)

    assert_same_multi_agent_episode(episode, expected)


# --- Relatives ---


def joined(episode):
    """The episode, in the course of which it was cut."""
    first = copy.copy(episode)
    first.concat_episode(episode.cut(1))
    return first


DERIVE = {
    "slice": lambda episode: episode[1:],
    "copy": copy.copy,
    "cut": lambda episode: episode.cut(3),
    "joined": joined,
}


def change_everything(episode):
    """Overwrite the first item of each column of all agents, and let all of them step."""
    for agent, single in episode.agent_episodes.items():
        for name in ("observations", "actions", "rewards"):
            if len(getattr(single, name)) > 1:
                new = copy.deepcopy(getattr(single, f"get_{name}")(-1))
                getattr(episode, f"set_{name}")(new_data={agent: new}, at_indices=0)
    episode.custom_data["new"] = 1
    episode.weights_version = 5
    observations = {agent: single.get_observations(-1) for agent, single in episode.agent_episodes.items()}
    alive = [agent for agent, single in episode.agent_episodes.items() if not single.is_done]
    infos = {agent: {"new": 1} for agent in alive}
    episode.add_env_step({agent: observations[agent] for agent in alive}, {}, dict.fromkeys(alive, 7.5), infos)


@pytest.mark.parametrize("derive", DERIVE)
@pytest.mark.parametrize("name", RUNNING)
def test_relatives_do_not_show_each_others_changes(name, derive):
    episode, untouched = MULTI_AGENT_EPISODES[name](), MULTI_AGENT_EPISODES[name]()
    relative, expected = DERIVE[derive](episode), DERIVE[derive](untouched)

    change_everything(episode)
    assert_same_multi_agent_episode(relative, expected, ignore=["times"])

    episode = MULTI_AGENT_EPISODES[name]()
    change_everything(DERIVE[derive](episode))
    assert_same_multi_agent_episode(episode, untouched, ignore=["times"])


@given(
    data=st.data(),
    agents=agent_groups(),
    content=contents(),
    derive=st.sampled_from(sorted(DERIVE)),
    forms=st.booleans(),
)
def test_relatives_of_drawn_episodes_go_their_own_ways(data, agents, content, derive, forms):
    schedule = data.draw(multi_agent_trajectories(content=st.just(content), done=False, lengths=st.integers(1, 5)))
    episode = in_form(schedule.stepped(), forms)
    relative = DERIVE[derive](episode)
    expected = twin(relative)

    for _ in range(2):
        record = data.draw(next_env_steps(schedule, [*schedule.agents, *agents], content, may_end=False))
        schedule = schedule.then(record)
        episode.add_env_step(**schedule.entry(-1))

    assert_same_multi_agent_episode(relative, expected)


# --- A step that is rejected ---


@given(
    data=st.data(),
    agents=agent_groups(),
    content=contents(),
    finalized=st.booleans(),
    lookback=st.none() | st.integers(0, 3),
)
def test_a_rejected_step_leaves_everything_as_it_was(data, agents, content, finalized, lookback):
    schedule = data.draw(reset_trajectories(agents, content))
    for _ in range(data.draw(st.integers(0, 6))):
        schedule = schedule.then(data.draw(next_env_steps(schedule, agents, content, may_end=False)))
    episode = in_form(schedule.stepped(), finalized)
    episode = episode if lookback is None else episode.cut(lookback)
    before, fork = twin(episode), copy.copy(episode)
    bad = data.draw(bad_env_steps(schedule, agents, content))

    with pytest.raises(EpisodiaError, match="episode 'trajectory'"):
        episode.add_env_step(**bad)

    assert_same_multi_agent_episode(episode, before)
    assert_same_multi_agent_episode(fork, before)
    episode.validate()


@given(data=st.data(), agents=agent_groups(), content=contents(), finalized=st.booleans())
def test_after_a_rejected_step_an_episode_goes_on_as_if_it_had_not_been(data, agents, content, finalized):
    schedule = data.draw(reset_trajectories(agents, content))
    episode, expected = (in_form(schedule.stepped(), finalized) for _ in range(2))

    for _ in range(3):
        with pytest.raises(EpisodiaError):
            episode.add_env_step(**data.draw(bad_env_steps(schedule, agents, content)))
        schedule = schedule.then(data.draw(next_env_steps(schedule, agents, content, may_end=False)))
        for one in (episode, expected):
            one.add_env_step(**schedule.entry(-1))

    assert_same_multi_agent_episode(episode, expected, ignore=["times"])
    assert episode.get_state().keys() == expected.get_state().keys()
