"""Random actions: how often, for which rows, and from which actions."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import Columns, EpisodiaError
from episodia.connectors.module_to_env.epsilon_greedy import EpsilonGreedy
from module_columns import (
    ACTION_SPACES,
    UNEVEN,
    UNIT,
    WHOLE_BOXES,
    leaf_spaces,
    leaves_of,
    module_actions,
    row,
    started,
)


def _run(piece, batch, *, episodes=(), **kwargs):
    return piece(rl_module=None, batch=batch, episodes=list(episodes), explore=True, **kwargs)


def _all_random(space, rows=300, **kwargs):
    piece = EpsilonGreedy(input_action_space=space, epsilon=1.0, seed=0, **kwargs)
    return _run(piece, {Columns.ACTIONS: module_actions(space, rows)})[Columns.ACTIONS]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.9])
def test_about_epsilon_of_all_rows_are_replaced(epsilon):
    piece = EpsilonGreedy(input_action_space=UNIT, epsilon=epsilon, seed=0)

    after = _run(piece, {Columns.ACTIONS: np.full((20_000, 2), 7.0)})[Columns.ACTIONS]

    assert (after != 7.0).any(axis=1).mean() == pytest.approx(epsilon, abs=0.015)


def test_a_row_is_replaced_as_a_whole_or_not_at_all():
    space = spaces.Dict(a=spaces.Box(-1.0, 1.0, (3,)), b=spaces.Tuple([spaces.Box(-1.0, 1.0, ())]))
    actions = {"a": np.full((500, 3), 7.0), "b": (np.full(500, 7.0),)}

    after = _run(EpsilonGreedy(input_action_space=space, epsilon=0.5, seed=0), {Columns.ACTIONS: actions})[
        Columns.ACTIONS
    ]

    replaced = after["b"][0] != 7.0
    assert 0 < replaced.sum() < 500
    assert ((after["a"] != 7.0) == replaced[:, None]).all()


@pytest.mark.parametrize("name", [*ACTION_SPACES, *WHOLE_BOXES])
def test_actions_keep_their_dtype_and_shape(name):
    space = {**ACTION_SPACES, **WHOLE_BOXES}[name]
    before = leaves_of(module_actions(space, 20))

    after = leaves_of(_all_random(space, 20))

    assert [(leaf.dtype, leaf.shape) for leaf in after] == [(leaf.dtype, leaf.shape) for leaf in before]


@pytest.mark.parametrize("name", ["discrete", "discrete from 5", "discrete from -2", "multi-discrete matrix", "deep"])
def test_all_discrete_actions_come_up_equally_often(name):
    space = ACTION_SPACES[name]
    pairs = zip(leaf_spaces(space), leaves_of(_all_random(space, 6_000)), strict=True)

    for leaf, drawn in pairs:
        if isinstance(leaf, (spaces.Discrete, spaces.MultiDiscrete)):
            sizes = np.atleast_1d(leaf.n if isinstance(leaf, spaces.Discrete) else leaf.nvec.ravel())
            starts = np.broadcast_to(
                leaf.start, sizes.shape if isinstance(leaf, spaces.Discrete) else leaf.shape
            ).ravel()
            for choice, (size, start) in enumerate(zip(sizes, starts, strict=True)):
                counts = np.bincount(drawn.reshape(6_000, -1)[:, choice] - start, minlength=size)
                assert len(counts) == size
                np.testing.assert_allclose(counts / 6_000, 1 / size, atol=0.03)


def test_whole_numbers_reach_both_of_their_bounds():
    drawn = _all_random(WHOLE_BOXES["int64"], 500)

    assert (drawn.min(), drawn.max()) == (-5, 5)


def test_real_actions_fill_the_range_of_modules():
    drawn = _all_random(spaces.Box(100.0, 300.0, (2,)), 5_000)

    assert drawn.min() == pytest.approx(-1.0, abs=0.01)
    assert drawn.max() == pytest.approx(1.0, abs=0.01)
    assert drawn.mean() == pytest.approx(0.0, abs=0.05)


def test_real_actions_in_the_units_of_the_environment_fill_its_bounds():
    drawn = _all_random(spaces.Box(100.0, 300.0, (2,)), 5_000, real_range=None)

    assert drawn.min() == pytest.approx(100.0, abs=1.0)
    assert drawn.max() == pytest.approx(300.0, abs=1.0)


def test_elements_without_a_bound_are_drawn_as_gymnasium_draws_them():
    drawn = _all_random(UNEVEN, 5_000)

    assert (np.abs(drawn[:, 0]) <= 1.0).all()
    assert drawn[:, 1].min() >= 0.0
    assert drawn[:, 1].mean() == pytest.approx(1.0, abs=0.1)
    assert drawn[:, 2].max() <= 3.0
    assert drawn[:, 2].mean() == pytest.approx(2.0, abs=0.1)
    assert drawn[:, 3].std() == pytest.approx(1.0, abs=0.1)


def test_floats_for_a_box_of_whole_numbers_stay_in_the_range_of_modules():
    piece = EpsilonGreedy(input_action_space=WHOLE_BOXES["uint8"], epsilon=1.0, seed=0)

    after = _run(piece, {Columns.ACTIONS: np.zeros((50, 3))})[Columns.ACTIONS]

    assert (np.abs(after) <= 1.0).all()
    assert np.unique(after).size == 150


def test_agents_of_one_module_draw_from_their_own_spaces():
    space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(2, start=50))
    rows = [(index, "ab"[index % 2]) for index in range(40)]
    piece = EpsilonGreedy(input_action_space=space, epsilon=1.0, seed=0)

    after = piece(
        rl_module=None,
        batch={"shared": {Columns.ACTIONS: np.full(40, 9)}},
        episodes=[None] * 40,
        explore=True,
        shared_data={"memorized_map_structure": {"shared": rows}},
    )["shared"][Columns.ACTIONS]

    assert set(after[::2].tolist()) == {0, 1}
    assert set(after[1::2].tolist()) == {50, 51}


# --- Masks ----------------------------------------------------------------------------------------------------------


@given(data=st.data(), start=st.integers(-3, 3), size=st.integers(1, 5))
def test_only_allowed_actions_are_drawn(data, start, size):
    rows = st.lists(st.integers(0, 1), min_size=size, max_size=size).filter(any)
    mask = np.array(data.draw(st.lists(rows, min_size=1, max_size=6)), np.int8)
    piece = EpsilonGreedy(input_action_space=spaces.Discrete(size, start=start), epsilon=1.0, seed=0)

    after = _run(piece, {Columns.ACTIONS: np.full(len(mask), start), Columns.ACTION_MASK: mask})[Columns.ACTIONS]

    assert all(mask[index, action - start] for index, action in enumerate(after.tolist()))


def test_all_allowed_actions_come_up_equally_often():
    mask = np.tile(np.array([1, 0, 1, 0, 1], np.bool_), (6_000, 1))
    piece = EpsilonGreedy(input_action_space=spaces.Discrete(5), epsilon=1.0, seed=0)

    after = _run(piece, {Columns.ACTIONS: np.zeros(6_000, int), Columns.ACTION_MASK: mask})[Columns.ACTIONS]

    np.testing.assert_allclose(np.bincount(after, minlength=5) / 6_000, [1 / 3, 0, 1 / 3, 0, 1 / 3], atol=0.03)


def test_masks_of_a_multi_discrete_space_stand_one_after_another():
    space = spaces.MultiDiscrete([2, 3], start=[1, -1])
    mask = np.tile([0, 1, 1, 0, 1], (200, 1))

    after = _run(
        EpsilonGreedy(input_action_space=space, epsilon=1.0, seed=0),
        {Columns.ACTIONS: np.tile([1, -1], (200, 1)), Columns.ACTION_MASK: mask},
    )[Columns.ACTIONS]

    assert set(after[:, 0].tolist()) == {2}
    assert set(after[:, 1].tolist()) == {-1, 1}


@pytest.mark.parametrize("source", ["batch", "episodes"])
def test_masks_are_found_in_observations(source):
    mask = np.array([[0, 1, 0], [1, 0, 0]] * 10)
    batch = {Columns.ACTIONS: np.full(20, 2)}
    if source == "batch":
        batch[Columns.OBS] = {"action_mask": mask}
    episodes = [started({"action_mask": one}) for one in mask] if source == "episodes" else []

    after = _run(EpsilonGreedy(input_action_space=spaces.Discrete(3), epsilon=1.0, seed=0), batch, episodes=episodes)

    assert after[Columns.ACTIONS].tolist() == [1, 0] * 10


def test_a_part_of_a_nested_action_may_be_masked_alone():
    space = spaces.Dict(move=spaces.Discrete(3), speed=UNIT)
    actions = module_actions(space, 30)
    mask = {"move": np.tile([0, 0, 1], (30, 1))}

    after = _run(
        EpsilonGreedy(input_action_space=space, epsilon=1.0, seed=0),
        {Columns.ACTIONS: actions, Columns.ACTION_MASK: mask},
    )[Columns.ACTIONS]

    assert set(after["move"].tolist()) == {2}


@pytest.mark.parametrize(
    ("space", "mask", "message"),
    [
        (spaces.Discrete(3), [[1, 1, 1], [0, 0, 0]], r"nothing in row \(1,\)"),
        (spaces.MultiDiscrete([1, 2]), [[1, 0, 1], [0, 1, 1]], r"nothing in row \(1,\)"),
        (spaces.Discrete(3), [[1, 1], [1, 1]], r"expected an array \[2, 3\]"),
        (spaces.Box(0, 1, (2,)), [[1, 1], [1, 1]], "only Discrete and MultiDiscrete"),
    ],
)
def test_masks_that_do_not_fit_are_rejected(space, mask, message):
    batch = {Columns.ACTIONS: module_actions(space, 2), Columns.ACTION_MASK: np.array(mask)}

    with pytest.raises(EpisodiaError, match=message):
        _run(EpsilonGreedy(input_action_space=space, epsilon=1.0), batch)


def test_spaces_without_a_fixed_shape_are_rejected():
    space = spaces.Text(3)

    with pytest.raises(EpisodiaError, match="Text"):
        _run(EpsilonGreedy(input_action_space=space, epsilon=1.0), {Columns.ACTIONS: np.array(["a", "b"], object)})


@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_epsilon_is_a_probability(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        EpsilonGreedy(epsilon=epsilon)


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_rows_that_are_not_replaced_stay_bit_for_bit(name):
    space = ACTION_SPACES[name]
    actions = module_actions(space, 40)
    piece = EpsilonGreedy(input_action_space=space, epsilon=0.3, seed=0)
    chosen = np.random.default_rng(0).random(40) < 0.3

    after = _run(piece, {Columns.ACTIONS: actions})[Columns.ACTIONS]

    for index in np.flatnonzero(~chosen):
        pairs = zip(leaves_of(row(actions, index)), leaves_of(row(after, index)), strict=True)
        assert all(np.array_equal(before, now) for before, now in pairs)
