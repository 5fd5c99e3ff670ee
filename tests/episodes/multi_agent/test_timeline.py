"""The timeline on its own: environment steps and one agent's steps, against a plain list of marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia.episodes.multi_agent.timeline import SKIPPED, Timeline

TICKS = st.integers(-2, 14)
ENV_STEPS = st.sets(st.integers(0, 12)).map(sorted)


def marks(env_steps, start, stop):
    """One mark for each environment step: the number of the agent's observation, or None."""
    return [env_steps.index(t) if t in env_steps else None for t in range(start, stop)]


# --- Against plain lists ---


@given(env_steps=ENV_STEPS, env_t=TICKS)
def test_a_position_is_the_place_of_the_environment_step_in_the_list(env_steps, env_t):
    assert Timeline(env_steps).position_at(env_t) == (env_steps.index(env_t) if env_t in env_steps else None)


@given(env_steps=ENV_STEPS, start=TICKS, stop=TICKS)
def test_positions_between_are_those_of_the_marks_in_between(env_steps, start, stop):
    found = list(Timeline(env_steps).positions_between(start, stop))

    assert found == [place for place in marks(env_steps, start, stop) if place is not None]


@given(env_steps=ENV_STEPS, start=TICKS, stop=TICKS, first_agent_t=st.integers(-3, 9))
def test_entries_count_the_agents_steps_and_mark_the_skipped_ones(env_steps, start, stop, first_agent_t):
    found = Timeline(env_steps).entries(start, stop, first_agent_t)

    expected = marks(env_steps, start, stop)
    assert found == [SKIPPED if place is None else first_agent_t + place for place in expected]


@given(env_steps=ENV_STEPS)
def test_entries_and_positions_are_inverse_to_each_other(env_steps):
    timeline = Timeline(env_steps)

    entries = timeline.entries(0, 13, first_agent_t=0)

    assert [env_t for env_t, entry in enumerate(entries) if entry != SKIPPED] == env_steps
    assert all(timeline.position_at(env_t) == entry for env_t, entry in enumerate(entries) if entry != SKIPPED)


@given(env_steps=ENV_STEPS.filter(len))
def test_a_timeline_is_as_long_as_its_observations(env_steps):
    assert len(Timeline(env_steps)) == len(env_steps)


# --- By hand ---


@pytest.mark.parametrize(
    ("env_steps", "entries"),
    [
        ([], ["S", "S", "S", "S"]),
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        ([2], ["S", "S", 0, "S"]),
        ([0, 3], [0, "S", "S", 1]),
        ([1, 3, 9], ["S", 0, "S", 1]),
        ([-4, -1, 0, 2], [2, "S", 3, "S"]),
    ],
    ids=["never", "always", "a late joiner", "a gap", "further than asked for", "with a lookback"],
)
def test_entries_of_four_environment_steps(env_steps, entries):
    assert Timeline(env_steps).entries(0, 4, first_agent_t=0) == entries


def test_entries_before_a_chunk_have_the_agents_earlier_time_steps():
    timeline = Timeline([3, 5, 6])

    # The chunk starts at environment step 5 with the agent's time step 8; environment steps 3 and 4 are its lookback.
    assert timeline.entries(3, 7, first_agent_t=7) == [7, "S", 8, 9]


def test_a_range_that_ends_before_it_starts_is_empty():
    timeline = Timeline([1, 2])

    assert timeline.entries(3, 1, first_agent_t=0) == []
    assert list(timeline.positions_between(3, 1)) == []


@given(one=ENV_STEPS, other=ENV_STEPS)
def test_timelines_are_equal_if_their_steps_are(one, other):
    assert (Timeline(one) == Timeline(list(other))) == (one == other)
    assert Timeline(one) != one


def test_a_timeline_shows_its_steps_and_cannot_be_a_key():
    assert repr(Timeline([0, 3])) == "Timeline([0, 3])"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Timeline([0]))
