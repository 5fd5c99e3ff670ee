"""Processes that read a buffer see true steps of it, whatever the one process that writes does meanwhile."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia import SingleAgentEpisode
from episodia.errors import ReplayError, StaleSampleError
from episodia.replay import (
    JointSteps,
    MemoryMapped,
    ReplayBuffer,
    ReplayReader,
    Sequences,
    Transitions,
    WholeEpisodes,
)
from plain_buffer import HISTORIES, PlainBuffer, check_steps, columns, next_observations, played

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no shared file locks")

DRAWS = [Transitions(), Transitions(3, 0.5), Sequences(4, burn_in=2), WholeEpisodes()]
NAMES = ("obs", "actions", "rewards", "terminateds", "truncateds", "t")


def shared(path, capacity=64, **settings):
    return ReplayBuffer(capacity, storage=MemoryMapped(path, shared=True), seed=0, **settings)


def everything(sampled):
    return [*columns(sampled, *NAMES), next_observations(sampled), sampled.keys.tolist()]


@settings(max_examples=40)
@given(
    history=HISTORIES,
    capacity=st.integers(40, 160),
    evict=st.sampled_from(["steps", "episodes", "reservoir"]),
    draw=st.sampled_from(DRAWS),
    lookback=st.integers(0, 2),
)
def test_a_reader_draws_what_the_writer_draws(tmp_path_factory, history, capacity, evict, draw, lookback):
    path = tmp_path_factory.mktemp("rows")
    buffer, reader = shared(path, capacity, evict=evict), ReplayReader(path, seed=0)
    half = len(history) // 2
    for part in (history[:half], history[half:]):
        plain = played(buffer, part)
        buffer.clear()
        assert len(reader) == 0
    plain = played(buffer, history)
    if not len(buffer):
        return

    ours, theirs = reader.sample(30, draw, lookback=lookback), buffer.sample(30, draw, lookback=lookback)

    assert len(reader) == len(buffer)
    assert everything(ours) == everything(theirs)
    if draw == Transitions():
        check_steps(ours, plain)
    reader.close()


WRITER = """
import sys, numpy as np
from episodia.replay import MemoryMapped, ReplayBuffer
from plain_buffer import PlainBuffer
buffer = ReplayBuffer(int(sys.argv[2]), evict=sys.argv[3], storage=MemoryMapped(sys.argv[1], shared=True), seed=0)
plain, rng, lanes = PlainBuffer(), np.random.default_rng(0), list(range(6))
while True:
    chunks = []
    for place, lane in enumerate(lanes):
        end = ["", "", "", "terminated", "truncated"][rng.integers(5)]
        chunks.append(plain.chunk(lane, int(rng.integers(1, 9)), end))
        if end:
            lanes[place] = max(*lanes, lane) + 1
    buffer.add(chunks)
    if len(plain.walks) > 200:
        plain.walks = {lane: plain.walks[lane] for lane in lanes if lane in plain.walks}
