"""Writers that are killed, two writers, and readers beside a writer: nothing that was acknowledged is lost or mixed."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from episodia.episodes import EpisodeStore
from episodia.errors import StoreError
from episodia.store import record_writer
from episodia.testing import assert_same_episode
from stored_walks import numbered, read_all

SUPPORT = Path(__file__).resolve().parent.parent / "support"
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")


def run(verb, folder, rounds):
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    script = [sys.executable, str(SUPPORT / "killed_writers.py"), verb, str(folder), str(rounds)]
    done = subprocess.run(script, capture_output=True, text=True, env=environment, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
    return int(done.stdout.split()[-1])


@forks
def test_s3_fifty_killed_writers_lose_nothing_that_was_acknowledged(tmp_path):
    assert run("kills", tmp_path, 50) > 0


@forks
@pytest.mark.slow
def test_s3_a_thousand_killed_writers_lose_nothing_that_was_acknowledged(tmp_path):
    assert run("kills", tmp_path, 1000) > 0


@forks
def test_s4_two_writers_and_two_readers_see_no_mixed_episodes(tmp_path):
    assert run("crowd", tmp_path, 10) > 0


@forks
@pytest.mark.slow
def test_s4_many_rounds_of_writers_and_readers_see_no_mixed_episodes(tmp_path):
    assert run("crowd", tmp_path, 200) > 0


@forks
def test_a_child_does_not_write_to_the_store_of_its_parent(tmp_path):
    with EpisodeStore(tmp_path / "store") as store:
        store.append([numbered(0)])
        store._rows._writer._lock._pid += 1  # as after a fork
        with pytest.raises(StoreError, match="a store of its own in each process"):
            store.append([numbered(1)])


class Failing:
    """Replaces `os.fsync`, and fails at the call of this number."""

    def __init__(self, at):
        self.calls = 0
        self._at = at

    def __call__(self, handle):
        self.calls += 1
        if self.calls == self._at:
            raise OSError(28, "No space left on device")
        os.fdatasync(handle)


def test_f14_a_full_disk_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path, monkeypatch):
    for at in range(1, 12):
        path = tmp_path / str(at)
        with EpisodeStore(path) as store:
            store.append([numbered(0)])
            failing = Failing(at)
            monkeypatch.setattr(record_writer.os, "fsync", failing)
            failed = False
            try:
                store.append([numbered(1), numbered(2)])
            except StoreError as error:
                failed = "No space left" in str(error)
            monkeypatch.undo()
            assert failed == (failing.calls >= at)
            found = read_all(path)[0]
            assert set(found) >= {0}
            with pytest.warns() if failed and len(found) == 1 else contextlib.nullcontext():
                store.append([numbered(len(found)), numbered(len(found) + 1)])
        for position, episode in enumerate(EpisodeStore(path).episodes()):
            assert_same_episode(episode, numbered(position), ignore=("times",))
