"""What views show, against plain lists: of every source, at every shift, when acting and when learning."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import EpisodeList, SingleAgentEpisode
from episodia.connectors import AddViews, View
from episodia.errors import BatchError, DroppedHistoryError, EpisodeError, EpisodeKeyError, PipelineError
from episodia.spaces import structure_of
from episodia.stacking import unstack
from episodia.testing import assert_same_items
from episodia.trees import equal, map_batch
from piece_calls import as_arrays, built, called
from view_oracle import AT_OBSERVATIONS, from_birth_with_everything, row, shifts, source_items, zero_item
from walks import walk

SOURCES = ("obs", "actions", "rewards", "infos", "t", "terminateds", "truncateds", "eps_id", "agent_id", "module_id")
SOURCES += ("agent_index", "weights_version")
FILLS = {"obs": 0, "actions": 0, "rewards": 0.0, "t": -1, "terminateds": False, "truncateds": False}
FILLS |= {"agent_index": -1, "weights_version": -1}


def trained(view, *episodes):
    """Return the rows that a learner sees, tails included, as lists."""
    return rows_of(called(AddViews({"v": view}), EpisodeList(episodes))["v"])


def acted(view, *episodes):
    """Return the rows that a module acts on, as lists."""
    return rows_of(called(AddViews({"v": view}), EpisodeList(episodes).current())["v"])


def rows_of(column):
    return map_batch(lambda leaf: leaf.tolist(), only(column).values)


def items_in(column, shift):
    """Return the item of each row, or of each row and shift, of a column."""
    rows = unstack(only(column).values)
    return rows if isinstance(shift, int) else [unstack(row) for row in rows]


def only(column):
    """Return the rows of the one module that there is."""
    return next(iter(column.values())) if isinstance(column, dict) else column


@settings(max_examples=30)
@given(from_birth_with_everything(), st.sampled_from(["obs", "actions"]), shifts(), st.booleans())
def test_rows_are_the_items_so_many_steps_away(trajectory, source, shift, finalized):
    items = source_items(trajectory, source)
    space = trajectory.observation_space if source == "obs" else trajectory.action_space
    zero = zero_item(nearest(space))
    expected = [row(items, t, shift, zero) for t in range(len(trajectory) + 1)]

    found = called(AddViews({"v": View(source, shift, fill=0)}), EpisodeList([built(trajectory, finalized)]))["v"]

    assert equal(items_in(found, shift), expected)


@settings(max_examples=30)
@given(from_birth_with_everything(), st.sampled_from([*SOURCES[2:]]), shifts(), st.booleans())
def test_rows_of_what_has_no_space_are_so_many_steps_away(trajectory, source, shift, finalized):
    items = source_items(trajectory, source)
    expected = [row(items, t, shift, FILLS.get(source)) for t in range(len(trajectory) + 1)]
    if trajectory.infos is None and source == "infos":
        return

    found = called(AddViews({"v": View(source, shift)}), EpisodeList([built(trajectory, finalized)]))["v"]

    for item, wanted in zip(only(found).values.ravel(), np.asarray(expected, object).ravel(), strict=True):
        assert_same_items(item if source == "infos" else np.asarray(item).item(), wanted)


def nearest(space):
    """Return the item of a space that is closest to zeros, element by element."""
    return map_batch(_nearest, structure_of(space))


def _nearest(space):
    if isinstance(space, spaces.Box):
        return np.minimum(np.maximum(space.low, 0), space.high).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return np.int64(min(range(space.start, space.start + space.n), key=abs))
    if isinstance(space, spaces.MultiDiscrete):
        pairs = zip(space.start.ravel(), space.nvec.ravel(), strict=True)
        classes = [min(range(start, start + count), key=abs) for start, count in pairs]
        return np.array(classes, space.dtype).reshape(space.shape)
    return np.zeros(space.shape, space.dtype)


@settings(max_examples=30)
@given(from_birth_with_everything(), st.sampled_from(["obs", "actions"]))
def test_steps_that_are_not_there_are_filled_from_the_space(trajectory, source):
    space = trajectory.observation_space if source == "obs" else trajectory.action_space
    episode = built(trajectory, False)

    found = called(AddViews({"v": View(source, -9)}), EpisodeList([episode]))["v"]

    assert_same_items(items_in(found, -9), [nearest(space)] * (len(trajectory) + 1))
    assert all(space.contains(as_arrays(item)) for item in items_in(found, -9))


@settings(max_examples=30)
@given(from_birth_with_everything(), shifts(high=0), shifts(high=-1), st.booleans())
def test_what_is_acted_on_is_what_is_learned_from(trajectory, at_observations, at_steps, finalized):
    views = {f"seen {source}": View(source, at_observations) for source in AT_OBSERVATIONS}
    views |= {
        source: View(source, at_steps)
        for source in ("actions", "rewards", "terminateds", "weights_version", *trajectory_extras())
    }
    extras = trajectory.extra_model_outputs
    views = {name: view for name, view in views.items() if name not in trajectory_extras() or name in extras}
    episode = built(trajectory, finalized)
    learned = called(AddViews(views), EpisodeList([episode]))

    for t in range(1, len(trajectory)):
        acted = called(AddViews(views), EpisodeList([episode[:t]]).current())
        for name, column in acted.items():
            assert_same_items(only(column).items(), [unstack(only(learned[name]).values)[t]])


def trajectory_extras():
    return ("action_logp", "logits", "state")


def test_a_list_of_shifts_gives_a_row_for_each_step():
    # RLlib 1.3 gave one row in all (peers' defect 2).
    assert trained(View("obs", [-2, -1]), walk())[:-1] == [[0, 0], [0, 0], [0, 1], [1, 2]]


def test_an_extra_model_output_is_a_source():
    assert trained(View("logp", -1, fill=0.5), walk()) == [0.5, -0.1, -0.2, -0.3, -0.4]
    assert acted(View("logp", [-2, -1], fill=0.5), walk()) == [[-0.3, -0.4]]


def test_a_view_without_a_source_is_of_its_own_name():
    assert called(AddViews({"rewards": View(shift=1, infer=False)}), EpisodeList([walk()]))[
        "rewards"
    ].values.tolist() == [
        1.5,
        2.5,
        3.5,
        0.0,
        0.0,
    ]


def test_after_the_end_of_a_chunk_stands_the_fill():
    assert trained(View("actions", [0, 1, 2], fill=-1, infer=False), walk())[2:] == [
        [12, 13, -1],
        [13, -1, -1],
        [-1] * 3,
    ]


def test_views_of_one_column_may_be_filled_differently():
    piece = AddViews(
        {"a": View("obs", [-1, 0], fill=7), "b": View("obs", -1, fill=9), "c": View("obs", [-1, 0], fill=7)}
    )
    batch = called(piece, EpisodeList([walk()]))

    assert batch["a"].values.tolist()[:2] == [[7, 0], [0, 1]]
    assert batch["b"].values.tolist()[:2] == [9, 0]
    assert batch["c"].values.tolist() == batch["a"].values.tolist()


def test_a_fill_can_be_an_item():
    episode = SingleAgentEpisode(observations=[{"x": np.ones(2), "y": 3}] * 2, actions=[0], rewards=[0.0])
    fill = {"x": np.array([5.0, 6.0]), "y": 4}

    found = called(AddViews({"v": View("obs", -5, fill=fill)}), EpisodeList([episode.slice(slice(0, 0))]))["v"].values

    assert found["x"].tolist() == [[5.0, 6.0]]
    assert found["y"].tolist() == [4]


@pytest.mark.parametrize("fill", [0.5, [1, 2], "x", {"x": 0}])
def test_a_fill_that_the_column_cannot_hold_is_rejected(fill):
    with pytest.raises(EpisodeError, match="expected"):
        trained(View("obs", -1, fill=fill), walk())


def test_what_is_written_into_one_view_does_not_show_up_in_another():
    batch = called(
        AddViews({"a": View("obs", [-1, 0]), "b": View("obs", 0), "c": View("obs", [0])}), EpisodeList([walk()])
    )
    batch["a"].values[:] = 99
    batch["c"].values[:] = 77

    assert batch["b"].values.tolist() == [0, 1, 2, 3, 4]
    assert batch["a"].values.tolist() == [[99, 99]] * 5


def test_views_are_tracks_in_training_and_rows_when_acting():
    episodes = EpisodeList([walk(), walk()])
    learned, acted_on = called(AddViews({"v": View("actions", -1)}), episodes)["v"], None
    acted_on = called(AddViews({"v": View("actions", -1)}), episodes.current())["v"]

    assert (learned.tail, learned.tails().tolist(), learned.num_steps) == (1, [13, 13], 8)
    assert (acted_on.tail, acted_on.values.tolist()) == (0, [13, 13])


def test_each_sees_its_own_views():
    piece = AddViews({"both": View("obs"), "learner": View("obs", infer=False), "runner": View("obs", train=False)})

    assert called(piece, EpisodeList([walk()])).keys() == {"both", "learner"}
    assert called(piece, EpisodeList([walk()]).current()).keys() == {"both", "runner"}


def test_history_that_was_dropped_is_an_error_and_no_fill():
    cut = walk().cut(len_lookback_buffer=1)

    assert acted(View("obs", [-1, 0]), cut) == [[3, 4]]
    with pytest.raises(DroppedHistoryError):
        acted(View("obs", -2), cut)


def test_time_steps_and_ids_need_no_history():
    cut = walk().cut(len_lookback_buffer=0)

    assert acted(View("t", [-5, -3, 0]), cut) == [[-1, 1, 4]]
    assert acted(View("eps_id", [-5, -3, 0]), cut) == [[None, "walk", "walk"]]
    assert acted(View("terminateds", -3), cut) == [False]


# --- Before the first step ------------------------------------------------------------------------------------------


def new(**kwargs):
    return SingleAgentEpisode(observations=[1.5], **kwargs)


def test_the_action_space_tells_what_an_action_will_look_like():
    found = called(
        AddViews({"v": View("actions", [-2, -1])}),
        EpisodeList([new(action_space=spaces.Discrete(3, start=4))]).current(),
    )

    assert found["v"].values.tolist() == [[4, 4]]
    assert found["v"].values.dtype == np.int64


def test_a_fill_tells_what_an_extra_output_will_look_like():
    fill = {"h": np.zeros(2, np.float32), "n": np.int8(3)}
    found = called(AddViews({"v": View("state", -1, fill=fill)}), EpisodeList([new(), new()]).current())["v"].values

    assert found["h"].shape == (2, 2)
    assert found["h"].dtype == np.float32
    assert found["n"].tolist() == [3, 3]
    assert found["n"].dtype == np.int8


def test_a_number_tells_that_an_extra_output_will_be_a_number():
    found = called(AddViews({"v": View("logp", -1, fill=0.0)}), EpisodeList([new()]).current())["v"].values

    assert found.dtype == np.float32
    assert found.tolist() == [0.0]


@pytest.mark.parametrize("source", ["actions", "logp"])
def test_an_unknown_form_of_an_item_is_reported(source):
    with pytest.raises(
        BatchError, match=rf"no item of the column '{source}'.*Give the episodes their spaces, or the view a `fill`"
    ):
        acted(View(source, -1), new())


def test_a_column_that_an_episode_with_steps_does_not_have_is_an_error():
    with pytest.raises(EpisodeKeyError, match="no column 'nothing'"):
        trained(View("nothing", -1), walk())


def test_new_episodes_among_others_are_filled():
    assert acted(View("logp", -1, fill=9.0), walk(), SingleAgentEpisode(observations=[5])) == [-0.4, 9.0]


def test_rewards_are_floats_from_the_first_step_on():
    episode = SingleAgentEpisode(observations=[0], len_lookback_buffer=0)
    first = called(AddViews({"v": View("rewards", -1)}), EpisodeList([episode]).current())["v"].values
    episode.add_env_step(1, 0, 3)
    second = called(AddViews({"v": View("rewards", -1)}), EpisodeList([episode]).current())["v"].values

    assert first.dtype == second.dtype == np.float64
    assert (first.tolist(), second.tolist()) == ([0.0], [3.0])


# --- Every n-th step ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), min_size=1, max_size=3), st.integers(1, 4), shifts(-3, 0))
def test_every_nth_step_of_each_chunk_has_a_row(lengths, every, shift):
    episodes = [
        SingleAgentEpisode(
            observations=list(range(length + 1)), actions=[0] * length, rewards=[0.0] * length, len_lookback_buffer=0
        )
        for length in lengths
    ]
    found = called(AddViews({"v": View("obs", shift, every=every)}), EpisodeList(episodes))["v"]
    expected = [row(list(range(length + 1)), t, shift, 0) for length in lengths for t in range(0, length, every)]

    assert found.body().values.tolist() == expected
    assert found.tails().tolist() == [row(list(range(length + 1)), length, shift, 0) for length in lengths]
    assert found.every == every


def test_modules_that_are_not_ids_are_rejected():
    with pytest.raises(PipelineError, match=r"`modules=3`, expected a list of module ids"):
        AddViews({"last": View("obs", shift=-1)}, modules=3)
