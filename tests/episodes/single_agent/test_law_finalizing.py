"""Law: a finalized column holds just what it held before, however its items got there.

A column knows of items that came step by step that they are alike, and stacks them without looking at them again. Items that
came by another door are looked at; the oracle is a plain list.
"""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia.episodes import LookbackBuffer, MultiAgentEpisode
from episodia.errors import ShapeError, SpaceError

VECTOR = spaces.Box(-100.0, 100.0, (2,), np.float32)
# Items that the space takes, of which the first is the one that it is made for.
ROWS = [np.array([1, 2], dtype) for dtype in (np.float32, np.float16, np.int8)]
# Items that may only be set in a growing column, which does not look at them.
OTHERS = [*ROWS, np.array([[1], [2]], np.float32), np.array([1, 2, 3], np.float32), 5.0]

rows, others = st.sampled_from(ROWS), st.sampled_from(OTHERS)


def append(buffer, items, data):
    item = data.draw(rows)
    buffer.append(item)
    return buffer, [*items, item]


def extend(buffer, items, data):
    more = data.draw(st.lists(rows, max_size=3))
    buffer.extend(more)
    return buffer, items + more


def put(buffer, items, data):
    place, item = data.draw(st.integers(0, len(items) - 1)), data.draw(others)
    buffer.set(item, at_indices=place)
    return buffer, [*items[:place], item, *items[place + 1 :]]


def replace(buffer, items, data):
    stop = data.draw(st.integers(0, len(items)))
    new = data.draw(st.lists(others, min_size=stop, max_size=stop))
    buffer.set(new, at_indices=slice(0, stop))
    return buffer, new + items[stop:]


def replace_last(buffer, items, data):
    item = data.draw(rows)
    buffer.replace_last(item)
    return buffer, [*items[:-1], item]


def concat(buffer, items, data):
    more = data.draw(st.lists(others, max_size=3))
    buffer.concat(LookbackBuffer(more, 0, VECTOR))
    return buffer, items + more


def share(buffer, items, data):
    start = data.draw(st.integers(0, len(items) - 1))
    return buffer.share(slice(start, len(items)), 0), items[start:]


def pop(buffer, items, data):
    if len(items) == 1:
        return append(buffer, items, data)
    buffer.pop()
    return buffer, items[:-1]


def append_in_another_space(buffer, items, data):
    item = data.draw(rows)
    buffer.space = spaces.Box(-100.0, 100.0, (2,), item.dtype.type)
    buffer.append(item)
    buffer.space = VECTOR
    return buffer, [*items, item]


DOORS = [append, extend, put, replace, replace_last, concat, share, pop, append_in_another_space]


def fits(items):
    return all(np.shape(item) == VECTOR.shape for item in items)


def after(data, doors):
    """Return a column after some writing, and what must be in it."""
    buffer, items = LookbackBuffer([], 0, VECTOR), [ROWS[0]]
    buffer.append(items[0])
    for door in doors:
        buffer, items = door(buffer, items, data)
    return buffer, items


def give_steps(episode, num_steps):
    """Let the other columns of an episode fit to its observations."""
    episode.t = num_steps
    episode.actions = LookbackBuffer([0] * num_steps, 0)
    episode.rewards = LookbackBuffer([0.0] * num_steps, 0)
    episode.infos = LookbackBuffer([{} for _ in range(num_steps + 1)], 0)


def assert_holds(buffer, items):
    assert buffer.finalized
    assert buffer.data.dtype == np.result_type(*items)
    assert buffer.data.tolist() == [np.asarray(item).tolist() for item in items]


@pytest.mark.parametrize("door", DOORS)
@given(data=st.data())
def test_a_finalized_column_holds_what_the_plain_list_holds(door, data):
    buffer, items = after(data, [door, *data.draw(st.lists(st.sampled_from(DOORS), max_size=2))])

    if fits(items):
        buffer.finalize()
        assert_holds(buffer, items)
    else:
        with pytest.raises((ShapeError, SpaceError)):
            buffer.finalize()


@given(data=st.data())
def test_columns_of_many_agents_are_finalized_as_each_of_them_would_be(data):
    agents = ["a", "b", "c"]
    episode = MultiAgentEpisode("m", observation_space=dict.fromkeys(agents, VECTOR))
    episode.add_env_reset(observations=dict.fromkeys(agents, ROWS[0]))
    expected = {}
    for agent, single in episode.agent_episodes.items():
        doors = data.draw(st.lists(st.sampled_from(DOORS), max_size=4))
        single.observations, expected[agent] = after(data, doors)
        give_steps(single, len(expected[agent]) - 1)

    if all(map(fits, expected.values())):
        episode.finalize()
        for agent, items in expected.items():
            assert_holds(episode.agent_episodes[agent].observations, items)
    else:
        with pytest.raises((ShapeError, SpaceError)):
            episode.finalize()
        assert not any(single.is_finalized for single in episode.agent_episodes.values())