"""


@pytest.fixture
def writer(tmp_path, request):
    """A process that adds chunks of walks, as fast as it can, to a buffer that is small."""
    support = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path), "200", request.param], env={**os.environ, "PYTHONPATH": support}
    )
    while not (tmp_path / "shared.layout").exists():
        time.sleep(0.02)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("writer", ["steps", "episodes", "reservoir"], indirect=True)
@pytest.mark.usefixtures("writer")
def test_no_sampled_row_is_mixed_with_what_is_written_meanwhile(tmp_path):
    reader, count, stale, until = ReplayReader(tmp_path, seed=1), 0, 0, time.monotonic() + 4
    while time.monotonic() < until:
        try:
            sampled = reader.sample(64, Sequences(3)).load()
        except StaleSampleError:
            stale += 1
            continue
        observations, actions, times = (np.array(column) for column in columns(sampled, "obs", "actions", "t"))
        following = np.array(next_observations(sampled))
        assert (observations == actions).all()
        assert (following == actions + 1).all()
        assert (actions % 100_000 == times).all()
        count += len(actions)

    assert count > 1000
    assert stale < 10_000


@pytest.mark.parametrize("writer", ["steps"], indirect=True)
def test_a_writer_that_was_killed_leaves_whole_rows_or_an_error(writer, tmp_path):
    writer.kill()
    writer.wait()

    reader, errors = ReplayReader(tmp_path, seed=0), []
    for _ in range(5):
        try:
            sampled = reader.sample(50)
        except ReplayError as error:
            errors.append(str(error))
        else:
            assert next_observations(sampled) == [number + 1 for number in columns(sampled, "actions")[0]]

    assert len(errors) in {0, 5}
    assert all("not written to its end" in error for error in errors)


def test_a_change_that_was_interrupted_is_an_error_until_the_buffer_is_cleared(tmp_path, monkeypatch):
    buffer, reader, plain = shared(tmp_path), ReplayReader(tmp_path, seed=0), PlainBuffer()
    buffer.add([plain.chunk(0, 3)])
    table = next(iter(buffer._tables.values()))
    with monkeypatch.context() as patch:
        patch.setattr(type(table.columns), "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            buffer.add([plain.chunk(0, 3)])

    with pytest.raises(ReplayError, match="not written to its end"):
        reader.sample(4)

    buffer.clear()
    buffer.add([PlainBuffer().chunk(1, 3)])
    assert len(reader.sample(4)) == 4


def test_rows_that_were_overwritten_are_not_read(tmp_path):
    buffer, reader, plain = shared(tmp_path), ReplayReader(tmp_path, seed=0), PlainBuffer()
    buffer.add([plain.chunk(0, 3, "terminated")])
    sampled, kept = reader.sample(4), reader.sample(4).load()
    for number in range(1, 20):
        buffer.add([plain.chunk(number, 9, "terminated")])

    with pytest.raises(StaleSampleError):
        sampled.flat("obs")
    check_steps(kept, plain)


def test_a_buffer_that_is_loaded_is_read_anew(tmp_path):
    buffer, reader = shared(tmp_path / "rows"), ReplayReader(tmp_path / "rows", seed=0)
    buffer.add([PlainBuffer().chunk(0, 3)])
    buffer.save(tmp_path / "save")
    buffer.add([PlainBuffer().chunk(7, 9)])
    sampled = reader.sample(4)
    buffer.load(tmp_path / "save")

    with pytest.raises(StaleSampleError, match="loaded again"):
        sampled.flat("obs")
    assert len(reader) == 3
    assert max(reader.sample(20).flat("obs").values) < 3


def test_nested_late_and_masked_columns_are_read(tmp_path):
    buffer, reader = shared(tmp_path), ReplayReader(tmp_path, seed=0)
    for number, extra in enumerate([{}, {"logp": np.ones(2)}]):
        observations = {"place": np.arange(3) + number, "pair": (np.zeros((3, 2), np.float32), np.ones(3))}
        buffer.add(
            [
                SingleAgentEpisode(
                    observations=observations,
                    actions=np.zeros(2, int),
                    rewards=np.zeros(2),
                    extra_model_outputs=extra,
                    len_lookback_buffer=0,
                )
            ]
        )

    ours, theirs = reader.sample(10), buffer.sample(10)

    for name in ("place", "pair"):
        np.testing.assert_equal(ours.flat("obs").values[name], theirs.flat("obs").values[name])
    assert ours.flat("logp_mask").values.tolist() == theirs.flat("logp_mask").values.tolist()
    assert reader.sample(1)[0].id_.startswith("episode-")


def test_what_a_reader_cannot_do_is_said(tmp_path):
    with pytest.raises(ReplayError, match="no shared buffer"):
        ReplayReader(tmp_path).sample(1)
    buffer = shared(tmp_path)
    buffer.add([PlainBuffer().chunk(0, 3)])

    with pytest.raises(ReplayError, match="joint steps in the process that writes"):
        ReplayReader(tmp_path).sample(1, JointSteps())
    with pytest.raises(ReplayError, match="expected some of"):
        ReplayReader(tmp_path).sample(1, modules=["other"])


def test_a_reader_is_closed_at_the_end_of_its_with_block_and_the_writer_goes_on_inside(tmp_path):
    buffer, plain = shared(tmp_path), PlainBuffer()
    buffer.add([plain.chunk(0, 3)])

    with ReplayReader(tmp_path) as reader:
        assert len(reader) == 3
        buffer.add([plain.chunk(0, 4)])
        assert len(reader) == 7
        sampled, loaded = reader.sample(2), reader.sample(2).load()

    for read in (lambda: reader.sample(1), lambda: len(reader), lambda: sampled.flat("obs")):
        with pytest.raises(ReplayError, match="found a closed reader"):
            read()
    assert len(loaded.flat("obs").values) == 2
