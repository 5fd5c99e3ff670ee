"""S1, S4: two processes never mix one run, damage in its small files is noticed, and SIGTERM saves it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from episodia.errors import TrainingError
from episodia.training import Training, resume, train
from episodia.training.metrics_file import MetricsFile
from episodia.training.run_limits import Limits
from episodia.training.run_lock import RunLock

SMALL = {"progress": False, "num_envs": 2, "num_timesteps": 40}


def test_s4_a_second_training_in_the_directory_of_a_running_one_is_rejected(tmp_path):
    lock = RunLock(tmp_path)
    lock.take()
    with pytest.raises(TrainingError, match=f"process {os.getpid()} on"):
        train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL)
    lock.release()
    train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL).close()

    assert not lock.path.exists()


def test_s4_a_run_that_is_going_on_cannot_be_resumed(tmp_path):
    with train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL):
        pass
    lock = RunLock(tmp_path)
    lock.take()
    with pytest.raises(TrainingError, match=rf"process {os.getpid()} on .* is writing"):
        resume(tmp_path, steps=160)
    lock.release()

    with resume(tmp_path, steps=160, progress=False) as training:
        assert training.steps >= 160


OWNER = """
import sys, time
from pathlib import Path
from episodia.training.run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.take()
print("taken", flush=True)
time.sleep(60)
"""


def test_s4_the_lock_of_a_process_that_was_killed_keeps_nobody_out(tmp_path):
    program = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    lock = RunLock(tmp_path)
    with pytest.raises(TrainingError, match=f"process {program.pid} on"):
        lock.take()
    program.kill()
    program.communicate()
    lock.take()

    assert json.loads(lock.path.read_text())["pid"] == os.getpid()
    lock.release()


def flips_of(content):
    for place, byte in enumerate(content):
        for bit in range(8):
            yield content[:place] + bytes([byte ^ 1 << bit]) + content[place + 1 :]


def test_s1_a_flipped_bit_in_run_json_is_noticed(tmp_path):
    path = tmp_path / "run.json"
    limits = Limits(steps=100_000, target=475.0, checkpoint_every=20_000)
    limits.save(path)
    for content in flips_of(path.read_bytes()):
        path.write_bytes(content)
        try:
            found = Limits.load(path)
        except TrainingError:
            continue

        assert found == limits  # a flip in the white space


def test_s1_a_flipped_bit_in_a_line_of_the_metrics_is_noticed(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    for iteration in (1, 2):
        file({"iteration": iteration, "steps": 128 * iteration, "return_mean": 21.5})
    whole, records = file.path.read_bytes(), file.read()
    first = len(whole.splitlines(keepends=True)[0])
    for content in flips_of(whole[:first]):
        file.path.write_bytes(content + whole[first:])
        with pytest.raises(TrainingError, match="line 1"):
            file.read()

    file.path.write_bytes(whole)
    assert file.read() == records


def test_lines_and_limits_of_earlier_versions_have_no_checksum_and_are_read(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1, "steps": 40, "return_mean": null}\n')
    (tmp_path / "run.json").write_text(
        '{"format": "episodia run 1", "steps": 9, "target": null, "checkpoint_every": null, "tensorboard": false}'
    )

    assert [record["steps"] for record in MetricsFile(tmp_path / "metrics.jsonl").read()] == [40]
    assert Limits.load(tmp_path / "run.json") == Limits(steps=9)


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_directory_that_was_removed_meanwhile_is_an_error_at_the_end(how, tmp_path, capsys, monkeypatch):
    out, step = tmp_path / "run", Training.step

    def removing(training):
        if out.exists():
            shutil.rmtree(out)
        if how == "replaced":
            out.mkdir()
        return step(training)

    monkeypatch.setattr(Training, "step", removing)
    with pytest.raises(TrainingError, match=r"removed or replaced|cannot be written"):
        train("ppo", "CartPole-v1", steps=80, out=out, **SMALL)

    assert "is saved" not in capsys.readouterr().err


def test_sigterm_saves_the_run_and_ends_the_program(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "episodia", "train", "ppo", "CartPole-v1", "--steps", "9000000", "--out", str(out)]
    program = subprocess.Popen(
        [*command, "--set", "num_timesteps=64"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (out / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    program.send_signal(signal.SIGTERM)
    _, shown = program.communicate(timeout=60)
    with resume(out, steps=1, progress=False) as training:
        iteration = training.iteration

    assert program.returncode == 143
    assert f"Stopped by SIGTERM. The run is saved as it was after {iteration} updates." in shown
    assert len((out / "metrics.jsonl").read_text().splitlines()) == iteration > 0
