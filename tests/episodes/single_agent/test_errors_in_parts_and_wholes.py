"""Finalizing, cutting, slicing and joining that cannot be right raise, say where, and change nothing."""

import copy
import threading

import numpy as np
import pytest

from episodia import LookbackBuffer, SingleAgentEpisode
from episodia.errors import EpisodeError, IndexTypeError, ShapeError, SpaceError
from refusals import assert_refused, both_forms, nested, plain, running, same, snapshot, step


def test_finalizing_rejects_items_of_different_shapes():
    episode = running(space=None)
    step(episode, observation=np.zeros(3))

    words = ("observations", "item 0 is float32[2]", "item 4 is float64[3]", "Pad or flatten")
    assert_refused(episode, lambda episode: episode.finalize(), ShapeError, *words)
    episode.set_observations(new_data=np.zeros(2), at_indices=-1)
    assert episode.finalize().get_observations().shape == (5, 2)


def test_finalizing_rejects_items_of_different_nesting():
    episode = running(nested, None)
    step(episode, observation={"camera": 0})

    assert_refused(episode, lambda episode: episode.finalize(), ShapeError, "observations", "item 4 is {'camera': 0}")


@pytest.mark.parametrize("method", ["finalize", "validate"])
@pytest.mark.parametrize(
    ("column", "changes", "words"),
    [
        (
            "observations",
            {"observation": np.full(2, 5, np.float32)},
            ("item 4 of 5", "[5. 5.]", "Box(-1.0, 1.0"),
        ),
        ("actions", {"action": 7}, ("item 3 of 4", "found 7", "Discrete(3)")),
        ("actions", {"action": -1}, ("item 3 of 4", "found -1", "Discrete(3)")),
    ],
    ids=["observation", "action", "negative action"],
)
def test_bounds_are_checked_in_bulk(method, column, changes, words):
    episode = running()
    step(episode, **changes)

    assert_refused(episode, lambda e: getattr(e, method)(), SpaceError, column, "Correct the data", *words)


@both_forms
def test_a_done_episode_is_not_cut(form):
    episode = running()
    step(episode, terminated=True)

    assert_refused(form(episode), lambda episode: episode.cut(), EpisodeError, "after the end (t=4)", "use `slice`")


@both_forms
@pytest.mark.parametrize("count", [-1, 1.5, "auto", True], ids=str)
def test_a_lookback_is_a_number_of_steps(form, count):
    for call in (
        lambda episode: episode.cut(count),
        lambda episode: episode.slice(slice(0, 2), len_lookback_buffer=count),
    ):
        assert_refused(form(running()), call, EpisodeError, f"len_lookback_buffer={count!r}", "from 0 up")


@both_forms
def test_an_episode_is_sliced_by_slices_that_go_forward(form):
    assert_refused(
        form(running()),
        lambda e: e[0],
        IndexTypeError,
        "found the index 0",
        "episode[3:7]",
        "get_observations(3)",
    )
    assert_refused(form(running()), lambda e: e[0.5:2], IndexTypeError, "found the index 0.5")
    assert_refused(form(running()), lambda e: e[::-1], EpisodeError, "step -1", "cannot run backwards")


def continuation(episode, **changes):
    chunk = episode.cut()
    step(chunk, **changes)
    return chunk


def stranger():
    other = copy.copy(running())
    other.id_ = "run"
    return continuation(other)


NO_CONTINUATIONS = {
    "a chunk of another episode": (stranger, "a chunk of the episode 'run'"),
    "a chunk that overlaps": (lambda: continuation(running()[:2]), "starts at t=2"),
    "the episode itself": (running, "starts at t=0"),
    "a chunk after a gap": (lambda: continuation(continuation(running())), "starts at t=4"),
    "another observation at the seam": (
        lambda: continuation(running(lambda t: plain(t) / 2)),
        "at the seam (t=3)",
    ),
    "a new episode": (lambda: SingleAgentEpisode("walk", t_started=3), "without observations"),
    "no episode": (lambda: 5, "found 5"),
}


@both_forms
@pytest.mark.parametrize(("make", "word"), NO_CONTINUATIONS.values(), ids=NO_CONTINUATIONS)
def test_only_the_continuation_is_concatenated(form, make, word):
    episode, other = form(running()), make()
    before = snapshot(other) if isinstance(other, SingleAgentEpisode) else None

    assert_refused(
        episode, lambda e: e.concat_episode(other), EpisodeError, word, "from t=3 on", "what `cut()` returned"
    )
    assert before is None or same(snapshot(other), before)


@both_forms
def test_nothing_is_concatenated_to_an_episode_that_is_done(form):
    chunk = continuation(continuation(running()))
    episode = running()
    step(episode, truncated=True)

    assert_refused(form(episode), lambda e: e.concat_episode(chunk), EpisodeError, "after the end (t=4)")


def test_chunks_whose_rows_do_not_fit_are_not_concatenated():
    episode = running(space=None).finalize()
    chunk = continuation(running(space=None), extra_model_outputs={"logp": np.zeros(2)})

    assert_refused(
        episode, lambda e: e.concat_episode(chunk), ShapeError, "the chunks do not fit together", "float64[2]"
    )


@both_forms
def test_nan_at_the_seam_is_no_mismatch(form):
    episode = running(lambda t: plain(t) * np.nan)
    chunk = continuation(episode)

    form(episode).concat_episode(chunk)

    assert len(episode) == 4


@both_forms
def test_a_join_that_fails_at_the_custom_data_changes_nothing(form):
    episode = form(running())
    chunk = continuation(running())
    chunk.custom_data["lock"] = threading.Lock()
    before = snapshot(episode)

    with pytest.raises(TypeError, match="lock"):
        episode.concat_episode(chunk)

    assert same(snapshot(episode), before)


def test_a_buffer_takes_only_buffers_and_states_of_buffers():
    buffer = LookbackBuffer([1, 2])
    for other in (None, [3], np.array([3])):
        with pytest.raises(EpisodeError, match="expected a buffer"):
            buffer.concat(other)
    for state in (None, [], {}, {"objects": True}):
        with pytest.raises(EpisodeError, match="a buffer's state without"):
            LookbackBuffer.from_state(state)
    assert buffer == LookbackBuffer([1, 2])
