"""Law 8: nothing a caller does to what it passed in or got out changes an episode."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import LookbackBuffer, SingleAgentEpisode
from episodia.testing import EPISODES, SPACES, Trajectory, assert_same_episode, episodes, trajectories
from plain_column import plain, rows
from vandal import arrays_in, ruin

RUNNING = [name for name, make in EPISODES.items() if make().is_reset and not make().is_done]
BUILD = {"constructor": Trajectory.built, "steps": Trajectory.stepped}
RESTORE = {
    "as it was": lambda episode: episode,
    "from a state": lambda episode: SingleAgentEpisode.from_state(episode.get_state()),
    "unpickled": lambda episode: pickle.loads(pickle.dumps(episode)),
    "deep copy": copy.deepcopy,
    "fork": copy.copy,
}


def in_form(trajectory, finalized):
    return trajectory.built().finalize() if finalized else trajectory.built()


def columns_of(episode):
    return [
        episode.observations,
        episode.actions,
        episode.rewards,
        episode.infos,
        *episode.extra_model_outputs.values(),
    ]


def everything_out(episode):
    """All that the getters of an episode hand out, in every way of asking."""
    for column in columns_of(episode):
        size = column.len_incl_lookback()
        yield column.data
        yield column.get()
        yield list(column)
        yield column.get(slice(-3, size + 2), neg_index_as_lookback=True)
        yield column.get(slice(None, None, -2))
        if size:
            yield column.get(-1)
            yield column.get([-1, -1])
            yield column.get(slice(-size - 2, size + 2), fill=0)
    yield episode.get_infos()
    yield episode.get_data_dict()


# --- What was passed in ---


@given(trajectory=trajectories(), finalized=st.booleans(), stepped=st.booleans())
def test_what_was_passed_to_build_an_episode_is_not_kept(trajectory, finalized, stepped):
    passed = copy.deepcopy(trajectory)
    episode = passed.stepped() if stepped else passed.built()
    if finalized:
        episode.finalize()

    for values in (passed.observations, passed.actions, passed.infos, dict(passed.extra_model_outputs)):
        ruin(values)

    assert_same_episode(episode, in_form(trajectory, finalized), ignore=["times"])


@pytest.mark.parametrize("name", SPACES)
def test_arrays_that_were_passed_to_the_constructor_are_not_kept(name):
    trajectory = Trajectory.sampled(SPACES[name], SPACES[name], 3)
    passed = copy.deepcopy(trajectory.built().finalize().to_arrays())
    ids = {"id_": trajectory.id_, "observation_space": SPACES[name], "action_space": SPACES[name]}
    for column in arrays_in(passed):
        column.setflags(write=True)
    by_arrays = SingleAgentEpisode.from_arrays(passed, **ids)
    by_constructor = SingleAgentEpisode(
        observations=passed["obs"], actions=passed["actions"], rewards=passed["rewards"], len_lookback_buffer=0, **ids
    )

    ruin(passed)

    assert_same_episode(by_arrays, trajectory.built().finalize())
    assert_same_episode(by_constructor, trajectory.built().finalize())


@pytest.mark.parametrize("name", EPISODES)
def test_a_state_that_was_passed_is_not_kept(name):
    episode = EPISODES[name]()
    state = copy.deepcopy(episode.get_state())
    for array in arrays_in(state):
        array.setflags(write=True)
    restored = SingleAgentEpisode.from_state(state)

    ruin(state)

    assert_same_episode(restored, episode)


def writable(value):
    """A deep copy of which every array can be written."""
    value = copy.deepcopy(value)
    for array in arrays_in(value):
        array.setflags(write=True)
    return value


def setters(episode):
    yield episode.observations, episode.set_observations
    yield episode.actions, episode.set_actions
    yield episode.rewards, episode.set_rewards
    for key, column in episode.extra_model_outputs.items():
        yield column, lambda key=key, **data: episode.set_extra_model_outputs(key=key, **data)


@given(episode=episodes(lengths=st.integers(2, 5)), index=st.sampled_from([None, [0, 1], slice(0, 2), 0, -1]))
def test_a3_what_was_passed_to_a_setter_is_not_kept(episode, index):
    for column, put in setters(episode):
        new = writable(column.get(index))
        expected = plain(new)

        put(new_data=new, at_indices=index)
        ruin(new)

        assert plain(column.get(index)) == expected


@pytest.mark.parametrize("finalized", [False, True])
@pytest.mark.parametrize("add", [LookbackBuffer.append, LookbackBuffer.extend, LookbackBuffer.set])
def test_what_was_passed_to_a_buffer_is_not_kept(add, finalized):
    item = {"x": np.ones(2), "y": (np.ones(3),)}
    buffer = LookbackBuffer([item])
    if finalized:
        buffer.finalize()
    passed = item if add is LookbackBuffer.append else [item]

    add(buffer, passed)
    ruin(passed)

    assert rows(buffer.data) == [{"x": [1.0, 1.0], "y": ([1.0, 1.0, 1.0],)}] * len(buffer)


def test_a_buffer_that_was_passed_to_an_episode_can_be_changed_without_harm():
    columns = {
        "observations": LookbackBuffer(np.zeros((3, 2))),
        "actions": LookbackBuffer(np.zeros(2)),
        "rewards": LookbackBuffer([0.0, 0.0]),
        "infos": LookbackBuffer([{"a": np.zeros(2)}, {}, {}]),
    }
    episode = SingleAgentEpisode(**columns, len_lookback_buffer=0)
    expected = pickle.loads(pickle.dumps(episode))

    columns["observations"].set(np.ones((3, 2)))
    columns["actions"].set(1.0, at_indices=0)
    columns["rewards"].append(5.0)
    columns["infos"].set({"b": 1}, at_indices=0)

    assert_same_episode(episode, expected)


# --- What was got out ---


@pytest.mark.parametrize("way", RESTORE)
@pytest.mark.parametrize("name", EPISODES)
def test_arrays_that_come_out_are_read_only(name, way):
    episode = RESTORE[way](EPISODES[name]())

    for found in everything_out(episode):
        for key in ("terminateds", "truncateds", "t", "eps_id"):  # rebuilt for each caller
            if isinstance(found, dict):
                found.pop(key, None)
        assert not any(array.flags.writeable for array in arrays_in(found))


@pytest.mark.parametrize("way", RESTORE)
@pytest.mark.parametrize("name", EPISODES)
def test_a3_ruining_what_came_out_does_not_change_a_named_episode(name, way):
    episode, expected = RESTORE[way](EPISODES[name]()), EPISODES[name]()

    for found in everything_out(episode):
        ruin(found)
    for found in (episode.get_state(), episode.to_arrays()):
        ruin(found)

    assert_same_episode(episode, expected, ignore=["id_"] if "empty" in name else [])


@given(
    trajectory=trajectories(),
    finalized=st.booleans(),
    build=st.sampled_from(sorted(BUILD)),
    way=st.sampled_from(sorted(RESTORE)),
)
def test_ruining_what_came_out_does_not_change_a_drawn_episode(trajectory, finalized, build, way):
    episode = BUILD[build](trajectory)
    episode = RESTORE[way](episode.finalize() if finalized else episode)

    for found in (*everything_out(episode), episode.get_state()):
        assert not any(array.flags.writeable for array in arrays_in(episode.get_observations()))
        ruin(found)

    assert_same_episode(episode, in_form(trajectory, finalized), ignore=["times"])


@pytest.mark.parametrize("build", BUILD)
@pytest.mark.parametrize("finalized", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_ruining_what_came_out_does_not_change_an_episode_in_any_space(name, finalized, build):
    trajectory = Trajectory.sampled(SPACES[name], SPACES[name], 3)
    episode = BUILD[build](trajectory)
    if finalized:
        episode.finalize()
    expected = in_form(trajectory, finalized)

    for found in (*everything_out(episode), episode.get_observations(one_hot_discrete=True), episode.get_state()):
        ruin(found)
        assert_same_episode(episode, expected, ignore=["times"])


# --- Relatives ---


def change_everything(episode):
    """Overwrite the first item and all items of each column, and take one more step if that is possible."""
    for column, put in setters(episode):
        if len(column) > 1:
            put(new_data=column.get(-1), at_indices=0)
            put(new_data=column.get(slice(None, None, -1)))
    episode.custom_data["new"] = 1
    for value in episode.custom_data.values():
        ruin(value)
    has_examples = all(column.len_incl_lookback() for column in episode.extra_model_outputs.values())
    if episode.is_reset and not episode.is_done and has_examples:
        action = episode.get_actions(-1) if episode.actions.len_incl_lookback() else any_action(episode)
        extras = {key: column.get(-1) for key, column in episode.extra_model_outputs.items()}
        episode.add_env_step(episode.get_observations(0), action, 7.5, {"new": 1}, extra_model_outputs=extras)


def any_action(episode):
    return Trajectory.sampled(episode.action_space, episode.action_space, 0).observations[0]


DERIVE = {
    "slice": lambda episode: episode[1:],
    "slice with a step": lambda episode: episode[::2],
    "copy": copy.copy,
    "cut": lambda episode: episode.cut(3),
    "buffers": lambda episode: SingleAgentEpisode(
        observations=episode.observations,
        actions=episode.actions,
        rewards=episode.rewards,
        id_=episode.id_,
        action_space=episode.action_space,
    ),
}


@pytest.mark.parametrize("derive", DERIVE)
@pytest.mark.parametrize("name", RUNNING)
def test_relatives_do_not_show_each_others_changes(name, derive):
    episode, untouched = EPISODES[name](), EPISODES[name]()
    relative, expected = DERIVE[derive](episode), DERIVE[derive](untouched)

    change_everything(episode)
    assert_same_episode(relative, expected, ignore=["times"])

    episode = EPISODES[name]()
    change_everything(DERIVE[derive](episode))
    assert_same_episode(episode, untouched)


@given(trajectory=trajectories(done=False), finalized=st.booleans(), derive=st.sampled_from(sorted(DERIVE)))
def test_relatives_of_drawn_episodes_do_not_show_each_others_changes(trajectory, finalized, derive):
    episode, same = in_form(trajectory, finalized), in_form(trajectory, finalized)
    relative = DERIVE[derive](episode)
    change_everything(relative)
    expected = DERIVE[derive](same)
    change_everything(expected)
    change_everything(episode)
    change_everything(episode)
    change_everything(same)
    change_everything(same)

    assert_same_episode(relative, expected, ignore=["times"])
    assert_same_episode(episode, same, ignore=["times"])


@pytest.mark.parametrize("finalized", [False, True])
def test_a_family_of_slices_that_all_grow_stays_apart(finalized):
    origin = in_form(Trajectory(observations=list(range(6)), actions=[0] * 5, rewards=[0.0] * 5), finalized)
    family = [origin, origin[:], origin[:3], copy.copy(origin), origin.cut(4), origin[2:]]
    lists = [episode.get_observations(slice(-9, 9), neg_index_as_lookback=True) for episode in family]
    expected = [[int(item) for item in items] for items in lists]

    for turn in range(3):
        for place, episode in enumerate(family):
            episode.add_env_step(100 * place + turn, 0, 0.0)
            expected[place].append(100 * place + turn)

    for episode, items in zip(family, expected, strict=True):
        assert list(episode.observations.data) == items
