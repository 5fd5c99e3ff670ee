"""Whatever happens while a state is saved, there is a whole one afterwards: the old or the new one."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from episodia.checkpoints import load_state, safe_files, save_state
from episodia.checkpoints import save_and_load as directories
from episodia.errors import CheckpointError


def names(directory):
    return sorted(file.name for file in directory.iterdir())


def test_saving_again_replaces_the_state_and_leaves_nothing_behind(tmp_path):
    for steps in range(3):
        save_state(tmp_path / "saved", {"steps": steps, "w": torch.full((2,), steps)})

    assert load_state(tmp_path / "saved")["steps"] == 2
    assert len(names(tmp_path / "saved")) == 3
    assert names(tmp_path) == ["saved"]


def test_parents_are_made_and_an_empty_directory_is_used(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", str(tmp_path / "a" / "b")):
        save_state(path, {"x": 1})

        assert load_state(path) == {"x": 1}


def test_the_present_directory_can_be_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for steps in (1, 2):
        save_state(".", {"steps": steps})

        assert load_state(".") == {"steps": steps}
    assert len(names(tmp_path)) == 3


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_checkpoint_is_not_overwritten(tmp_path, kind):
    path = tmp_path / "mine"
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(tmp_path / "nowhere")
    else:
        path.mkdir()
        (path / "notes").write_text("mine")

    with pytest.raises(CheckpointError, match="found other files"):
        save_state(path, {"x": 1})
    assert names(tmp_path) == ["mine"]


def test_other_files_in_a_checkpoint_stay(tmp_path):
    save_state(tmp_path / "saved", {"x": 1})
    (tmp_path / "saved" / "curve.png").write_bytes(b"picture")
    save_state(tmp_path / "saved", {"x": 2})

    assert (tmp_path / "saved" / "curve.png").read_bytes() == b"picture"
    assert load_state(tmp_path / "saved") == {"x": 2}


@pytest.mark.parametrize("part", ["manifest", "state", "tensors"])
@pytest.mark.parametrize("suffix", ["", ".part"])
def test_saving_follows_no_links(tmp_path, part, suffix):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("saved", "like"):
        save_state(tmp_path / name, {"x": 1})
    save_state(tmp_path / "like", {"x": 2, "w": torch.ones(2)})
    name = next(name for name in names(tmp_path / "like") if name.startswith(part))
    link = tmp_path / "saved" / f"{name}{suffix}"
    if name == "manifest.json" and not suffix:
        link.rename(victim)
    before = victim.read_bytes()
    link.symlink_to(victim)
    save_state(tmp_path / "saved", {"x": 2, "w": torch.ones(2)})

    assert victim.read_bytes() == before
    assert not any(file.is_symlink() for file in (tmp_path / "saved").iterdir())
    assert load_state(tmp_path / "saved")["x"] == 2


def test_what_cannot_be_removed_does_not_make_a_save_fail(tmp_path):
    save_state(tmp_path / "saved", {"x": 1})
    for name in ("state-0123456789abcdef.json", "tensors-0123456789abcdef.safetensors.part"):
        (tmp_path / "saved" / name).mkdir()
    save_state(tmp_path / "saved", {"x": 2})

    assert load_state(tmp_path / "saved") == {"x": 2}
    assert len(names(tmp_path / "saved")) == 3 + 2


@pytest.mark.parametrize("there_before", [False, True])
def test_leftovers_of_killed_saves_are_removed_when_no_process_can_be_writing_them(tmp_path, there_before):
    if there_before:
        save_state(tmp_path / "saved", {"x": 1})
    ages = {".saved.0123456789abcdef.part": 2 * 3600, ".saved.fedcba9876543210.part": 60}
    ages |= {".other.0123456789abcdef.part": 2 * 3600, ".saved.mine.part": 2 * 3600}
    for name, age in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "state-0123456789abcdef.json").write_text("{}")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    save_state(tmp_path / "saved", {"x": 2})

    assert names(tmp_path) == sorted([*list(ages)[1:], "saved"])


class Interrupted(BaseException):
    pass


def interrupting(monkeypatch, call, error):
    """Let the given call that reaches the disk fail."""
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def failing(*args, real=real, **kwargs):
            calls.append(args)
            if len(calls) == call + 1:
                raise error
            return real(*args, **kwargs)

        monkeypatch.setattr(os, name, failing)
    return calls


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Interrupted()], ids=["full", "interrupt"])
@pytest.mark.parametrize("there_before", [None, "an empty directory", "a checkpoint"])
@pytest.mark.parametrize("call", range(14))
def test_f14_a_failure_at_any_moment_leaves_a_whole_state(tmp_path, monkeypatch, call, there_before, error):
    path = tmp_path / "saved"
    if there_before == "a checkpoint":
        save_state(path, {"steps": 1, "w": torch.ones(2)})
    elif there_before:
        path.mkdir()
    with monkeypatch.context() as patch:
        interrupting(patch, call, error)
        try:
            save_state(path, {"steps": 2, "w": torch.zeros(2)})
            done = True
        except (CheckpointError, Interrupted):
            done = False

    if (path / "manifest.json").exists():
        loaded = load_state(path)
        assert (loaded["steps"], loaded["w"].tolist()) in [(1, [1.0, 1.0]), (2, [0.0, 0.0])]
        assert loaded["steps"] == 2 or not done
    else:
        assert there_before != "a checkpoint"
        assert not done
    assert names(tmp_path) in ([], ["saved"])
    save_state(path, {"steps": 3})
    assert load_state(path) == {"steps": 3}
    assert len(names(path)) == 3


def test_f14_the_error_of_a_full_disk_names_the_place(tmp_path, monkeypatch):
    interrupting(monkeypatch, 0, OSError(28, "No space left on device"))

    with pytest.raises(CheckpointError, match=rf"{tmp_path}/saved: .*No space left"):
        save_state(tmp_path / "saved", {"steps": 2})


def test_every_file_and_directory_reaches_the_disk_before_it_counts(tmp_path, monkeypatch):
    synced, order = [], []
    real_sync, real_write = os.fsync, safe_files.write_durably
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), real_sync(handle)))
    monkeypatch.setattr(
        directories,
        "write_durably",
        lambda path, content: (real_write(path, content), order.append((path.name.split("-")[0], len(synced)))),
    )

    save_state(tmp_path / "saved", {"x": 1})

    # Each file, and its directory after it; the manifest last; then the name of the new directory.
    assert order == [("state", 2), ("tensors", 4), ("manifest.json", 6)]
    assert len(synced) == 7


def test_a_reader_meets_only_whole_states_during_a_save(tmp_path, monkeypatch):
    path = tmp_path / "saved"
    save_state(path, {"steps": 1})
    real = directories._read

    def overtaken(*args):
        monkeypatch.setattr(directories, "_read", real)
        save_state(path, {"steps": 2})
        return real(*args)

    monkeypatch.setattr(directories, "_read", overtaken)

    assert load_state(path) == {"steps": 2}


WRITER = """
import sys, torch
from episodia.checkpoints import save_state
step = 0
while True:
    save_state(sys.argv[1], {"steps": step, "w": torch.full((20_000,), float(step))})
    print(step, flush=True)
    step += 1
"""


@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_s3_a_killed_writer_leaves_what_it_has_acknowledged(tmp_path, kills):
    for kill in range(kills):
        path = tmp_path / f"saved-{kill}"
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
        try:
            said = writer.stdout.readline()
            time.sleep(0.02 + 0.0013 * kill)
        finally:
            writer.send_signal(signal.SIGKILL)
        said = [*said.split(), *writer.communicate()[0].split()]

        loaded = load_state(path)
        assert loaded["steps"] >= int(said[-1])
        assert loaded["w"].unique().tolist() == [loaded["steps"]]
