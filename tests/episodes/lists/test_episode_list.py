"""Columns of many episodes against the getters of each of them."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import Columns, EpisodeList, MultiAgentEpisode, SingleAgentEpisode
from episodia.errors import DroppedHistoryError, EpisodeError, EpisodeIndexError, EpisodeKeyError, ShapeError
from episodia.stacking import stack, unstack
from episodia.testing import EPISODES, MULTI_AGENT_EPISODES, assert_same_items, episodes
from shown_html import Shown


def walk(length: int, *, first: int = 0, lookback: int = 0, finalized: bool = False, **kwargs) -> SingleAgentEpisode:
    """Return an episode whose observation at time step t is `first + t`, and whose action is ten times that."""
    steps = range(first, first + lookback + length)
    episode = SingleAgentEpisode(
        observations=[np.array([float(t)]) for t in [*steps, steps.stop]],
        actions=[10 * t for t in steps],
        rewards=[t / 2 for t in steps],
        extra_model_outputs={"logp": [-float(t) for t in steps]},
        len_lookback_buffer=lookback,
        t_started=first + lookback,
        **kwargs,
    )
    return episode.finalize() if finalized else episode


walks = st.builds(
    lambda length, lookback, finalized: walk(length, lookback=lookback, finalized=finalized),
    st.integers(0, 5),
    st.integers(0, 3),
    st.booleans(),
)
lists_of_walks = st.lists(walks, min_size=1, max_size=5)


@given(lists_of_walks)
def test_flat_columns_are_the_items_of_the_getters_one_after_another(found):
    listed = EpisodeList(found)

    for column, getter in ((Columns.ACTIONS, "get_actions"), (Columns.REWARDS, "get_rewards")):
        expected = [item for episode in found for item in getattr(episode, getter)()]
        assert listed.flat(column).items() == expected
    expected = [row for episode in found for row in episode.get_observations(slice(0, len(episode)))]
    assert_same_items(listed.flat(Columns.OBS).items(), expected)
    assert_same_items(
        listed.flat(Columns.OBS, tail=True).tails(), np.stack([episode.get_observations(-1) for episode in found])
    )
    assert_same_items(listed.latest(Columns.OBS), listed.flat(Columns.OBS, tail=True).tails())


@given(lists_of_walks, st.lists(st.integers(-4, 4), min_size=1, max_size=4), st.booleans())
def test_windows_agree_with_the_getters_of_each_step(found, shifts, tail):
    # Where nothing was dropped: every chunk begins where its lookback does.
    for episode in found:
        episode.t_started, episode.t = episode.observations.lookback, episode.observations.lookback + len(episode)

    rows = EpisodeList(found).windows(Columns.OBS, shifts=shifts, fill=-7, tail=tail)

    expected = [
        [float(episode.get_observations(t + shift, neg_index_as_lookback=True, fill=-7)[0]) for shift in shifts]
        for episode in found
        for t in range(len(episode) + tail)
    ]
    assert rows.values[..., 0].tolist() == expected
    assert rows.lengths.tolist() == [len(episode) for episode in found]


@given(lists_of_walks, st.lists(st.integers(-4, 1), min_size=1, max_size=4))
def test_a_current_row_is_the_row_after_the_last_step(found, shifts):
    for episode in found:
        episode.t_started, episode.t = episode.observations.lookback, episode.observations.lookback + len(episode)
    steps, current = EpisodeList(found), EpisodeList(found).current()

    for column in (Columns.OBS, Columns.ACTIONS, "logp"):
        expected = steps.windows(column, shifts=shifts, fill=-7, tail=True).tails()
        assert_same_items(current.windows(column, shifts=shifts, fill=-7).values, expected)
    assert_same_items(current.flat(Columns.OBS).values, steps.latest(Columns.OBS))
    assert current.steps()[1].tolist() == [episode.t for episode in found]


def test_what_a_step_adds_is_not_there_at_the_present_moment():
    with pytest.raises(EpisodeKeyError, match="'actions' asked for at the present moment"):
        EpisodeList([walk(2)]).current().flat(Columns.ACTIONS)


@given(lists_of_walks)
def test_every_step_knows_its_episode_and_time(found):
    rows, times = EpisodeList(found).steps()

    expected = [(i, t) for i, episode in enumerate(found) for t in range(episode.t_started, episode.t)]
    assert list(zip(rows.tolist(), times.tolist(), strict=True)) == expected
    assert EpisodeList(found).flat(Columns.T).items() == [t for _, t in expected]


def test_flags_stand_at_the_last_step():
    found = [walk(2, terminated=True), walk(0, terminated=True), walk(3), walk(1, truncated=True)]

    assert EpisodeList(found).flat(Columns.TERMINATEDS).items() == [False, True, False, False, False, False]
    assert EpisodeList(found).flat(Columns.TRUNCATEDS).items() == [False] * 5 + [True]


def test_history_that_was_dropped_is_an_error_and_no_filling():
    whole = walk(6)
    chunk = whole.cut(len_lookback_buffer=1)
    chunk.add_env_step(np.array([9.0]), 5, 0.0, extra_model_outputs={"logp": 0.0})

    with pytest.raises(DroppedHistoryError, match=r"found a lookback of 1 in episode 1 of the list.*at least 3"):
        EpisodeList([whole, chunk]).windows(Columns.OBS, shifts=[-3, 0], fill=0)


def test_reading_before_the_first_step_is_filled():
    rows = EpisodeList([walk(2)]).windows(Columns.ACTIONS, shifts=[-2, -1], fill=-1)

    assert rows.values.tolist() == [[-1, -1], [-1, 0]]


@given(st.lists(episodes(), min_size=1, max_size=3))
def test_columns_of_any_space_stack_as_the_episodes_do(found):
    found = found[:1] * 2  # of one space
    flat = EpisodeList(found).flat(Columns.OBS, tail=True)

    rows = [item for episode in found for item in unstack_or_list(episode.get_observations())]
    assert_same_items(flat.values, stack(rows, found[0].observations.object_leaves))


def unstack_or_list(items):
    """Return a list of items, whatever the form of the episode was."""
    return items if isinstance(items, list) else unstack(items)


@pytest.mark.parametrize("name", [name for name in EPISODES if EPISODES[name]().is_reset])
def test_the_latest_items_of_the_catalogue_stack(name):
    episode = EPISODES[name]()

    latest = EpisodeList([episode, episode]).latest(Columns.OBS)

    item = episode.get_observations(-1)
    assert_same_items(latest, stack([item, item], episode.observations.object_leaves))


SHARED = spaces.Box(-99.0, 99.0, (2,), np.float32)


def running(length: int, whose: str, then: str) -> SingleAgentEpisode:
    """Return an episode that was stepped through, in a space of its own, of all, or of nobody; then something happens."""
    space = {"shared": SHARED, "own": spaces.Box(-99.0, 99.0, (2,), np.float32), "none": None}[whose]
    episode = SingleAgentEpisode(observation_space=space)
    episode.add_env_reset(np.array([-1.0, length], np.float32))
    for t in range(length):
        episode.add_env_step(np.array([t, length], np.float32), t, 0.0)
    if then == "overwritten":
        episode.set_observations(new_data=np.array([0.25, 0.5]), at_indices=-1)
    elif then == "cut":
        episode = episode.cut(len_lookback_buffer=1)
    return episode.finalize() if then == "finalized" else episode


@given(
    st.lists(
        st.builds(
            running,
            st.integers(1, 3),
            st.sampled_from(["shared", "shared", "own", "none"]),
            st.sampled_from(["nothing", "nothing", "overwritten", "cut", "finalized"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_the_latest_observations_are_the_last_of_the_getters_however_each_is_stored(found):
    latest = EpisodeList(found).latest(Columns.OBS)

    assert_same_items(latest, np.stack([episode.get_observations(-1) for episode in found]))
    latest[...] = 7.0
    assert not any((episode.get_observations(-1) == 7.0).any() for episode in found)


def test_the_latest_item_of_an_episode_that_was_not_reset_is_rejected_by_its_id():
    with pytest.raises(EpisodeIndexError, match="episode 'new': found no item in the column 'obs'"):
        EpisodeList([walk(1), SingleAgentEpisode("new")]).latest(Columns.OBS)


def test_an_extra_column_that_one_episode_lacks_is_named():
    odd = SingleAgentEpisode("odd", observations=[0, 1], actions=[0], rewards=[0.0], len_lookback_buffer=0)

    with pytest.raises(EpisodeKeyError, match="episode 'odd': found no column 'logp'"):
        EpisodeList([walk(1), odd]).flat("logp")
    assert not EpisodeList([walk(1), odd]).has("logp")


def test_episodes_of_other_shapes_are_rejected_with_both_shapes():
    flat = SingleAgentEpisode(
        observations=np.zeros((2, 3)), actions=np.zeros(1), rewards=np.zeros(1), len_lookback_buffer=0
    )

    with pytest.raises(ShapeError, match=r"rows of float64\[1\] and of float64\[3\]"):
        EpisodeList([walk(2, finalized=True), flat]).flat(Columns.OBS)


def test_kinds_of_episodes_do_not_mix():
    with pytest.raises(EpisodeError, match="both single-agent and multi-agent"):
        EpisodeList([walk(1), MultiAgentEpisode()])
    with pytest.raises(EpisodeError, match="expected episodes of one kind"):
        EpisodeList([3])


# --- Forks ----------------------------------------------------------------------------------------------------------


def test_what_is_written_into_a_fork_shows_in_its_columns_and_not_in_ours():
    episode = walk(2)
    ours = EpisodeList([episode, walk(1)])
    forked = ours.forked()

    forked[0].set_rewards(new_data=[7.0, 8.0])

    assert forked.flat(Columns.REWARDS).items() == [7.0, 8.0, 0.0]
    assert ours.flat(Columns.REWARDS).items() == [0.0, 0.5, 0.0]
    assert forked[0] is forked[0]
    assert forked[0] is not episode


def test_columns_of_a_fork_make_no_copies_of_episodes():
    forked = EpisodeList([walk(2)]).forked()

    forked.flat(Columns.OBS)

    assert not forked._handed_out


def team() -> MultiAgentEpisode:
    """Return an episode of two agents with modules of their own."""
    return MultiAgentEpisode(
        observations=[{"a": 0, "b": 1}, {"a": 2, "b": 3}],
        actions=[{"a": 0, "b": 0}],
        rewards=[{"a": 1.0, "b": 2.0}],
        len_lookback_buffer=0,
        agent_to_module_mapping_fn=lambda agent, _: f"module of {agent}",
    )


@pytest.mark.parametrize("make", [lambda: walk(2), team], ids=["single-agent", "multi-agent"])
@pytest.mark.parametrize("hand_out", [lambda rows: rows.agent_episodes, list, lambda rows: [rows[0]]])
def test_groups_of_forks_return_forks(make, hand_out):
    ours = EpisodeList([make()])
    before = ours[0].get_return()
    forked = ours.forked()

    for rows in forked.groups().values():
        for episode in hand_out(rows):
            episode.set_rewards(new_data=[99.0] * len(episode))
        assert set(rows.flat(Columns.REWARDS).items()) == {99.0}

    assert ours[0].get_return() == before
    assert forked[0].get_return() != before


def test_a_slice_of_the_present_moment_is_the_present_moment():
    current = EpisodeList([walk(2), walk(3)]).current()

    assert current[:1].is_current
    assert current[1:].flat(Columns.OBS).num_steps == 1


# --- A sequence ------------------------------------------------------------------------------------------------------


def test_it_is_a_sequence_of_the_very_episodes():
    first, second, third = walk(1), walk(2), walk(3)
    listed = EpisodeList([first, second, third])

    assert listed[0] is first
    assert listed[-1] is third
    assert list(listed[1:]) == [second, third]
    assert [*listed] == [first, second, third]
    assert EpisodeList.of(listed) is listed
    assert listed == [first, second, third]
    assert repr(listed) == "EpisodeList(3 SingleAgentEpisodes, 6 steps, 0 done)"


def test_a_plain_list_takes_the_episodes_and_stays_plain():
    first, second, third = walk(1), walk(2), walk(3)
    listed = EpisodeList([second, third])
    kept = [first]
    kept += listed

    for made in ([first] + listed, kept):  # noqa: RUF005  # the sum is what is tested
        assert type(made) is list
        assert [id(episode) for episode in made] == [id(first), id(second), id(third)]
    assert type([] + listed) is list  # noqa: RUF005
    assert len(listed) == 2


@pytest.mark.parametrize("kind", [list, EpisodeList])
def test_an_episode_list_and_more_episodes_are_an_episode_list(kind):
    first, second, third = walk(1), walk(2), walk(3)
    listed = grown = EpisodeList([first])
    grown += kind([second])
    made = grown + kind([third])

    assert type(grown) is type(made) is EpisodeList
    assert [id(episode) for episode in made] == [id(first), id(second), id(third)]
    assert made.lengths.tolist() == [1, 2, 3]
    # Like a list, it is extended in place.
    assert listed is grown
    assert len(grown) == 2
    assert (EpisodeList() + kind([MultiAgentEpisode()])).is_multi_agent


def test_it_is_reversed_and_sorted_in_place_as_a_list_is():
    plain = [walk(2), walk(3), walk(1)]
    listed = EpisodeList(plain)

    for change in (list.reverse, lambda episodes: episodes.sort(key=len), lambda one: one.sort(key=len, reverse=True)):
        change(plain)
        EpisodeList.reverse(listed) if change is list.reverse else change(listed)

        assert list(map(id, listed)) == list(map(id, plain))
        assert listed.lengths.tolist() == list(map(len, plain))


@pytest.mark.parametrize("kind", [list, EpisodeList])
def test_sums_of_other_kinds_are_rejected(kind):
    with pytest.raises(EpisodeError, match="one kind"):
        EpisodeList([walk(1)]) + kind([MultiAgentEpisode()])
    with pytest.raises(TypeError, match="unsupported operand"):
        EpisodeList([walk(1)]) + 1
    with pytest.raises(TypeError, match="tuple"):
        (walk(1),) + EpisodeList([walk(1)])  # noqa: RUF005


def test_notebooks_get_a_row_for_each_episode():
    first, second, third = walk(1), walk(2, lookback=1, terminated=True), walk(3, truncated=True)
    page = Shown(EpisodeList([first, second, third])._repr_html_())

    assert page.rows[0] == ["episode", "time steps", "length", "lookback", "return", "end"]
    assert [row[0] for row in page.rows[1:]] == [first.id_, second.id_, third.id_]
    assert [row[1:] for row in page.rows[1:]] == [
        ["0 .. 1", "1", "0", "0", "running"],
        ["1 .. 3", "2", "1", "1.5", "terminated"],
        ["0 .. 3", "3", "0", "1.5", "truncated"],
    ]


def test_a_long_list_is_cut_and_counted():
    page = Shown(EpisodeList([SingleAgentEpisode("<b>" * 1_000) for _ in range(1_000)])._repr_html_())

    assert len(page.rows) == 1 + 100
    assert "... and 900 more episodes" in page.text


@pytest.mark.parametrize("now", [False, True])
def test_an_empty_list_has_empty_windows(now):
    episodes = EpisodeList([]).current() if now else EpisodeList([])

    windows = episodes.windows(Columns.OBS, shifts=[-1, 0], fill=0)

    assert (len(windows), windows.num_steps) == (0, 0)


def test_an_empty_list_has_empty_columns():
    empty = EpisodeList()

    assert len(empty.flat(Columns.REWARDS).values) == 0
    assert empty.lengths.tolist() == []
    assert repr(empty) == "EpisodeList(no episodes)"


# --- Many agents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_rows_of_multi_agent_episodes_are_their_agents(name):
    episode = MULTI_AGENT_EPISODES[name]()
    listed = EpisodeList([episode, episode])

    singles = [*episode.agent_episodes.values()] * 2
    assert listed.is_multi_agent
    assert listed.agent_episodes == singles
    assert listed.lengths.tolist() == [len(single) for single in singles]
    modules = {module: rows.tolist() for module, rows in listed.by_module().items()}
    assert sorted(row for rows in modules.values() for row in rows) == list(range(len(singles)))
    for module, rows in modules.items():
        assert {singles[row].module_id for row in rows} == {module}


@pytest.mark.parametrize("name", MULTI_AGENT_EPISODES)
def test_current_rows_of_multi_agent_episodes_are_the_agents_that_act(name):
    episode = MULTI_AGENT_EPISODES[name]()
    current = EpisodeList([episode]).current()

    assert {single.agent_id for single in current.agent_episodes} == episode.get_agents_to_act()
    assert list(current) == [episode]
    for module, group in current.groups().items():
        assert {single.module_id for single in group} == {module}


@pytest.mark.parametrize("others", [[], [walk(2)]])
def test_an_episode_that_was_never_reset_is_named_with_the_remedy(others):
    unstarted = EpisodeList([*others, SingleAgentEpisode("unstarted")])

    with pytest.raises(EpisodeIndexError, match=r"'unstarted': found no item in the column 'obs'.*`add_env_reset`"):
        unstarted.flat(Columns.OBS, tail=True)
