"""Lists that a recorder returns answer the same, whether or not somebody has looked at their episodes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from episodia import Columns, EpisodeList
from episodia.connectors import FrameStacking, GeneralAdvantageEstimation, defaults
from episodia.episodes.recorder.recorder import Recorder
from episodia.modules import MLPActorCritic
from episodia.testing import assert_same_episode, assert_same_items

SPACE = spaces.Box(-1e6, 1e6, (2,), np.float32)
ACTIONS = spaces.Discrete(3)
LANES = 3
COLUMNS = (Columns.OBS, Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS, Columns.TRUNCATEDS, Columns.T, "logp")


def record(recorder, ends, rng):
    """Record one vector step for each of `ends`, the lanes that end with it; those begin anew at once."""
    for ending in ends:
        terminated = np.isin(np.arange(LANES), sorted(ending))
        recorder.step(
            rng.normal(size=(LANES, 2)).astype(np.float32),
            rng.integers(3, size=LANES),
            rng.normal(size=LANES),
            terminated,
            np.zeros(LANES, bool),
            extras={"logp": rng.normal(size=LANES)},
        )
        if ending:
            first = rng.normal(size=(len(ending), 2)).astype(np.float32)
            recorder.reset(first, lanes=sorted(ending))


def new_recorder(rng, **kwargs):
    """Return a recorder that was reset."""
    recorder = Recorder(SPACE, ACTIONS, LANES, seed=1, **kwargs)
    recorder.reset(rng.normal(size=(LANES, 2)).astype(np.float32))
    return recorder


fragments = st.lists(st.lists(st.sets(st.integers(0, LANES - 1)), min_size=1, max_size=6), min_size=1, max_size=3)


@given(fragments, st.integers(0, 2), st.integers(3, 20))
def test_columns_are_the_same_before_and_after_an_episode_is_read(fragments, lookback, block_steps):
    rng = np.random.default_rng(0)
    recorder = new_recorder(rng, lookback=lookback, block_steps=block_steps)
    for ends in fragments:
        record(recorder, ends, rng)
        taken = recorder.take()
        plain = EpisodeList(list(pickle.loads(pickle.dumps(recorder_copy(taken)))))

        for column in COLUMNS:
            assert_same_items(taken.flat(column).values, plain.flat(column).values)
        shifts = range(-lookback, 2)
        for column in (Columns.OBS, Columns.REWARDS):
            assert_same_items(
                taken.windows(column, shifts=shifts, fill=-7, tail=True).values,
                plain.windows(column, shifts=shifts, fill=-7, tail=True).values,
            )
        assert taken.lengths.tolist() == plain.lengths.tolist()
        assert taken.t_started.tolist() == plain.t_started.tolist()
        assert taken.extra_columns() == plain.extra_columns()
        for recorded, copy in zip(taken, plain, strict=True):
            assert_same_episode(recorded, copy)


def recorder_copy(taken):
    """Return copies of the episodes without letting the list itself make them: through a fork of its chunks."""
    forked = taken.forked()
    return list(forked) if hasattr(forked, "_origin") else list(taken)


def taken_list():
    rng = np.random.default_rng(3)
    recorder = new_recorder(rng)
    record(recorder, [set(), {1}, set(), {0, 2}, set()], rng)
    return recorder, recorder.take(), rng


def test_reading_columns_makes_no_episodes():
    _, taken, _ = taken_list()

    taken.flat(Columns.OBS, tail=True)
    taken.windows(Columns.ACTIONS, shifts=[-1], fill=0)
    assert taken.lengths.sum() == 5 * LANES
    assert taken.is_untouched

    assert taken[0].is_finalized
    assert not taken.is_untouched


def test_what_is_written_into_an_episode_shows_in_the_columns():
    _, taken, _ = taken_list()

    taken[0].set_rewards(new_data=[7.0] * len(taken[0]))

    assert taken.flat(Columns.REWARDS).items()[: len(taken[0])] == [7.0] * len(taken[0])


def test_what_is_written_into_a_fork_shows_only_there():
    _, taken, _ = taken_list()
    before = taken.flat(Columns.REWARDS).values.copy()
    forked = taken.forked()

    forked[1].set_rewards(new_data=[7.0] * len(forked[1]))

    assert 7.0 in forked.flat(Columns.REWARDS).values
    assert np.array_equal(taken.flat(Columns.REWARDS).values, before)


def test_a_fork_sees_what_was_written_into_the_original_before_it_is_looked_at():
    _, taken, _ = taken_list()
    forked = taken.forked()

    taken[0].set_rewards(new_data=[9.0] * len(taken[0]))

    assert forked.flat(Columns.REWARDS).items()[0] == 9.0


def test_memory_is_not_used_again_while_a_list_holds_it():
    recorder, taken, rng = taken_list()
    before = taken.flat(Columns.OBS, tail=True).values.copy()

    for _ in range(5):
        record(recorder, [set()] * 5, rng)
        recorder.take()

    assert np.array_equal(taken.flat(Columns.OBS, tail=True).values, before)


def test_the_ended_episode_of_an_idle_lane_is_the_one_in_the_list():
    rng = np.random.default_rng(5)
    recorder = new_recorder(rng)
    flags = np.array([True, False, False])
    recorder.step(
        np.zeros((LANES, 2), np.float32), np.zeros(LANES, np.int64), np.ones(LANES), flags, np.zeros(LANES, bool)
    )
    taken = recorder.take()

    assert recorder.episode(0) is taken[0]


@pytest.mark.parametrize("custom", [list, lambda: [FrameStacking(num_frames=2)]])
def test_pipelines_make_the_same_batch_of_recorded_and_of_hand_built_episodes(custom):
    _, taken, _ = taken_list()
    pipeline = defaults.learner(SPACE, ACTIONS, custom=custom(), targets=[GeneralAdvantageEstimation()])
    module = MLPActorCritic(pipeline.observation_space, ACTIONS)

    recorded = pipeline(rl_module=module, episodes=taken)["default_policy"]

    assert taken.is_untouched
    built = pipeline(rl_module=module, episodes=list(taken))["default_policy"]
    assert recorded.keys() == built.keys()
    for name, column in built.items():
        assert_same_items(recorded[name].numpy(), column.numpy())
