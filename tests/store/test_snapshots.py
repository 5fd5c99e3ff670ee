"""A snapshot comes back as it was; a crash leaves the old one or the new one; damage is found."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from episodia.errors import DamagedStoreError, StoreError
from episodia.store import load_snapshot, save_snapshot
from episodia.store import snapshots as module
from episodia.testing import assert_same_items


def state(number=0, rows=2000):
    return {
        "number": number,
        "generator": {"state": 2**127 + number, "name": "PCG64"},
        "columns": [{"obs": np.full((rows, 4), number, np.float32)}, {"kind": np.full(rows, number % 200, np.uint8)}],
        "ids": [f"walk-{place}" for place in range(rows)] + [("agent", 1)],
        "names": [f"déjà-{place}-\ud800" for place in range(rows)],
        "small": np.arange(3),
    }


def test_a_state_comes_back_as_it_was(tmp_path):
    save_snapshot(tmp_path / "saved", state(7))
    found = load_snapshot(tmp_path / "saved")

    assert_same_items(found, state(7))
    assert not found["columns"][0]["obs"].flags.writeable


def test_a_later_snapshot_replaces_an_earlier_one_that_is_still_read(tmp_path):
    save_snapshot(tmp_path, state(1))
    first = load_snapshot(tmp_path)
    save_snapshot(tmp_path, state(2))

    assert load_snapshot(tmp_path)["number"] == 2
    assert_same_items(first, state(1))
    assert len([file for file in tmp_path.iterdir() if file.name.startswith("snapshot-")]) == 1


@pytest.mark.parametrize("moment", ["read_on", "rows"])
def test_s4_a_snapshot_that_is_replaced_while_it_is_read_is_not_damaged(tmp_path, monkeypatch, moment):
    save_snapshot(tmp_path, state(1))
    real, left = getattr(module.RowStore, moment), [2, 3]

    def replaced_first(*arguments):
        if left:
            number = left.pop(0)
            with monkeypatch.context() as patched:
                patched.setattr(module.RowStore, moment, real)
                save_snapshot(tmp_path, state(number))
        return real(*arguments)

    monkeypatch.setattr(module.RowStore, moment, replaced_first)

    assert load_snapshot(tmp_path)["number"] == 3


def test_what_cannot_be_saved_leaves_the_earlier_snapshot(tmp_path):
    save_snapshot(tmp_path, state(1))
    with pytest.raises(StoreError, match="found a builtin_function_or_method"):
        save_snapshot(tmp_path, {"call": print})

    assert load_snapshot(tmp_path)["number"] == 1


@pytest.mark.parametrize("at", range(1, 30))
def test_an_interrupt_at_any_write_leaves_the_old_or_the_new_snapshot(tmp_path, monkeypatch, at):
    save_snapshot(tmp_path, state(1))
    calls, real = [], os.fsync

    def interrupted(handle):
        calls.append(handle)
        if len(calls) == at:
            raise KeyboardInterrupt
        real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupted)
        try:
            save_snapshot(tmp_path, state(2))
        except KeyboardInterrupt:
            assert len(calls) == at

    assert load_snapshot(tmp_path)["number"] in ((1, 2) if len(calls) == at else (2,))
    save_snapshot(tmp_path, state(3))
    assert load_snapshot(tmp_path)["number"] == 3
    assert len([file for file in tmp_path.iterdir() if file.name.startswith("snapshot-")]) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_killed_save_leaves_the_old_or_the_new_snapshot(tmp_path):
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from pathlib import Path\n"
        "from test_snapshots import state; from episodia.store import save_snapshot\n"
        f"for number in range(10**9): save_snapshot(Path({str(tmp_path)!r}), state(number)); print(number, flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    for _ in range(5):
        acknowledged = int(child.stdout.readline())
    time.sleep(0.013)
    child.kill()
    acknowledged = max([acknowledged, *(int(line) for line in child.communicate()[0].split("\n")[:-1])])
    found = load_snapshot(tmp_path)

    assert found["number"] >= acknowledged
    assert_same_items(found, state(found["number"]))


@pytest.mark.filterwarnings("ignore::episodia.errors.StoreWarning")
def test_damage_is_found(tmp_path):
    save_snapshot(tmp_path, state(1))
    for file in sorted(file for file in tmp_path.rglob("*") if file.suffix in (".rows", ".json", ".jsonl")):
        content = file.read_bytes()
        for place in (0, len(content) // 2, len(content) - 2):
            file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            with pytest.raises(DamagedStoreError):
                load_snapshot(tmp_path)
        file.write_bytes(content)


def test_other_files_and_other_names_are_rejected(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="found other files"):
        save_snapshot(tmp_path / "other", state())
    with pytest.raises(StoreError, match="found no snapshot"):
        load_snapshot(tmp_path / "nowhere")
    save_snapshot(tmp_path / "saved", state())
    (tmp_path / "saved" / module.CURRENT_NAME).write_text("../other")
    with pytest.raises(DamagedStoreError, match=r"found '\.\./other'"):
        load_snapshot(tmp_path / "saved")
