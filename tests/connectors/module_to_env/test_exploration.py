"""What all exploring pieces have in common: when they act, where the result goes, their randomness and their state."""

import copy
import json
import pickle

import numpy as np
import pytest
from gymnasium import spaces

from episodia import Columns, EpisodiaError
from episodia.connectors.module_to_env.action_noise import GaussianNoise, UniformNoise
from episodia.connectors.module_to_env.epsilon_greedy import EpsilonGreedy
from episodia.connectors.pipelines.pipeline_state import check_state
from episodia.schedules import PiecewiseLinearSchedule
from module_columns import ACTION_SPACES, UNIT, Acting, module_actions, row, same

_PIECES = {
    "epsilon-greedy": lambda amount=0.5, **kwargs: EpsilonGreedy(epsilon=amount, **kwargs),
    "gaussian": lambda amount=0.5, **kwargs: GaussianNoise(std=amount, **kwargs),
    "uniform": lambda amount=0.5, **kwargs: UniformNoise(amplitude=amount, **kwargs),
}
each_piece = pytest.mark.parametrize("make", _PIECES.values(), ids=_PIECES)


def _run(piece, batch, *, explore=True, module=None, **kwargs):
    return piece(rl_module=module, batch=batch, episodes=[], explore=explore, **kwargs)


def _explored(piece, count=3, rows=4):
    """Return what the piece makes of several batches of zeros."""
    return [_run(piece, {Columns.ACTIONS: np.zeros((rows, 2))})[Columns.ACTIONS].tolist() for _ in range(count)]


# --- When and where -------------------------------------------------------------------------------------------------


@each_piece
@pytest.mark.parametrize("explore", [False, None])
def test_nothing_happens_and_nothing_is_counted_unless_exploring(make, explore):
    piece = make(input_action_space=UNIT)
    batch = {Columns.ACTIONS: np.zeros((3, 2))}

    after = _run(piece, dict(batch), explore=explore)

    assert after == batch
    assert piece.steps == 0


@each_piece
def test_with_a_log_probability_the_action_that_it_refers_to_stays(make):
    actions = np.zeros((50, 2), np.float32)
    batch = {Columns.ACTIONS: actions, Columns.ACTION_LOGP: np.zeros(50)}

    after = _run(make(input_action_space=UNIT, seed=0), batch)

    assert after[Columns.ACTIONS] is actions
    assert not actions.any()
    assert after[Columns.ACTIONS_FOR_ENV].any()


@each_piece
def test_without_a_log_probability_the_action_that_is_taken_is_stored(make):
    actions = np.zeros((50, 2), np.float32)

    after = _run(make(input_action_space=UNIT, seed=0), {Columns.ACTIONS: actions})

    assert after.keys() == {Columns.ACTIONS}
    assert after[Columns.ACTIONS].any()
    assert not actions.any()


@each_piece
def test_two_pieces_add_up_where_there_is_a_log_probability(make):
    batch = {Columns.ACTIONS: np.zeros((5, 2)), Columns.ACTION_LOGP: np.zeros(5)}
    batch = _run(make(input_action_space=UNIT, seed=0), batch)
    first = batch[Columns.ACTIONS_FOR_ENV]

    second = _run(make(0.0, input_action_space=UNIT, seed=1), batch)[Columns.ACTIONS_FOR_ENV]

    np.testing.assert_array_equal(second, first)


@each_piece
def test_behind_the_scaling_an_action_without_log_probability_cannot_be_changed(make):
    batch = {Columns.ACTIONS: np.zeros((5, 2)), Columns.ACTIONS_FOR_ENV: np.ones((5, 2))}

    with pytest.raises(EpisodiaError, match="before `NormalizeAndClipActions`"):
        _run(make(input_action_space=UNIT), batch)


@each_piece
@pytest.mark.parametrize("name", ACTION_SPACES)
def test_with_an_amount_of_zero_no_action_within_the_range_changes(make, name):
    space = ACTION_SPACES[name]
    wide = make(0.0, input_action_space=space, real_range=(-1e6, 1e6))
    actions = module_actions(space, 6)
    # Elements with one bound keep it.
    within = _run(wide, {Columns.ACTIONS: actions})[Columns.ACTIONS]

    assert same(_run(wide, {Columns.ACTIONS: within})[Columns.ACTIONS], within)


@each_piece
@pytest.mark.parametrize("name", ACTION_SPACES)
def test_changed_actions_in_the_units_of_the_environment_belong_to_its_space(make, name):
    space = ACTION_SPACES[name]
    piece = make(1.0, input_action_space=space, real_range=None, seed=0)

    after = _run(piece, {Columns.ACTIONS: module_actions(space, 20)})[Columns.ACTIONS]

    assert all(space.contains(row(after, index)) for index in range(20))


@each_piece
def test_every_module_explores_in_its_own_space(make):
    modules = {"left": Acting(UNIT), "right": Acting(spaces.Box(-1.0, 1.0, ()))}
    batch = {"left": {Columns.ACTIONS: np.zeros((50, 2))}, "right": {Columns.ACTIONS: np.zeros(20)}}
    piece = make(seed=0)

    after = _run(piece, batch, module=modules)

    assert after["left"][Columns.ACTIONS].any()
    assert after["right"][Columns.ACTIONS].any()
    assert piece.steps == 70


