"""Law 1: getters agree with plain lists, growing and finalized alike."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.testing import SPACES, Trajectory, indices, trajectories
from plain_column import cold, filled, filled_like, hot, plain, read, read_or_error, rows

FORMS = pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])
# Some of each kind: inside, over both ends, backwards, with gaps, none at all.
INDICES = [0, -1, 2, [0, -1, 1, 1], [], None, slice(-2, None), slice(None, None, -2), slice(1, 1), np.array([2, -4])]
FAR_INDICES = [*INDICES, 40, -40, [-40, 0, 40], slice(-8, 8), slice(8, -8, -3), range(20, 23)]


def in_form(trajectory, finalized):
    return trajectory.built().finalize() if finalized else trajectory.built()


def getters(episode, trajectory):
    """Every column by name: its getter, its plain list, and a plain item of zeros."""
    zero_observation, zero_action = (
        filled(space, 0) for space in (trajectory.observation_space, trajectory.action_space)
    )
    infos = trajectory.infos or [{} for _ in trajectory.observations]
    yield episode.get_observations, trajectory.observations, zero_observation
    yield episode.get_actions, trajectory.actions, zero_action
    yield episode.get_rewards, trajectory.rewards, 0
    yield episode.get_infos, infos, 0
    for key, items in trajectory.extra_model_outputs.items():
        zero = filled_like(plain(items[0]), 0) if items else 0
        yield lambda *args, key=key, **options: episode.get_extra_model_outputs(key, *args, **options), items, zero


def got(getter, index, **options):
    try:
        found = getter(index, **options)
    except IndexError:
        return IndexError
    return plain(found) if isinstance(index, (int, np.integer)) else rows(found)


@given(data=st.data(), trajectory=trajectories(), finalized=st.booleans(), as_lookback=st.booleans())
def test_getters_agree_with_plain_lists(data, trajectory, finalized, as_lookback):
    index = data.draw(indices(len(trajectory), trajectory.lookback))
    episode = in_form(trajectory, finalized)

    for getter, items, _ in getters(episode, trajectory):
        expected = read_or_error(plain(items), trajectory.lookback, index, as_lookback=as_lookback)
        assert got(getter, index, neg_index_as_lookback=as_lookback) == expected


@given(data=st.data(), trajectory=trajectories(), finalized=st.booleans(), as_lookback=st.booleans())
def test_getters_fill_what_plain_lists_do_not_have(data, trajectory, finalized, as_lookback):
    index = data.draw(indices(len(trajectory), trajectory.lookback, reach=6))
    episode = in_form(trajectory, finalized)

    for getter, items, zero in getters(episode, trajectory):
        expected = read(plain(items), trajectory.lookback, index, as_lookback=as_lookback, fill=zero)
        assert got(getter, index, neg_index_as_lookback=as_lookback, fill=0) == expected


@FORMS
@pytest.mark.parametrize("name", SPACES)
def test_getters_agree_with_plain_lists_in_every_space(name, finalized):
    trajectory = Trajectory.sampled(SPACES[name], SPACES[name], 5, lookback=2)
    episode = in_form(trajectory, finalized)

    for getter, items, zero in getters(episode, trajectory):
        for index in FAR_INDICES:
            for as_lookback in (False, True):
                where = {"as_lookback": as_lookback}
                assert got(getter, index, neg_index_as_lookback=as_lookback) == read_or_error(
                    plain(items), 2, index, **where
                )
                filled_up = got(getter, index, neg_index_as_lookback=as_lookback, fill=0)
                assert filled_up == read(plain(items), 2, index, **where, fill=zero)


@FORMS
@pytest.mark.parametrize("name", SPACES)
def test_one_hot_vectors_agree_with_plain_lists_in_every_space(name, finalized):
    space = SPACES[name]
    trajectory = Trajectory.sampled(space, space, 5, lookback=2)
    episode = in_form(trajectory, finalized)
    columns = ((episode.get_observations, trajectory.observations), (episode.get_actions, trajectory.actions))

    for getter, items in columns:
        hots = [hot(space, plain(item)) for item in items]
        for index in FAR_INDICES:
            assert got(getter, index, one_hot_discrete=True) == read_or_error(hots, 2, index)
            found = got(getter, index, one_hot_discrete=True, fill=0)
            assert found == read(hots, 2, index, fill=cold(space))


@given(data=st.data(), trajectory=trajectories(fields=()), finalized=st.booleans(), as_lookback=st.booleans())
def test_one_hot_vectors_agree_with_plain_lists(data, trajectory, finalized, as_lookback):
    index = data.draw(indices(len(trajectory), trajectory.lookback))
    space = trajectory.observation_space
    hots = [hot(space, plain(item)) for item in trajectory.observations]

    found = got(
        in_form(trajectory, finalized).get_observations,
        index,
        neg_index_as_lookback=as_lookback,
        fill=0,
        one_hot_discrete=True,
    )

    assert found == read(hots, trajectory.lookback, index, as_lookback=as_lookback, fill=cold(space))


@pytest.mark.parametrize("finalized", [False, True])
def test_an_empty_container_is_a_fill_like_any_other(finalized):
    space = SPACES["sequence"]
    trajectory = Trajectory.sampled(space, space, 2)
    episode = in_form(trajectory, finalized)

    found = episode.get_observations([0, 9, -1], fill=())

    assert rows(found) == [plain(trajectory.observations[0]), (), plain(trajectory.observations[-1])]


@settings(max_examples=50)
@given(trajectory=trajectories())
def test_the_lists_of_a_growing_episode_hold_the_items_that_were_given(trajectory):
    episode = trajectory.built()

    found = episode.get_observations()

    assert isinstance(found, list)
    assert [np.asarray(reward).dtype for reward in episode.get_rewards()] == [
        np.asarray(reward).dtype for reward in trajectory.rewards[trajectory.lookback :]
    ]


@pytest.mark.parametrize("name", [name for name in SPACES if name.startswith(("box", "multi"))])
def test_the_arrays_of_a_finalized_episode_have_the_dtype_of_the_items(name):
    space = SPACES[name]
    trajectory = Trajectory.sampled(space, space, 4)
    episode = in_form(trajectory, finalized=True)

    for index in (None, slice(-9, 9), [0, 9]):
        found = episode.get_observations(index, fill=0)
        assert found.dtype == space.dtype
        assert found.shape[1:] == space.shape


@FORMS
@settings(max_examples=50)
@given(trajectory=trajectories())
def test_what_is_known_of_an_episode_agrees_with_plain_lists(finalized, trajectory):
    episode = in_form(trajectory, finalized)
    rewards = trajectory.rewards[trajectory.lookback :]

    assert len(episode) == episode.env_steps() == episode.agent_steps() == len(trajectory)
    assert episode.get_return() == sum(map(float, rewards), 0.0)
    assert (episode.is_terminated, episode.is_truncated) == (trajectory.terminated, trajectory.truncated)
    assert (episode.t_started, episode.t) == (trajectory.t_started, trajectory.t_started + len(rewards))
    assert episode.is_done == (trajectory.terminated or trajectory.truncated)
    assert episode.is_reset
    assert episode.is_finalized == finalized


@FORMS
@settings(max_examples=50)
@given(trajectory=trajectories())
def test_the_data_dict_holds_one_row_for_each_step(finalized, trajectory):
    found = in_form(trajectory, finalized).get_data_dict()
    past, steps = trajectory.lookback, len(trajectory)
    flags = {"terminateds": trajectory.terminated, "truncateds": trajectory.truncated}

    for name, flag in flags.items():
        assert list(found[name]) == [False] * (steps - 1) + [flag] * (steps > 0)
    assert list(found["t"]) == list(range(trajectory.t_started, trajectory.t_started + steps))
    assert list(found["eps_id"]) == [trajectory.id_] * steps
    assert rows(found["obs"]) == plain(trajectory.observations[past:-1])
    assert rows(found["actions"]) == plain(trajectory.actions[past:])
    assert rows(found["rewards"]) == plain(trajectory.rewards[past:])
    for key, items in trajectory.extra_model_outputs.items():
        assert rows(found[key]) == plain(items[past:])
