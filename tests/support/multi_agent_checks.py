"""Comparing what a multi-agent episode answers with what the plain model says."""

import numpy as np
import pytest

from plain_column import plain, rows

GETTERS = {
    "observations": "get_observations",
    "infos": "get_infos",
    "actions": "get_actions",
    "rewards": "get_rewards",
}
EXTRA_NAMES = ("logp", "logits", "state")
COLUMNS = (*GETTERS, *(("extra", name) for name in EXTRA_NAMES))


def ask(episode, column, index=None, agent_ids=None, **options):
    """What an episode answers about a column; extra model outputs are named by a pair."""
    if isinstance(column, tuple):
        return episode.get_extra_model_outputs(column[1], index, agent_ids, **options)
    return getattr(episode, GETTERS[column])(index, agent_ids, **options)


def is_there(view, column):
    """Whether a getter knows a column at all."""
    return not isinstance(column, tuple) or column[1] in view.extra_names()


def assert_answers(episode, view, column, index=None, agent_ids=None, as_lookback=False, **options):
    """Check one question; if the model has no answer, the episode has to raise an IndexError."""
    try:
        expected = view.get(column, index, agent_ids, as_lookback=as_lookback, **options)
    except IndexError:
        expected = IndexError
    try:
        found = ask(episode, column, index, agent_ids, neg_index_as_lookback=as_lookback, **options)
    except IndexError:
        found = IndexError
    if IndexError in (found, expected):
        assert found is expected
        return
    assert in_plain_form(found, index, options) == expected
    if not (options.get("return_list") or is_one(index)):
        in_lists = column == "infos" or not episode.is_finalized
        assert all(isinstance(items, list) == in_lists for items in found.values())


def assert_answers_all_extras(episode, view, index, as_lookback=False, **options):
    """Check all extra model outputs at once."""
    try:
        expected = view.get_extras(index, as_lookback=as_lookback, **options)
    except IndexError:
        with pytest.raises(IndexError):
            episode.get_extra_model_outputs(indices=index, neg_index_as_lookback=as_lookback, **options)
        return
    found = episode.get_extra_model_outputs(indices=index, neg_index_as_lookback=as_lookback, **options)
    if options.get("return_list") or is_one(index):
        assert plain(found) == expected
    else:
        assert {agent: {key: rows(items) for key, items in by.items()} for agent, by in found.items()} == expected


def is_one(index):
    return isinstance(index, (int, np.integer))


def in_plain_form(found, index, options):
    if options.get("return_list") or is_one(index):
        return plain(found)
    return {agent: rows(items) for agent, items in found.items()}


def assert_agrees(episode, view):
    """Check the facts about an episode, and all columns from the first to the last item."""
    assert_same_facts(episode, view)
    assert_same_agents(episode, view)
    everything = slice(-view.lookback, None) if view.lookback else None
    for column in COLUMNS:
        if is_there(view, column):
            assert_answers(episode, view, column, everything, as_lookback=True)
            assert_answers(episode, view, column, everything, as_lookback=True, return_list=True)
            assert_answers(episode, view, column, -1)
            assert_answers(episode, view, column, env_steps=False)
    assert_answers_all_extras(episode, view, -1)


def assert_same_facts(episode, view):
    clock = (view.env_t_started, view.env_t, view.lookback)
    assert (episode.env_t_started, episode.env_t, episode.env_lookback) == clock
    assert len(episode) == episode.env_steps() == view.env_t - view.env_t_started
    assert episode.get_terminateds() == view.flags("terminated")
    assert episode.get_truncateds() == view.flags("truncated")
    assert (episode.is_terminated, episode.is_truncated) == (view.is_terminated, view.is_truncated)
    assert episode.get_agents_that_stepped() == view.agents_that_stepped()
    assert episode.get_agents_to_act() == view.agents_to_act()
    assert episode.get_return() == view.total(include_hanging=False)
    assert episode.get_return(include_hanging_rewards=True) == view.total(include_hanging=True)
    assert plain(episode._hanging_actions_end) == view.hanging_actions()
    assert plain(episode._hanging_extra_model_outputs_end) == view.hanging_extras()
    assert plain(episode._hanging_rewards_end) == view.hanging_rewards_end()
    assert plain(episode._hanging_rewards_begin) == view.hanging_rewards_begin()


def assert_same_agents(episode, view):
    assert episode.agent_ids == set(view.agents)
    assert episode.agent_steps() == sum(map(len, view.agents.values()))
    assert episode.agent_t_started == {agent: one.t_started for agent, one in view.agents.items()}
    assert {agent: line.data for agent, line in episode.env_t_to_agent_t.items()} == view.agent_times()
    assert all(line.lookback == view.lookback for line in episode.env_t_to_agent_t.values())
    for agent, one in view.agents.items():
        single = episode.agent_episodes[agent]
        assert (single.agent_id, single.is_finalized) == (agent, episode.is_finalized)
        assert rows(single.observations.data) == plain(one.observations)
        assert rows(single.infos.data) == plain(one.infos)
        assert rows(single.actions.data) == plain(one.actions)
        assert rows(single.rewards.data) == plain(one.rewards)
        assert {single.observations.lookback, single.infos.lookback, single.rewards.lookback} == {one.lookback}
        assert set(single.extra_model_outputs) == set(one.columns)
        for name, column in single.extra_model_outputs.items():
            assert rows(column.data) == plain(one.track(("extra", name)))