@each_piece
def test_a_failure_leaves_the_batch_and_the_steps_as_they_were(make):
    modules = {"left": Acting(UNIT), "right": Acting(UNIT)}
    batch = {"left": {Columns.ACTIONS: np.zeros((5, 2))}, "right": {Columns.ACTIONS: np.zeros((5, 3))}}
    piece = make(seed=0)

    with pytest.raises(EpisodiaError, match=r"float64\[5, 3\]"):
        _run(piece, batch, module=modules)
    assert not batch["left"][Columns.ACTIONS].any()
    assert piece.steps == 0


@pytest.mark.parametrize("real_range", [(1.0, -1.0), (0.0, np.inf), (0.0, 0.0)])
@each_piece
def test_a_range_without_numbers_is_rejected(make, real_range):
    with pytest.raises(EpisodiaError, match="real_range"):
        make(real_range=real_range)


# --- Schedules ------------------------------------------------------------------------------------------------------


@each_piece
def test_the_schedule_is_asked_with_the_rows_so_far(make):
    # Nothing happens before step 8, everything from then on.
    piece = make(PiecewiseLinearSchedule([(7, 0.0), (8, 1.0)]), input_action_space=UNIT, seed=0)

    changed = [np.any(batch) for batch in _explored(piece, count=4)]

    assert changed == [False, False, True, True]
    assert piece.steps == 16


# --- Randomness and state -------------------------------------------------------------------------------------------


@each_piece
def test_the_same_seed_gives_the_same_actions(make):
    assert _explored(make(input_action_space=UNIT, seed=5)) == _explored(make(input_action_space=UNIT, seed=5))
    assert _explored(make(input_action_space=UNIT, seed=5)) != _explored(make(input_action_space=UNIT, seed=6))


@each_piece
def test_restoring_a_state_through_json_goes_on_as_before(make):
    decay = PiecewiseLinearSchedule([(0, 1.0), (40, 0.1)])
    piece = make(decay, input_action_space=UNIT, seed=5)
    _explored(piece)
    state = json.loads(json.dumps(piece.get_state()))
    expected = _explored(piece)

    other = make(decay, input_action_space=UNIT, seed=99)
    other.set_state(state)

    check_state(state)
    assert _explored(other) == expected
    assert other.steps == piece.steps


@each_piece
def test_a_state_is_not_changed_by_exploring_on(make):
    piece = make(input_action_space=UNIT, seed=5)
    state = piece.get_state()
    before = copy.deepcopy(state)
    _explored(piece)

    assert state == before


@each_piece
def test_resetting_begins_again_with_the_seed(make):
    piece = make(input_action_space=UNIT, seed=5)
    first = _explored(piece)
    piece.reset_state()

    assert piece.steps == 0
    assert _explored(piece) == first


@each_piece
def test_merged_pieces_count_the_steps_of_all_however_often_they_are_merged(make):
    pieces = [make(input_action_space=UNIT, seed=seed) for seed in (1, 2, 3)]
    total = 0
    for rows in (4, 7, 2):
        for piece in pieces:
            _explored(piece, count=1, rows=rows)
        total += 3 * rows
        merged = pieces[0].merge_states([piece.get_state() for piece in pieces])
        for piece in pieces:
            piece.set_state(merged)

        assert [piece.steps for piece in pieces] == [total] * 3


@each_piece
def test_merged_pieces_do_not_begin_to_draw_the_same(make):
    pieces = [make(input_action_space=UNIT, seed=seed) for seed in (1, 2)]
    merged = pieces[0].merge_states([piece.get_state() for piece in pieces])
    for piece in pieces:
        piece.set_state(merged)

    assert _explored(pieces[0]) == _explored(make(input_action_space=UNIT, seed=1))
    assert _explored(pieces[1]) == _explored(make(input_action_space=UNIT, seed=2))


@each_piece
@pytest.mark.parametrize(
    "state",
    [
        {"steps": 3},
        {"merged_steps": 1, "own_steps": None},
        {"merged_steps": 1, "own_steps": 2, "generator": {"bit_generator": "MT19937"}},
    ],
)
def test_a_state_of_something_else_is_rejected_and_changes_nothing(make, state):
    piece = make(input_action_space=UNIT, seed=5)

    with pytest.raises(EpisodiaError, match="state"):
        piece.set_state(state)
    assert _explored(piece) == _explored(make(input_action_space=UNIT, seed=5))


def test_merging_nothing_gives_an_empty_state_that_changes_nothing():
    piece = GaussianNoise(std=0.1, input_action_space=UNIT, seed=5)
    _explored(piece)
    piece.set_state(piece.merge_states([]))

    assert piece.steps == 12


def test_representations_say_how_much():
    assert repr(EpsilonGreedy(epsilon=0.1, seed=3)) == "EpsilonGreedy(epsilon=ConstantSchedule(0.1), seed=3)"
    assert "std=ConstantSchedule(0.2)" in repr(GaussianNoise(std=0.2))
    assert "amplitude=ConstantSchedule(0.3)" in repr(UniformNoise(amplitude=0.3))


@each_piece
def test_it_goes_to_another_process_as_it_is(make):
    piece = make(input_action_space=UNIT, seed=5)
    _explored(piece)

    assert _explored(pickle.loads(pickle.dumps(piece))) == _explored(piece)
