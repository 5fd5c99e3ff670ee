"""Schedules are functions of the step, and of nothing else."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import EpisodiaError
from episodia.schedules import (
    ConstantSchedule,
    ExponentialSchedule,
    PiecewiseLinearSchedule,
    as_schedule,
    schedule_within,
)

_NUMBERS = st.floats(-10.0, 10.0)
_STEPS = st.integers(0, 10_000)
_POINTS = st.dictionaries(st.integers(0, 1_000), _NUMBERS, min_size=1, max_size=5).map(
    lambda drawn: sorted(drawn.items())
)


def _on_lines(points, t):
    if t <= points[0][0]:
        return points[0][1]
    for (t0, v0), (t1, v1) in itertools.pairwise(points):
        if t0 <= t <= t1:
            return v0 + (v1 - v0) * (t - t0) / (t1 - t0)
    return points[-1][1]


@given(points=_POINTS, t=_STEPS)
def test_a_piecewise_linear_schedule_lies_on_the_lines_between_its_points(points, t):
    assert PiecewiseLinearSchedule(points).at(t) == pytest.approx(_on_lines(points, t), abs=1e-9)


@given(start=_NUMBERS, end=_NUMBERS, half_life=st.floats(0.5, 1_000.0), t=_STEPS)
def test_an_exponential_schedule_does_half_of_the_way_in_each_half_life(start, end, half_life, t):
    schedule = ExponentialSchedule(start, end, half_life=half_life)

    assert schedule.at(0) == pytest.approx(start)
    assert schedule.at(t) == pytest.approx(end + (start - end) * 2.0 ** (-t / half_life), abs=1e-9)


@given(value=_NUMBERS, t=_STEPS)
def test_a_number_stands_for_the_schedule_that_stays_there(value, t):
    assert as_schedule(value).at(t) == value


@pytest.mark.parametrize(
    "schedule",
    [
        ConstantSchedule(0.5),
        PiecewiseLinearSchedule([(5, 0.1), (9, 2.0), (20, -1)]),
        ExponentialSchedule(1, 0.1, half_life=7),
    ],
)
def test_no_step_leaves_the_extremes(schedule):
    low, high = schedule.extremes

    assert all(low <= schedule.at(t) <= high for t in range(200))


@pytest.mark.parametrize(
    "points", [[], [(5, 1.0), (5, 2.0)], [(5, 1.0), (4, 2.0)], [(0, math.nan)], [(0, True)], 3, [3], None]
)
def test_points_that_are_not_in_order_or_no_numbers_are_rejected(points):
    with pytest.raises(EpisodiaError, match="points"):
        PiecewiseLinearSchedule(points)


@pytest.mark.parametrize("half_life", [0, -1.0, math.inf])
def test_a_half_life_is_positive(half_life):
    with pytest.raises(ValueError, match="half_life"):
        ExponentialSchedule(1.0, 0.0, half_life=half_life)


@pytest.mark.parametrize("value", [-0.1, 1.5, PiecewiseLinearSchedule([(0, 0.5), (9, 1.2)]), "much"])
def test_a_parameter_outside_of_its_range_is_rejected(value):
    with pytest.raises(EpisodiaError, match="expected"):
        schedule_within("epsilon", value, 0.0, 1.0)


def test_representations_show_how_to_rebuild_a_schedule():
    schedule = PiecewiseLinearSchedule([(0, 1.0), (10, 0.5)])

    assert eval(repr(schedule)).points == schedule.points  # noqa: S307  # our own text
