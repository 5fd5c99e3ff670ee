"""Actions for the environment lie within its bounds; actions as the module put them out stay."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import Columns, EpisodiaError
from episodia.connectors.module_to_env.normalize_and_clip_actions import NormalizeAndClipActions
from module_columns import (
    ACTION_SPACES,
    BOXES,
    UNEVEN,
    WHOLE_BOXES,
    Acting,
    leaf_spaces,
    leaves_of,
    module_actions,
    row,
    same,
)


def _run(piece, batch, module=None, **kwargs):
    return piece(rl_module=module, batch=batch, episodes=[], **kwargs)


def _unsquashed(value, low, high):
    """Return one number as it should be, in plain Python."""
    if np.isfinite(low) and np.isfinite(high):
        return low + (min(max(value, -1.0), 1.0) + 1.0) / 2.0 * (high - low)
    return min(max(value, low), high)


def _expected(leaf, actions, change):
    """Return a leaf of one row, element by element."""
    if not isinstance(leaf, spaces.Box):
        return actions
    numbers = zip(*(np.ravel(part).astype(float) for part in (actions, leaf.low, leaf.high)), strict=True)
    return np.array([change(*number) for number in numbers], float).reshape(leaf.shape)


@pytest.mark.parametrize("name", ACTION_SPACES)
@pytest.mark.parametrize("normalize", [True, False])
def test_each_row_equals_what_plain_python_makes_of_it(name, normalize):
    space = ACTION_SPACES[name]
    actions = module_actions(space, 6)
    piece = NormalizeAndClipActions(input_action_space=space, normalize_actions=normalize, clip_actions=True)
    change = _unsquashed if normalize else (lambda value, low, high: min(max(value, low), high))

    changed = _run(piece, {Columns.ACTIONS: actions})[Columns.ACTIONS_FOR_ENV]

    for index in range(6):
        parts = zip(leaf_spaces(space), leaves_of(row(actions, index)), leaves_of(row(changed, index)), strict=True)
        for leaf, before, after in parts:
            np.testing.assert_allclose(after, _expected(leaf, before, change), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_every_action_for_the_environment_belongs_to_its_space(name):
    space = ACTION_SPACES[name]
    batch = {Columns.ACTIONS: module_actions(space, 8)}

    changed = _run(NormalizeAndClipActions(input_action_space=space), batch)[Columns.ACTIONS_FOR_ENV]

    assert all(space.contains(row(changed, index)) for index in range(8))


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_the_actions_of_the_module_stay_as_they_are(name):
    space = ACTION_SPACES[name]
    actions = module_actions(space, 5)

    batch = _run(NormalizeAndClipActions(input_action_space=space), {Columns.ACTIONS: actions})

    assert batch[Columns.ACTIONS] is actions
    assert same(actions, module_actions(space, 5))


@given(
    values=st.lists(st.floats(-3.0, 3.0, width=32), min_size=1, max_size=6),
    low=st.floats(-50, 49),
    width=st.floats(0.1, 50),
)
def test_the_ends_of_the_range_become_the_bounds(values, low, width):
    space = spaces.Box(low, low + width, (1,), np.float64)
    actions = np.array([[-1.0], [1.0], *([value] for value in values)])

    changed = _run(NormalizeAndClipActions(input_action_space=space), {Columns.ACTIONS: actions})[
        Columns.ACTIONS_FOR_ENV
    ]

    np.testing.assert_allclose(changed[:2, 0], [low, low + width], rtol=1e-12, atol=1e-12)
    assert ((space.low <= changed) & (changed <= space.high)).all()


def test_elements_with_an_infinite_bound_keep_their_value_up_to_the_finite_one():
    actions = np.array([[0.5, 0.5, 0.5, 0.5], [9.0, -9.0, 9.0, -9.0]])

    changed = _run(NormalizeAndClipActions(input_action_space=UNEVEN), {Columns.ACTIONS: actions})

    assert changed[Columns.ACTIONS_FOR_ENV].tolist() == [[1.0, 0.5, 0.5, 0.5], [2.0, 0.0, 3.0, -9.0]]


@pytest.mark.parametrize("name", WHOLE_BOXES)
def test_whole_numbers_for_a_box_of_whole_numbers_are_the_actions_themselves(name):
    space = WHOLE_BOXES[name]
    actions = module_actions(space, 6)

    changed = _run(NormalizeAndClipActions(input_action_space=space), {Columns.ACTIONS: actions})

    assert same(changed[Columns.ACTIONS_FOR_ENV], actions)


def test_floats_for_a_box_of_whole_numbers_are_spread_over_it_and_rounded():
    space = WHOLE_BOXES["uint8"]
    actions = np.array([[-1.0, 0.0, 1.0], [-7.0, 0.5, 7.0]], np.float32)

    changed = _run(NormalizeAndClipActions(input_action_space=space), {Columns.ACTIONS: actions})[
        Columns.ACTIONS_FOR_ENV
    ]

    assert changed.dtype == np.uint8
    assert changed.tolist() == [[10, 132, 255], [10, 194, 255]]


def test_floats_beyond_all_whole_numbers_come_out_within_the_space():
    space = WHOLE_BOXES["unbounded int64"]
    actions = np.array([[1e30, -1e30], [2.6, -2.6]])

    changed = _run(NormalizeAndClipActions(input_action_space=space), {Columns.ACTIONS: actions})[
        Columns.ACTIONS_FOR_ENV
    ]

    assert changed[1].tolist() == [3, -3]
    assert (np.sign(changed[0]) == [1, -1]).all()


def test_what_a_piece_before_has_made_for_the_environment_is_brought_into_the_bounds():
    batch = {Columns.ACTIONS: np.zeros((1, 2), np.float32), Columns.ACTIONS_FOR_ENV: np.full((1, 2), 0.5, np.float32)}

    changed = _run(NormalizeAndClipActions(input_action_space=spaces.Box(0.0, 4.0, (2,))), batch)

    assert changed[Columns.ACTIONS_FOR_ENV].tolist() == [[3.0, 3.0]]
    assert changed[Columns.ACTIONS].tolist() == [[0.0, 0.0]]


def test_with_neither_nothing_is_written():
    piece = NormalizeAndClipActions(normalize_actions=False, clip_actions=False)
    batch = {Columns.ACTIONS: np.zeros((1, 2))}

    assert _run(piece, batch).keys() == {Columns.ACTIONS}
    assert piece.writes == frozenset()


def test_the_space_of_the_module_is_taken_where_the_piece_was_given_none():
    module = Acting(spaces.Box(0.0, 10.0, (1,)))

    changed = _run(NormalizeAndClipActions(), {Columns.ACTIONS: np.zeros((2, 1), np.float32)}, module)

    assert changed[Columns.ACTIONS_FOR_ENV].tolist() == [[5.0], [5.0]]


def test_each_module_has_its_own_space():
    modules = {"left": Acting(spaces.Box(0.0, 10.0, (1,))), "right": Acting(spaces.Discrete(3, start=2))}
    batch = {"left": {Columns.ACTIONS: np.zeros((2, 1), np.float32)}, "right": {Columns.ACTIONS: np.array([2, 4])}}

    changed = _run(NormalizeAndClipActions(), batch, modules)

    assert changed["left"][Columns.ACTIONS_FOR_ENV].tolist() == [[5.0], [5.0]]
    assert changed["right"][Columns.ACTIONS_FOR_ENV].tolist() == [2, 4]


def test_agents_of_one_module_may_have_different_bounds():
    space = spaces.Dict(a=spaces.Box(0.0, 10.0, (1,)), b=spaces.Box(-2.0, 2.0, (1,)), c=spaces.Box(0.0, 10.0, (1,)))
    rows = [(0, "b"), (0, "a"), (1, "c"), (1, "b")]
    batch = {"shared": {Columns.ACTIONS: np.full((4, 1), 0.5, np.float32)}}

    changed = _run(
        NormalizeAndClipActions(input_action_space=space),
        batch,
        None,
        shared_data={"memorized_map_structure": {"shared": rows}},
    )

    assert changed["shared"][Columns.ACTIONS_FOR_ENV].ravel().tolist() == [1.0, 7.5, 7.5, 1.0]


def test_a_dict_of_the_spaces_of_all_modules_is_understood():
    space = spaces.Dict(left=spaces.Box(0.0, 10.0, (1,)))
    batch = {"left": {Columns.ACTIONS: np.zeros((2, 1), np.float32)}}

    changed = _run(NormalizeAndClipActions(input_action_space=space), batch)

    assert changed["left"][Columns.ACTIONS_FOR_ENV].tolist() == [[5.0], [5.0]]


@pytest.mark.parametrize("name", BOXES)
def test_the_action_space_goes_out_as_it_came_in(name):
    piece = NormalizeAndClipActions(input_action_space=BOXES[name])

    assert piece.action_space == BOXES[name]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((2, 3)), r"float64\[2, 3\]"),
        (np.zeros(2), r"float64\[2\]"),
        ({"x": np.zeros((2, 2))}, "'x'"),
        ([np.zeros(2)], "found 1 items in a column of list"),
    ],
)
def test_actions_that_are_not_of_the_space_are_rejected(actions, message):
    with pytest.raises(EpisodiaError, match=message):
        _run(NormalizeAndClipActions(input_action_space=BOXES["unit"]), {Columns.ACTIONS: actions})


def test_tensors_are_rejected_with_the_remedy():
    torch = pytest.importorskip("torch")

    with pytest.raises(EpisodiaError, match="TensorToNumpy"):
        _run(NormalizeAndClipActions(input_action_space=BOXES["unit"]), {Columns.ACTIONS: torch.zeros(2, 2)})


def test_a_batch_without_actions_is_rejected():
    with pytest.raises(EpisodiaError, match="GetActions"):
        _run(NormalizeAndClipActions(input_action_space=BOXES["unit"]), {Columns.OBS: np.zeros((2, 2))})


def test_without_any_space_the_remedy_is_named():
    with pytest.raises(EpisodiaError, match="input_action_space"):
        _run(NormalizeAndClipActions(), {Columns.ACTIONS: np.zeros((2, 2))}, Acting(None))
