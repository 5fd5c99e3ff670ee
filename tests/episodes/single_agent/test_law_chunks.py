"""Law 3, first part: chunks are what the plain lists say, and joining them gives the whole."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia.testing import SPACES, Trajectory, assert_same_episode, chunked_episodes, cut_points, trajectories
from plain_column import plain, rows

FORMS = pytest.mark.parametrize("finalized", [False, True], ids=["growing", "finalized"])


def in_form(trajectory, finalized):
    return trajectory.built().finalize() if finalized else trajectory.built()


def walk_on(episode, trajectory, start, stop):
    """Add the steps from `start` to just before `stop` to an episode that stands at `start`."""
    for step in range(trajectory.lookback + start, trajectory.lookback + stop):
        is_last = step == len(trajectory.rewards) - 1
        if episode.t in trajectory.weights_versions:
            episode.weights_version = trajectory.weights_versions[episode.t]
        episode.add_env_step(
            trajectory.observations[step + 1],
            trajectory.actions[step],
            trajectory.rewards[step],
            trajectory.infos[step + 1] if trajectory.infos else None,
            terminated=trajectory.terminated and is_last,
            truncated=trajectory.truncated and is_last,
            extra_model_outputs={name: items[step] for name, items in trajectory.extra_model_outputs.items()},
        )
    if episode.t in trajectory.weights_versions:
        episode.weights_version = trajectory.weights_versions[episode.t]


def may_differ(expected):
    """A list without items does not tell the dtypes and the nesting that an empty part of a finalized column keeps."""
    return ["times"] if expected.rewards else ["times", "rewards", "extra_model_outputs"]


def cut_while_walking(trajectory, cuts, lookback, finalized):
    """Return the chunks of an episode that is cut at each of the steps `cuts` while it is made."""
    edges = [0, *cuts, len(trajectory)]
    first = trajectory.chunk(0, 0, lookback=trajectory.lookback)
    chunks = [in_form(replace(first, terminated=False, truncated=False), finalized)]
    for place, (start, stop) in enumerate(itertools.pairwise(edges)):
        if place:
            chunks.append(chunks[-1].cut(lookback))
        walk_on(chunks[-1], trajectory, start, stop)
    return chunks


@given(data=st.data(), trajectory=trajectories(), lookback=st.integers(0, 4), finalized=st.booleans())
def test_joining_the_chunks_undoes_the_cuts(data, trajectory, lookback, finalized):
    cuts = [cut for cut in data.draw(cut_points(len(trajectory))) if cut < len(trajectory)]
    first, *others = cut_while_walking(trajectory, cuts, lookback, finalized)

    for other in others:
        first.concat_episode(other)

    assert_same_episode(first, in_form(trajectory, finalized), ignore=["times"])


@given(data=st.data(), trajectory=trajectories(), lookback=st.integers(0, 4), finalized=st.booleans())
def test_a_cut_chunk_is_what_the_plain_lists_say(data, trajectory, lookback, finalized):
    cut = data.draw(st.integers(0, max(0, len(trajectory) - 1)))

    _, found = cut_while_walking(trajectory, [cut], lookback, finalized)

    expected = trajectory.chunk(cut, len(trajectory), lookback=lookback)
    assert_same_episode(found, in_form(expected, finalized), ignore=may_differ(expected))


@given(drawn=chunked_episodes(finalized=None))
def test_chunks_made_by_the_constructor_join_to_the_whole(drawn):
    whole, (first, *others) = drawn
    others = [other for other in others if not (first.is_done or first.t == whole.t)]

    for other in others:
        if not first.is_done:
            first.concat_episode(other)

    assert_same_episode(first, whole)


@FORMS
@pytest.mark.parametrize("name", SPACES)
def test_every_cut_with_every_lookback_is_undone_in_every_space(name, finalized):
    trajectory = Trajectory.sampled(SPACES[name], SPACES[name], 4, terminated=True)
    expected = in_form(trajectory, finalized)

    for cut, lookback in itertools.product(range(4), range(6)):
        first, second = cut_while_walking(trajectory, [cut], lookback, finalized)
        assert second.rewards.lookback == min(cut, lookback)
        first.concat_episode(second)
        assert_same_episode(first, expected, ignore=["times"])


@given(trajectory=trajectories(lengths=st.integers(1, 5)), forms=st.tuples(st.booleans(), st.booleans()))
def test_a_growing_chunk_joins_a_finalized_one_and_keeps_the_form_of_the_first(trajectory, forms):
    first, second = cut_while_walking(trajectory, [len(trajectory) - 1], 1, finalized=False)
    for episode, finalized in zip((first, second), forms, strict=True):
        if finalized:
            episode.finalize()

    first.concat_episode(second)

    assert first.is_finalized == forms[0]
    assert rows(first.observations.data) == plain(trajectory.observations)


@given(data=st.data(), trajectory=trajectories(), finalized=st.booleans(), lookback=st.none() | st.integers(0, 4))
def test_a_slice_is_what_the_plain_lists_say(data, trajectory, finalized, lookback):
    bounds = st.none() | st.integers(-8, 8)
    key = slice(data.draw(bounds), data.draw(bounds))
    start, stop, _ = key.indices(len(trajectory))
    wanted = trajectory.lookback if lookback is None else lookback

    found = in_form(trajectory, finalized).slice(key, len_lookback_buffer=lookback)

    expected = trajectory.chunk(start, max(start, stop), lookback=wanted)
    assert_same_episode(found, in_form(expected, finalized), ignore=may_differ(expected))


def strided(items, first, stride, kept, steps, last=None):
    """The items at `kept` places before `first` and at `steps` places from it on, `stride` apart, and at `last`."""
    places = [first + stride * count for count in range(-kept, steps)]
    return [plain(items[place]) for place in (*places, *([] if last is None else [last]))]


@given(
    trajectory=trajectories(),
    finalized=st.booleans(),
    start=st.integers(0, 6),
    stop=st.integers(0, 7),
    stride=st.integers(2, 4),
)
def test_a_slice_with_a_step_keeps_every_kth_step(trajectory, finalized, start, stop, stride):
    steps = range(len(trajectory))[start:stop:stride]
    first, end = trajectory.lookback + steps.start, max(steps.stop, steps.start)
    kept = min(trajectory.lookback, first // stride)
    last = trajectory.lookback + min(steps.start + len(steps) * stride, end)

    found = in_form(trajectory, finalized)[start:stop:stride]

    places = (first, stride, kept, len(steps))
    assert (len(found), found.rewards.lookback) == (len(steps), kept)
    assert found.t_started == trajectory.t_started + steps.start
    assert rows(found.observations.data) == strided(trajectory.observations, *places, last)
    assert rows(found.actions.data) == strided(trajectory.actions, *places)
    assert rows(found.rewards.data) == strided(trajectory.rewards, *places)
    for key, items in trajectory.extra_model_outputs.items():
        assert rows(found.extra_model_outputs[key].data) == strided(items, *places)
    assert found.is_terminated == (trajectory.terminated and end == len(trajectory))


@FORMS
@pytest.mark.parametrize("name", SPACES)
def test_every_slice_is_what_the_plain_lists_say_in_every_space(name, finalized):
    trajectory = Trajectory.sampled(SPACES[name], SPACES[name], 5, lookback=2, truncated=True)
    episode = in_form(trajectory, finalized)

    for start, stop in itertools.combinations_with_replacement(range(4), 2):
        for lookback in (0, 1, 4):
            found = episode.slice(slice(start, stop), len_lookback_buffer=lookback)
            assert_same_episode(found, in_form(trajectory.chunk(start, stop, lookback=lookback), finalized))
