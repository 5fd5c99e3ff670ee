"""Runs on disk: files, checkpoints, resuming; and what is shown."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia import interrupts
from episodia.checkpoints import load_state, save_state
from episodia.connectors import MeanStdFilter
from episodia.errors import CheckpointError, EnvError, MissingExtraError, TrainingError
from episodia.learners import PPOConfig
from episodia.training import (
    Setup,
    StoppedBy,
    Training,
    load_training,
    resume,
    run_directory,
    save_training,
    train,
)
from episodia.training.learning_curve import learning_curve
from episodia.training.metrics_file import MetricsFile
from episodia.training.progress import Progress
from episodia.training.run_limits import CHECKPOINT_EVERY

SMALL = {
    "num_envs": 2,
    "num_timesteps": 40,
    "num_epochs": 2,
    "minibatch_size": 20,
    "hidden": (8,),
    "progress": False,
}
RECORD = {"iteration": 1, "steps": 40, "steps_per_s": 1000.0, "return_mean": 20.0, "policy_loss": 0.5}


def lines_of(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def timeless(record):
    return {name: value for name, value in record.items() if name not in ("time_s", "steps_per_s", "crc32")}


def test_a_run_leaves_metrics_a_picture_and_a_checkpoint(tmp_path):
    with train("ppo", "CartPole-v1", steps=120, out=tmp_path / "run", **SMALL) as training:
        lines = lines_of(tmp_path / "run")

    assert [line["iteration"] for line in lines] == [1, 2, 3]
    assert lines[-1]["steps"] == training.steps
    assert (tmp_path / "run" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "checkpoint" / "manifest.json").is_file()


def test_s14_a_resumed_run_equals_one_that_saved_and_went_on(tmp_path):
    options = {**SMALL, "checkpoint_every": 120}
    with train("ppo", "CartPole-v1", steps=300, out=tmp_path / "whole", **options) as whole:
        train("ppo", "CartPole-v1", steps=120, out=tmp_path / "parts", **options).close()
        # The first run saves at its end too, at the same step.
        with resume(tmp_path / "parts", steps=300, checkpoint_every=120, progress=False) as resumed:
            pairs = zip(lines_of(tmp_path / "whole"), lines_of(tmp_path / "parts"), strict=True)
            weights = [training.learner.get_weights()["default_policy"] for training in (whole, resumed)]

    assert all(timeless(expected) == timeless(found) for expected, found in pairs)
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert list(map(timeless, resumed.history)) == list(map(timeless, whole.history))


def test_a_run_with_files_is_the_same_as_one_without(tmp_path):
    with (
        train("ppo", "CartPole-v1", steps=120, out=tmp_path, **SMALL) as with_files,
        train("ppo", "CartPole-v1", steps=120, **SMALL) as without,
    ):
        assert list(map(timeless, with_files.history)) == list(map(timeless, without.history))


def test_a_run_goes_on_with_what_it_was_told_at_first(tmp_path):
    told = {"checkpoint_every": 80, "target": 400.0, "tensorboard": True}
    train("ppo", "CartPole-v1", steps=240, out=tmp_path / "whole", **told, **SMALL).close()
    train("ppo", "CartPole-v1", steps=80, out=tmp_path / "parts", **told, **SMALL).close()
    resume(tmp_path / "parts", steps=160, progress=False).close()

    with resume(tmp_path / "parts", steps=240, progress=False):
        pairs = zip(lines_of(tmp_path / "whole"), lines_of(tmp_path / "parts"), strict=True)

    assert all(timeless(expected) == timeless(found) for expected, found in pairs)
    assert json.loads((tmp_path / "parts" / "run.json").read_text()) == json.loads(
        (tmp_path / "whole" / "run.json").read_text()
    )
    assert len(list((tmp_path / "parts" / "tensorboard").iterdir())) == 3


def test_a_run_that_was_killed_goes_on_to_its_own_end(tmp_path, monkeypatch):
    monkeypatch.setattr(Training, "step", stopping_after(Training.step, 2))
    with pytest.raises(Killed):
        train("ppo", "CartPole-v1", steps=200, out=tmp_path, checkpoint_every=40, **SMALL)
    monkeypatch.undo()

    with resume(tmp_path, progress=False) as training:
        assert training.steps >= 200


def test_a_run_that_is_killed_loses_no_more_than_the_steps_since_the_last_checkpoint_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr("episodia.training.run_directory.save_training", saved := Mock(wraps=save_training))
    quick = {**SMALL, "num_timesteps": 4_000, "num_epochs": 1, "minibatch_size": 4_000}
    train("ppo", "CartPole-v1", steps=CHECKPOINT_EVERY + 8_000, out=tmp_path, **quick).close()

    assert json.loads((tmp_path / "run.json").read_text())["checkpoint_every"] == CHECKPOINT_EVERY == 20_000
    assert saved.call_count == 3  # at the beginning, after 20,000 steps and at the end


def test_without_checkpoints_between_a_run_is_saved_at_its_beginning_and_at_its_end(tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, checkpoint_every=None, **SMALL).close()

    assert json.loads((tmp_path / "run.json").read_text())["checkpoint_every"] is None


class Killed(BaseException):
    """Nobody can save anything after this."""


def stopping_after(step, times):
    """Return a step that kills the program after it was called a number of times."""
    calls = []

    def stopping(self):
        calls.append(1)
        if len(calls) > times:
            self._is_whole = False
            raise Killed
        return step(self)

    return stopping


def test_with_nothing_left_to_do_a_run_says_so(tmp_path, capsys):
    train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL).close()

    with resume(tmp_path, progress=False) as training:
        assert training.iteration == 2

    assert "the run is finished" in capsys.readouterr().err


def test_limits_may_be_numbers_of_numpy(tmp_path):
    told = {
        "steps": np.int64(80),
        "target": np.float32(400.0),
        "checkpoint_every": np.int64(40),
        "tensorboard": np.False_,
    }

    train("ppo", "CartPole-v1", out=tmp_path, **told, **SMALL).close()

    assert json.loads((tmp_path / "run.json").read_text())["checkpoint_every"] == 40


def test_minus_infinity_is_no_target(tmp_path):
    with pytest.raises(TrainingError, match="target"):
        train("ppo", "CartPole-v1", steps=80, target=-math.inf, out=tmp_path / "run", **SMALL)


def test_updates_that_are_missing_in_the_metrics_are_told_of(tmp_path, capsys):
    train("ppo", "CartPole-v1", steps=120, out=tmp_path, **SMALL).close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "metrics.jsonl").write_text("".join(lines[:1]))

    resume(tmp_path, steps=160, progress=False).close()

    assert "2 of 3 updates are missing" in capsys.readouterr().err


def test_infinity_is_no_target_any_more(tmp_path):
    train("ppo", "CartPole-v1", steps=80, target=3.0, out=tmp_path, **SMALL).close()

    with resume(tmp_path, steps=1_000, target=math.inf, progress=False) as training:
        assert training.stopped_by is StoppedBy.STEPS


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "episodia run 1", "steps": -1}', "NaN", "[" * 10**5])
def test_invalid_limits_are_named(content, tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL).close()
    (tmp_path / "run.json").write_text(content)

    with pytest.raises(TrainingError, match=r"run\.json"):
        resume(tmp_path, steps=80, progress=False)


# --- What ends a run, and what is left of it ------------------------------------------------------------------------


def failing_after(steps):
    """Return a function that makes environments which fail for good after so many steps together."""
    left = [steps]

    class Failing(gym.Wrapper):
        def step(self, action):
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("out of order")
            return super().step(action)

    return lambda: Failing(gym.make("CartPole-v1"))


def test_an_environment_that_fails_for_good_does_not_take_the_run_with_it(tmp_path, capsys):
    make = failing_after(200)
    with pytest.raises(EnvError):
        train("ppo", make, steps=4_000, out=tmp_path, **SMALL)

    options = {name: value for name, value in SMALL.items() if name != "progress"}
    with load_training(tmp_path, setup=Setup.of("ppo", make, **options)) as loaded:
        assert loaded.iteration == len(lines_of(tmp_path)) > 2
    assert f"saved as it was after {loaded.iteration} updates" in capsys.readouterr().err


def test_half_an_update_is_not_saved(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyError("in the middle")

    with train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL):
        before = load_state(tmp_path / "checkpoint")
    monkeypatch.setattr("episodia.training.training.send_weights", fail)

    with pytest.raises(KeyError):
        resume(tmp_path, steps=200, progress=False)

    assert load_state(tmp_path / "checkpoint")["progress"] == before["progress"]


def test_metrics_that_cannot_be_written_do_not_take_the_run_with_them(tmp_path, monkeypatch):
    def full(*_):
        raise TrainingError("no room")

    monkeypatch.setattr(MetricsFile, "__call__", full)

    with pytest.raises(TrainingError, match="no room"):
        train("ppo", "CartPole-v1", steps=200, out=tmp_path, **SMALL)

    with load_training(tmp_path) as loaded:
        assert loaded.iteration == 1


def test_what_cannot_be_saved_is_known_before_anything_is_played(tmp_path):
    class Odd(MeanStdFilter):
        def get_state(self):
            return {"odd": {1, 2}}

    with pytest.raises(CheckpointError, match="odd"):
        train("ppo", "CartPole-v1", steps=200, out=tmp_path, connectors=[Odd()], **SMALL)

    assert not tmp_path.exists()


def test_a_beginning_that_fails_after_it_was_saved_can_go_on(tmp_path, monkeypatch):
    saving = save_training

    def interrupted(path, training):
        saving(path, training)
        raise KeyboardInterrupt

    monkeypatch.setattr(run_directory, "save_training", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL)
    monkeypatch.undo()

    with resume(tmp_path, progress=False) as training:
        assert training.steps >= 80


def test_ctrl_c_stops_a_run_with_environments_in_other_processes(tmp_path):
    program = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "episodia",
            "train",
            "ppo",
            "CartPole-v1",
            "--steps",
            "9000000",
            "--out",
            str(tmp_path / "run"),
        ]
        + [word for pair in ("vectorization=async", "num_envs=2", "num_timesteps=64") for word in ("--set", pair)],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    try:
        for _ in range(600):
            if (tmp_path / "run" / "metrics.jsonl").exists():
                break
            time.sleep(0.1)
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
        shown, _ = program.communicate(timeout=60)
    finally:
        program.kill()

    assert program.returncode == 130
    assert "Stopped by: interrupt" in shown


def test_an_interrupt_before_the_first_update_stops_there(tmp_path, monkeypatch):
    saving = save_training

    def interrupted(path, training):
        signal.raise_signal(signal.SIGINT)
        saving(path, training)

    monkeypatch.setattr(run_directory, "save_training", interrupted)

    with train("ppo", "CartPole-v1", steps=4_000, out=tmp_path, **SMALL) as training:
        assert training.stopped_by is StoppedBy.INTERRUPT
        assert training.iteration == 0


def test_an_interrupt_while_the_end_is_saved_waits(tmp_path, monkeypatch):
    saving = save_training

    def interrupted(path, training):
        if training.iteration:
            signal.raise_signal(signal.SIGINT)
        saving(path, training)

    monkeypatch.setattr(run_directory, "save_training", interrupted)

    with train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL) as training:
        assert training.stopped_by is StoppedBy.INTERRUPT

    with load_training(tmp_path) as loaded:
        assert loaded.steps == training.steps >= 80
    assert (tmp_path / "learning_curve.png").is_file()


def test_a_second_interrupt_leaves_the_last_checkpoint_and_says_so(tmp_path, monkeypatch, capsys):
    def twice(*_):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(interrupts, "PAUSE_S", 0.0)
    monkeypatch.setattr("episodia.training.training.send_weights", twice)

    with pytest.raises(KeyboardInterrupt):
        train("ppo", "CartPole-v1", steps=200, out=tmp_path, **SMALL)

    assert "saved as it was after 0 updates" in capsys.readouterr().err
    assert load_state(tmp_path / "checkpoint")["progress"]["iteration"] == 0


def test_a_picture_that_cannot_be_written_is_a_note(tmp_path, capsys):
    (tmp_path / "learning_curve.png").mkdir()

    train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL).close()

    assert "No learning curve is drawn" in capsys.readouterr().err


def test_metrics_without_a_checkpoint_are_no_run_to_go_on_with(tmp_path):
    MetricsFile(tmp_path / "metrics.jsonl")(RECORD)

    with pytest.raises(TrainingError, match=r"without a checkpoint.*choose another directory"):
        train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL)
    with pytest.raises(TrainingError, match="found no checkpoint"):
        resume(tmp_path, steps=40, progress=False)


def test_two_runs_with_the_same_seed_leave_the_same_checkpoint(tmp_path):
    for name in ("one", "other"):
        train("ppo", "CartPole-v1", steps=80, out=tmp_path / name, **SMALL).close()

    one, other = (load_state(tmp_path / name / "checkpoint") for name in ("one", "other"))
    for state in (one, other):
        del state["progress"]["time_s"]
    assert repr(one) == repr(other)


def test_metrics_from_after_the_checkpoint_are_replaced_on_resuming(tmp_path):
    train("ppo", "CartPole-v1", steps=80, out=tmp_path, **SMALL).close()
    MetricsFile(tmp_path / "metrics.jsonl")({**RECORD, "iteration": 3})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 4, "cut o')

    resume(tmp_path, steps=150, progress=False).close()

    assert [line["iteration"] for line in lines_of(tmp_path)] == [1, 2, 3, 4]
    assert "value_loss" in lines_of(tmp_path)[2]


def test_an_interrupt_saves(tmp_path, monkeypatch):
    monkeypatch.setattr(MetricsFile, "read", lambda _: [])
    monkeypatch.setattr(MetricsFile, "__call__", lambda *_: signal.raise_signal(signal.SIGINT))

    with train("ppo", "CartPole-v1", steps=4_000, out=tmp_path, **SMALL) as training:
        assert training.stopped_by is StoppedBy.INTERRUPT

    with load_training(tmp_path) as loaded:
        assert loaded.steps == training.steps < 4_000


@pytest.mark.parametrize("wrong", [{"steps": "5"}, {"target": "high"}, {"checkpoint_every": 0}])
def test_invalid_numbers_are_named_before_anything_is_written(wrong, tmp_path):
    with pytest.raises(TrainingError, match=next(iter(wrong))):
        train("ppo", "CartPole-v1", out=tmp_path / "run", **{"steps": 40, **SMALL, **wrong})

    assert not list(tmp_path.iterdir())


def test_a_checkpoint_alone_is_no_run_to_resume(tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL).close()
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(TrainingError, match="the parent directory"):
        resume(tmp_path / "checkpoint", steps=80, progress=False)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_directory_with_a_run_is_not_written_over(tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL).close()
    before = (tmp_path / "metrics.jsonl").read_bytes()

    with pytest.raises(TrainingError, match="--resume"):
        train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL)

    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_an_environment_that_a_function_makes_needs_the_setup_to_resume(tmp_path):
    options = {name: value for name, value in SMALL.items() if name != "progress"}
    setup = Setup.of(PPOConfig(gamma=0.9), lambda: gym.make("CartPole-v1"), **options)
    train(setup.algorithm, setup.env, steps=40, out=tmp_path, **SMALL).close()

    with pytest.raises(TrainingError, match="setup="):
        resume(tmp_path, progress=False)
    with resume(tmp_path, steps=80, setup=setup, progress=False) as training:
        assert training.learner.config.gamma == 0.9


def test_checkpoints_of_something_else_are_rejected(tmp_path):
    save_state(tmp_path / "other", {"format": "something"})

    with pytest.raises(TrainingError, match="'something'"):
        load_training(tmp_path / "other")
    with pytest.raises(CheckpointError):
        load_training(tmp_path / "nothing")


def test_saving_and_loading_keeps_what_was_evaluated(tmp_path):
    with train("ppo", "CartPole-v1", steps=80, **SMALL) as training:
        save_training(tmp_path / "saved", training)
        with load_training(tmp_path / "saved") as loaded:
            assert loaded.evaluate(4) == training.evaluate(4)


@pytest.mark.parametrize(("missing", "extra"), [("safetensors", "train"), ("matplotlib", "plot")])
def test_without_the_extra_a_run_still_trains_and_says_what_is_missing(missing, extra, tmp_path, monkeypatch, capsys):
    for name in [missing, *(name for name in sys.modules if name.startswith(f"{missing}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, f"{missing}.torch", None)
    monkeypatch.setitem(sys.modules, f"{missing}.figure", None)

    with train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL) as training:
        assert training.steps >= 40

    assert f"episodia[{extra}]" in capsys.readouterr().err
    assert lines_of(tmp_path)


def test_progress_without_a_terminal_is_lines_of_text():
    stream = io.StringIO()
    with Progress(steps=80, stream=stream) as progress:
        progress(RECORD)
        progress({**RECORD, "steps": 60})
        progress({**RECORD, "steps": 80, "return_mean": math.nan})

    lines = stream.getvalue().splitlines()

    assert len(lines) == 2  # the first, and the last
    assert "40 of 80" in lines[0]
    assert "return 20.0, policy loss 0.5" in lines[0]
    assert "return -" in lines[1]


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_is_a_bar():
    stream = _Terminal()
    with Progress(steps=80, stream=stream) as progress:
        progress({**RECORD, "steps": 80})

    assert "80.0/80.0" in stream.getvalue()
    assert "return 20.0" in stream.getvalue()


LONG = {"value_loss": 12.34, "entropy": 0.5543, "steps_per_s": 8410.0, "return_mean": 120.3, "policy_loss": -0.0123}


def test_a_bar_with_all_losses_goes_into_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = _Terminal()
    with Progress(steps=100_000, stream=stream) as progress:
        progress({**RECORD, **LONG, "steps": 26_100})

    assert "return 120.3 policy -0.012 value 12 entropy 0.55" in stream.getvalue()


def test_a_bar_that_goes_beyond_its_end_is_full():
    stream = _Terminal()
    with Progress(steps=80, stream=stream) as progress:
        for steps in (40, 85):
            progress({**RECORD, "steps": steps})

    assert "80.0/80.0" in stream.getvalue()
    assert "/?" not in stream.getvalue()


def test_a_terminal_without_a_width_gets_lines(monkeypatch):
    stream = _Terminal()
    monkeypatch.setattr(stream, "fileno", lambda: 0)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    with Progress(steps=80, stream=stream) as progress:
        progress(RECORD)

    assert stream.getvalue().startswith("step ")


class _Gone(io.StringIO):
    """A pipe whose reader has gone."""

    def write(self, text):
        raise BrokenPipeError


class _TerminalGone(_Gone):
    wrote = False

    def isatty(self):
        return True

    def write(self, text):
        if self.wrote:
            raise BrokenPipeError
        self.wrote = True
        return len(text)


@pytest.mark.parametrize("stream", [_Gone(), _TerminalGone()], ids=type)
def test_who_cannot_be_shown_anything_loses_nothing(stream):
    with Progress(steps=80, stream=stream) as progress:
        for steps in (20, 40, 80):
            progress({**RECORD, "steps": steps, "num_env_restarts": 1})

    assert stream.getvalue() == ""


def test_without_anywhere_to_show_it_a_run_still_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)

    with train("ppo", "CartPole-v1", steps=40, out=tmp_path, **{**SMALL, "progress": True}) as training:
        assert training.steps >= 40


def test_failed_environments_are_told_of_once():
    stream = io.StringIO()
    with Progress(steps=80, stream=stream) as progress:
        for steps in (20, 40, 80):
            progress({**RECORD, "steps": steps, "num_env_restarts": 1})

    assert stream.getvalue().count("An environment failed") == 1


def test_without_tqdm_a_terminal_gets_lines(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = _Terminal()
    with Progress(steps=80, stream=stream) as progress:
        progress(RECORD)

    assert stream.getvalue().startswith("step ")


def test_records_survive_the_file(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    records = [RECORD, {**RECORD, "iteration": 2, "return_mean": math.nan}]
    for record in records:
        file(record)

    found = file.read()

    assert found[0] == RECORD
    assert math.isnan(found[1]["return_mean"])


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b'{"iteration": 3}',
        b'{"iteration": Infinity, "steps": 3, "return_mean": 1.0}',
        b'{"iteration": 1, "steps": 3, "return_mean": "x"}',
        b'{"iteration": 1, "steps": 3}',
        b"\xff\xfe",
        b"[" * 10**5,
    ],
)
def test_a_line_that_is_not_record_is_named(line, tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(line + b"\n")

    with pytest.raises(TrainingError, match="line 1"):
        MetricsFile(tmp_path / "metrics.jsonl").read()


def test_metrics_that_are_not_file_are_named(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    file = MetricsFile(tmp_path / "metrics.jsonl")

    for use in (file.read, lambda: file(RECORD), lambda: file.keep_until(3)):
        with pytest.raises(TrainingError, match=r"metrics.jsonl: found that the file cannot be"):
            use()


def test_the_curve_has_a_point_for_each_update_and_a_line_at_the_target():
    figure = learning_curve([RECORD, {**RECORD, "steps": 80}], target=475.0)

    curve, target = figure.axes[0].get_lines()

    assert list(curve.get_xdata()) == [40, 80]
    assert set(target.get_ydata()) == {475.0}


def test_without_matplotlib_the_curve_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(MissingExtraError, match=r"episodia\[plot\]"):
        learning_curve([RECORD])


def test_the_names_of_the_files_are_those_of_the_docs():
    assert (run_directory.METRICS_NAME, run_directory.CURVE_NAME) == ("metrics.jsonl", "learning_curve.png")
