"""One declaration, the same numbers: acting and learning, whole and cut, hand-built and recorded; one gather per column."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from drives import drive
from episodia import EpisodeList
from episodia.connectors import AddViews, Kind, View
from episodia.connectors.views.view_plan import compiled
from episodia.episodes.lists import gather
from episodia.episodes.recorder.live_episodes import LiveEpisodes
from episodia.testing import assert_same_items, check_connector_laws
from hand_built import Twins
from piece_calls import called
from view_oracle import causal_views

FILL = {"h": np.zeros(4, np.float32), "c": np.zeros(4, np.float32)}
SOURCES = (
    "obs",
    "actions",
    "rewards",
    "infos",
    "t",
    "terminateds",
    "eps_id",
    "module_id",
    "env_index",
    "agent_index",
    "weights_version",
)

drives = st.lists(
    st.builds(
        lambda length, seed, end, finalized: drive(length, seed, end=end, finalized=finalized, stateful=True),
        st.integers(0, 5),
        st.integers(0, 50),
        st.sampled_from(["", "terminated", "truncated"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=20)
@given(drives, causal_views(SOURCES))
def test_views_of_the_past_obey_the_laws_of_causal_pieces(episodes, views):
    for place, episode in enumerate(episodes):
        episode.env_index, episode._weights_versions = place, ((0, 3), (2, 5), (4, 6))
    views = {**views, "state": View("state_out", -1, fill=FILL), "logp": View("action_logp", [-2, -1], fill=0.0)}
    laws = check_connector_laws(lambda: [AddViews(without_rounding(views))], episodes)

    assert {"cutting_changes_nothing", "acting_sees_what_learning_sees"} <= set(laws)


def without_rounding(views):
    # Log-probabilities of these drives are Python floats, whose type is unknown before the first one.
    return {**views, "logp": View("action_logp", [-2, -1], fill=np.float64(0.0))}


@settings(max_examples=20)
@given(drives, st.lists(st.integers(-3, 3), min_size=1, max_size=3))
def test_views_of_the_future_obey_the_laws_of_forward_looking_pieces(episodes, shifts):
    views = {"v": View("actions", [*shifts, 1], infer=False), "next": View("obs", 1, infer=False)}
    laws = check_connector_laws(lambda: [AddViews(views)], episodes)

    assert AddViews(views).kind is Kind.FORWARD_LOOKING
    assert "episodes_do_not_depend_on_each_other" in laws


# --- One gather for each column -------------------------------------------------------------------------------------


@pytest.mark.parametrize("current", [False, True])
def test_all_views_of_a_column_are_one_gather(monkeypatch, current):
    counted = []
    taken = gather.taken
    monkeypatch.setattr(gather, "taken", lambda values, *rest: counted.append(1) or taken(values, *rest))
    piece = AddViews(
        {
            "window": View("obs", range(-3, 1)),
            "last": View("obs", -1),
            "odd": View("obs", [-3, -1]),
            "marked": View("obs", [-2, -1], fill=1.0),
            "before": View("actions", -1),
        }
    )
    episodes = EpisodeList([drive(4), drive(3, 1)])

    called(piece, episodes.current() if current else episodes)

    assert len(counted) == 2


def test_shifts_are_gathered_once_however_many_views_show_them():
    [one] = compiled({"a": View("obs", range(-3, 1)), "b": View("obs", [-3, -1]), "c": View("obs", -1)})

    assert one.shifts == (-3, -2, -1, 0)
    assert one.picks == {"a": slice(0, 4), "b": (0, 2), "c": 2}


# --- Recorded episodes ----------------------------------------------------------------------------------------------

VIEWS = {
    "window": View("obs", range(-2, 1)),
    "actions": View("actions", [-3, -1]),
    "reward": View("rewards", -1),
    "logp": View("logp", -1, fill=np.float32(0.0)),
    "info": View("infos", -1),
    "time": View("t", [-2, 0]),
    "flag": View("terminateds", -1),
}
BOX = spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float32), "y": spaces.Discrete(3, start=1)})


def assert_same_views(found, expected):
    assert found.keys() == expected.keys()
    for name in found:
        assert_same_items(found[name].values, expected[name].values)


@settings(max_examples=20)
@given(st.lists(st.sampled_from(["step", "end", "take"]), max_size=14), st.integers(1, 3), st.integers(2, 6), st.data())
def test_recorded_and_hand_built_episodes_show_the_same(moves, lanes, block_steps, data):
    twins = Twins(BOX, spaces.Discrete(2), lanes, lookback=3, block_steps=block_steps)
    live = LiveEpisodes(twins.recorder)
    twins.reset(range(lanes))
    for move in moves:
        if move == "take":
            taken, expected = twins.take()
            if len(taken):
                assert_same_views(
                    called(AddViews(VIEWS), EpisodeList(taken)), called(AddViews(VIEWS), EpisodeList(expected))
                )
        else:
            ends = data.draw(st.sets(st.integers(0, lanes - 1))) if move == "end" else ()
            twins.step(range(lanes), ends, extras=("logp",))
        live.refresh()
        assert_same_views(called(AddViews(VIEWS), live), called(AddViews(VIEWS), EpisodeList(twins.episodes).current()))
        if twins.idle():
            twins.reset(twins.idle())
            live.refresh()


def test_a_list_that_a_recorder_returns_is_read_without_making_episodes():
    twins = Twins(BOX, spaces.Discrete(2), 2, lookback=3)
    twins.reset(range(2))
    for _ in range(4):
        twins.step(range(2), extras=("logp",))
    taken = twins.recorder.take()
    views = {name: VIEWS[name] for name in ("window", "actions", "reward", "logp", "time", "flag")}

    called(AddViews(views), taken.forked())

    assert taken.is_untouched


def test_writes_into_a_running_episode_are_seen():
    twins = Twins(spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2), 2)
    twins.reset(range(2))
    twins.step(range(2))
    live = LiveEpisodes(twins.recorder)
    live[1].set_observations(new_data=np.array([7.0], np.float32), at_indices=-1)

    found = called(AddViews({"v": View("obs", [-1, 0])}), live)["v"].values

    assert found[1, 1].tolist() == [7.0]
