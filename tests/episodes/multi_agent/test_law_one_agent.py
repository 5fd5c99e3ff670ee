"""Law 5: a multi-agent episode with one agent that steps always equals a single-agent episode, in every mode."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import EpisodeError
from episodia.testing import SPACES, Trajectory, assert_same_episode, indices, trajectories
from plain_column import plain, rows

AGENT = "alone"
# What a single-agent episode cannot know; wall-clock times differ.
OF_THE_AGENT = ["id_", "agent_id", "module_id", "multi_agent_episode_id", "times"]
FORMS = pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])


def is_one(index):
    return isinstance(index, (int, np.integer))


GETTERS = ("get_observations", "get_infos", "get_actions", "get_rewards")
# From the start, without a lookback: that is what a cut makes.
WALKS = {"lookbacks": st.just(0), "lengths": st.integers(1, 6)}


def alone(item):
    return {} if item is None else {AGENT: item}


def both(trajectory, *, cut_at=None, lookback=0, finalized=False):
    """The same steps in an episode of many with one agent, and in one of a single agent; both may be cut at a step."""
    many = MultiAgentEpisode(
        trajectory.id_,
        observation_space=alone(trajectory.observation_space),
        action_space=alone(trajectory.action_space),
    )
    one = SingleAgentEpisode(observation_space=trajectory.observation_space, action_space=trajectory.action_space)
    infos = trajectory.infos or [{}] * len(trajectory.observations)
    many.add_env_reset(observations=alone(trajectory.observations[0]), infos=alone(infos[0]))
    one.add_env_reset(trajectory.observations[0], infos[0])
    if finalized:
        many.finalize()
        one.finalize()
    for step in range(len(trajectory)):
        if step == cut_at:
            many, one = many.cut(lookback), one.cut(lookback)
        add_step(many, one, trajectory, step, infos[step + 1])
    return many, one


def add_step(many, one, trajectory, step, info):
    is_last = step == len(trajectory) - 1
    flags = {"terminated": trajectory.terminated and is_last, "truncated": trajectory.truncated and is_last}
    extras = {name: items[step] for name, items in trajectory.extra_model_outputs.items()}
    given = trajectory.observations[step + 1], trajectory.actions[step], trajectory.rewards[step], info
    one.add_env_step(*given, **flags, extra_model_outputs=extras)
    many.add_env_step(
        *map(alone, given),
        terminateds=alone(flags["terminated"]),
        truncateds=alone(flags["truncated"]),
        extra_model_outputs=alone(extras),
    )


def answer(get, index, **options):
    """What a getter returns, in plain form, or which kind of error it raises."""
    try:
        found = get(index, **options)
    except (EpisodeError, IndexError) as error:
        return IndexError if isinstance(error, IndexError) else EpisodeError
    in_plain_form = plain if is_one(index) else rows
    if isinstance(get.__self__, SingleAgentEpisode):
        return in_plain_form(found)
    return {agent: in_plain_form(items) for agent, items in found.items()}


def of_many(single, *, fill, **_):
    """What many agents answer where one answers `single`: agents that have nothing there are left out."""
    if single in (IndexError, EpisodeError):
        return single
    return {} if single == [] and fill is None else {AGENT: single}


def flags_of_all(one):
    """When all agents are done, the episode is terminated if one of them is, and truncated only if none is."""
    return one.is_terminated, one.is_truncated and not one.is_terminated


def extra_getter(episode, key):
    def get(index, **options):
        return episode.get_extra_model_outputs(key, index, **options)

    get.__self__ = episode
    return get


def all_getters(many, one):
    yield from ((getattr(many, name), getattr(one, name)) for name in GETTERS)
    yield from ((extra_getter(many, key), extra_getter(one, key)) for key in one.extra_model_outputs)


@given(
    data=st.data(),
    trajectory=trajectories(**WALKS),
    lookback=st.integers(0, 4),
    finalized=st.booleans(),
    as_lookback=st.booleans(),
    fill=st.none() | st.just(0),
)
def test_every_getter_answers_as_for_a_single_agent(data, trajectory, lookback, finalized, as_lookback, fill):
    cut_at = data.draw(st.integers(0, len(trajectory) - 1))
    many, one = both(trajectory, cut_at=cut_at, lookback=lookback, finalized=finalized)
    index = data.draw(indices(len(one) + 1, one.rewards.lookback))
    options = {"neg_index_as_lookback": as_lookback, "fill": fill}

    for of_all, of_one in all_getters(many, one):
        single = answer(of_one, index, **options)
        for env_steps in (True, False):
            found = answer(of_all, index, env_steps=env_steps, **options)
            assert found == of_many(single, **options)


@pytest.mark.parametrize("env_steps", [True, False])
def test_who_is_asked_for_no_items_is_left_out(env_steps):
    episode = MultiAgentEpisode(observations=[{"a": 0}, {"a": 1}], actions=[{"a": 0}], rewards=[{"a": 1.0}])

    assert episode.get_rewards([], env_steps=env_steps) == {}
    assert episode.get_rewards([], env_steps=env_steps, fill=0.0) == {"a": []}


@given(data=st.data(), trajectory=trajectories(**WALKS), lookback=st.integers(0, 4), finalized=st.booleans())
def test_a_list_of_rows_has_the_items_of_a_single_agent(data, trajectory, lookback, finalized):
    cut_at = data.draw(st.integers(0, len(trajectory) - 1))
    many, one = both(trajectory, cut_at=cut_at, lookback=lookback, finalized=finalized)
    index = data.draw(indices(len(one) + 1, one.rewards.lookback).filter(lambda index: not is_one(index)))

    for of_all, of_one in all_getters(many, one):
        single = answer(of_one, index)
        if single not in (IndexError, EpisodeError):
            found = of_all(index, return_list=True)
            assert [plain(row[AGENT]) for row in found] == single


@FORMS
@pytest.mark.parametrize("fill", [None, 0])
@pytest.mark.parametrize("name", ["discrete", "discrete from -2", "multi-discrete", "tuple", "deep"])
def test_one_hot_vectors_are_those_of_a_single_agent(name, fill, finalized):
    many, one = both(Trajectory.sampled(SPACES[name], SPACES[name], 3), finalized=finalized)

    for index in (0, -1, None, slice(-2, None), [0, 1]) if fill is None else (7, slice(-9, 9), [0, 7]):
        for of_all, of_one in ((many.get_observations, one.get_observations), (many.get_actions, one.get_actions)):
            options = {"fill": fill, "one_hot_discrete": True}
            single = answer(of_one, index, **options)
            assert answer(of_all, index, **options) == {AGENT: single}
            assert answer(of_all, index, env_steps=False, **options) == {AGENT: single}


@given(trajectory=trajectories(**WALKS), finalized=st.booleans())
def test_the_agents_episode_is_the_single_agent_episode(trajectory, finalized):
    many, one = both(trajectory, finalized=finalized)

    assert_same_episode(many.agent_episodes[AGENT], one, ignore=OF_THE_AGENT)
    assert (len(many), many.env_steps(), many.agent_steps()) == (len(one), one.env_steps(), one.agent_steps())
    assert (many.is_terminated, many.is_truncated, many.is_done) == (*flags_of_all(one), one.is_done)
    assert many.get_truncateds()[AGENT] == one.is_truncated
    assert (many.is_reset, many.is_finalized, many.is_numpy) == (one.is_reset, one.is_finalized, one.is_numpy)
    assert many.get_return() == many.get_return(include_hanging_rewards=True) == one.get_return()
    assert (many.env_t_started, many.env_t) == (one.t_started, one.t)


@given(
    trajectory=trajectories(**WALKS), finalized=st.booleans(), bounds=st.tuples(*[st.none() | st.integers(-7, 7)] * 2)
)
def test_a_slice_is_the_slice_of_the_single_agent_episode(trajectory, finalized, bounds):
    many, one = both(trajectory, finalized=finalized)
    part, expected = many[slice(*bounds)], one[slice(*bounds)]

    assert_same_episode(part.agent_episodes[AGENT], expected, ignore=OF_THE_AGENT)
    assert (part.env_t_started, part.env_t) == (expected.t_started, expected.t)
    assert (part.is_terminated, part.is_truncated) == flags_of_all(expected)


@given(data=st.data(), trajectory=trajectories(**WALKS), lookback=st.integers(0, 4), finalized=st.booleans())
def test_cutting_and_joining_is_that_of_the_single_agent_episode(data, trajectory, lookback, finalized):
    cut_at = data.draw(st.integers(0, len(trajectory) - 1))
    first, _ = both(trajectory.chunk(0, cut_at), finalized=finalized)
    many, one = both(trajectory, cut_at=cut_at, lookback=lookback, finalized=finalized)
    _, whole = both(trajectory, finalized=finalized)

    assert_same_episode(many.agent_episodes[AGENT], one, ignore=OF_THE_AGENT)
    first.concat_episode(many)
    assert_same_episode(first.agent_episodes[AGENT], whole, ignore=OF_THE_AGENT)


@given(data=st.data(), trajectory=trajectories(**WALKS), finalized=st.booleans(), as_lookback=st.booleans())
def test_setters_write_what_they_write_for_a_single_agent(data, trajectory, finalized, as_lookback):
    cut_at = data.draw(st.integers(0, len(trajectory) - 1))
    many, one = both(trajectory, cut_at=cut_at, lookback=2, finalized=finalized)
    index = data.draw(st.integers(-len(one), len(one) - 1))
    where = {"at_indices": index, "neg_index_as_lookback": as_lookback and abs(index) <= one.rewards.lookback}

    for name in ("observations", "actions", "rewards"):
        new = copy.deepcopy(getattr(one, f"get_{name}")(-1))
        getattr(one, f"set_{name}")(new_data=new, **where)
        getattr(many, f"set_{name}")(new_data={AGENT: new}, **where)
    for key in one.extra_model_outputs:
        new = copy.deepcopy(one.get_extra_model_outputs(key, -1))
        one.set_extra_model_outputs(key=key, new_data=new, **where)
        many.set_extra_model_outputs(key=key, new_data={AGENT: new}, **where)
    assert_same_episode(many.agent_episodes[AGENT], one, ignore=OF_THE_AGENT)


def test_weights_versions_are_those_of_a_single_agent():
    many, one = both(Trajectory(observations=[0, 1, 2], actions=[5, 6], rewards=[0.5, 1.0]))
    for episode in (many, one):
        episode.weights_version = 3
    many, one = many.cut(1), one.cut(1)
    many.add_env_step(alone(3), alone(7), alone(1.5))
    one.add_env_step(3, 7, 1.5)
    for episode in (many, one):
        episode.weights_version = 4

    assert many.weights_version == one.weights_version == 4
    assert_same_episode(pickle.loads(pickle.dumps(many)).agent_episodes[AGENT], one, ignore=OF_THE_AGENT)
