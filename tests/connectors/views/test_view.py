"""Views as they are declared, in both spellings."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia.connectors import View, ViewRequirement
from episodia.errors import PipelineError


@pytest.mark.parametrize(
    ("shift", "shifts", "is_window"),
    [
        (0, (0,), False),
        (np.int64(-2), (-2,), False),
        ([-1], (-1,), True),
        ((3, -1, 3), (3, -1, 3), True),
        (np.array([-2, 0]), (-2, 0), True),
        (range(-3, 1), (-3, -2, -1, 0), True),
        ("-3:0", (-3, -2, -1, 0), True),
        ("-50:-1:7", (-50, -43, -36, -29, -22, -15, -8, -1), True),
    ],
)
def test_a_shift_is_one_distance_or_several(shift, shifts, is_window):
    view = View("obs", shift=shift)

    assert (view.shifts, view.is_window) == (shifts, is_window)


@pytest.mark.parametrize("shift", [True, 1.5, None, [], range(0), [0, 1.5], [True], {0}, [[0]]])
def test_an_invalid_shift_is_rejected(shift):
    with pytest.raises(PipelineError, match=r"found `shift=.*expected an integer, or a non-empty list or range"):
        View("obs", shift=shift)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": ""}, "expected the name of a column"),
        ({"source": 3}, "expected the name of a column"),
        ({"train": 1}, "`train=1`, expected True or False"),
        ({"infer": None}, "`infer=None`, expected True or False"),
        ({"train": False, "infer": False}, "at least one True"),
        ({"every": 0}, "`every=0`, expected an integer"),
        ({"every": 2.0}, "`every=2.0`, expected an integer"),
        ({"every": True}, "`every=True`, expected an integer"),
        ({"shift": "0"}, "expected a range 'first:last'"),
        ({"agent": ["bob"]}, "expected an id, or a function"),
    ],
)
def test_arguments_that_make_no_sense_are_rejected(arguments, message):
    with pytest.raises(PipelineError, match=message):
        View(**{"source": "obs", **arguments})


def test_the_text_of_a_view_shows_what_is_not_the_default():
    assert repr(View("obs")) == "View('obs')"
    assert repr(View("obs", [-1, 0], fill=0.0, infer=False)) == "View('obs', shift=[-1, 0], fill=0.0, infer=False)"
    assert repr(View("x", fill=np.zeros(4, np.float32), agent="bob")) == "View('x', fill=float32[4], agent='bob')"


@given(
    st.one_of(st.integers(-9, 9), st.lists(st.integers(-9, 9), min_size=1, max_size=4)),
    st.sampled_from([None, 0, 1.5, "x"]),
    st.integers(1, 4),
)
def test_the_text_of_a_view_makes_it_again(shift, fill, every):
    view = View("obs", shift=shift, fill=fill, every=every, infer=False)

    assert eval(repr(view)) == view  # noqa: S307  # our own text


def test_views_compare_by_content_and_can_be_pickled():
    view = View("obs", [-1, 0], fill={"a": np.zeros(2)})

    assert view == pickle.loads(pickle.dumps(view)) == View("obs", (-1, 0), fill={"a": np.zeros(2)})
    assert view != View("obs", [-1, 0], fill={"a": np.ones(2)})
    assert len({view, View("obs", [-1, 0], fill={"a": np.zeros(2)})}) == 1


def test_a_view_does_not_change():
    with pytest.raises(AttributeError):
        View("obs").shift = 3


@pytest.mark.parametrize(
    ("source", "shift", "looks_ahead"),
    [
        ("obs", 0, False),
        ("infos", [-3, 0], False),
        ("t", 0, False),
        ("agent_id", 0, False),
        ("obs", 1, True),
        ("actions", -1, False),
        ("actions", [-1, 0], True),
        ("rewards", 0, True),
        ("terminateds", 0, True),
        ("action_logp", 0, True),
        ("action_logp", -1, False),
    ],
)
def test_what_a_step_brings_is_the_future_when_a_module_acts(source, shift, looks_ahead):
    assert View(source, shift=shift, infer=False).looks_ahead is looks_ahead


@given(st.lists(st.integers(-9, 9), min_size=1))
def test_the_lookback_is_the_farthest_shift_into_the_past(shifts):
    assert View("obs", shift=shifts).lookback == max([0, *(-shift for shift in shifts)])


# --- RLlib's spelling -----------------------------------------------------------------------------------------------


@given(st.integers(-60, 60), st.integers(0, 60), st.integers(1, 7))
def test_both_ends_of_a_range_count(first, length, step):
    last = first + length
    wanted = tuple(shift for shift in range(-200, 200) if first <= shift <= last)

    assert ViewRequirement("obs", shift=f"{first}:{last}") == View("obs", shift=f"{first}:{last}")
    assert ViewRequirement("obs", shift=f"{first}:{last}").shifts == wanted
    assert ViewRequirement("obs", shift=f"{first}:{last}:{step}").shifts == wanted[::step]


def test_a_range_from_0_on_has_all_its_shifts():
    # RLlib takes a range that begins with 0 for none at all (peers' defect 1).
    assert ViewRequirement("obs", shift="0:3").shifts == (0, 1, 2, 3)


@pytest.mark.parametrize("text", ["", "3", "3:", ":3", "-1:-3", "0:3:0", "0:3:-1", "a:b", "0:1:2:3", "0.5:2"])
def test_a_string_that_is_not_range_is_rejected(text):
    for spelling in (View, ViewRequirement):
        with pytest.raises(PipelineError, match="expected a range 'first:last'"):
            spelling("obs", shift=text)


def test_the_arguments_of_rllib_are_those_of_a_view():
    found = ViewRequirement("actions", spaces.Discrete(3), [1, 2], used_for_compute_actions=False, batch_repeat_value=5)

    assert found == View("actions", [1, 2], fill=np.int64(0), infer=False, every=5)
    assert ViewRequirement("rewards", used_for_training=False) == View("rewards", train=False)


def test_a_space_says_what_fills():
    space = spaces.Dict({"gear": spaces.Discrete(3, start=2), "speed": spaces.Box(1.0, 2.0, (2,), np.float32)})
    fill = ViewRequirement("obs", space, shift=-1).fill

    assert fill["gear"] == 2
    assert fill["speed"].tolist() == [1.0, 1.0]
    assert fill["speed"].dtype == np.float32


def test_ranges_lists_and_strings_of_the_same_shifts_are_the_same_view():
    assert View("obs", shift=[-2, -1]) == View("obs", shift=range(-2, 0)) == View("obs", shift="-2:-1")
    assert View("obs", shift=[-1]) != View("obs", shift=-1)  # rows of the first have an axis of shifts


def test_a_requirement_of_what_is_no_space_is_rejected():
    with pytest.raises(PipelineError, match="expected a gymnasium space"):
        ViewRequirement("obs", "Box", shift=-1)
