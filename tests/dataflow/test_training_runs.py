"""Runs on disk: files, checkpoints, resuming; and what is shown."""

from __future__ import annotations

import io
import json
import math
import signal
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.connectors import ConstantSchedule, ExponentialSchedule, PiecewiseLinearSchedule, Schedule
from episodia.dataflow import Setup, StoppedBy, load_training, resume, save_training, train, training_runs
from episodia.dataflow.learning_curve import learning_curve
from episodia.dataflow.metrics_file import MetricsFile
from episodia.dataflow.progress import Progress
from episodia.errors import CheckpointError, EpisodiaError, MissingExtraError, TrainingError
from episodia.learners import AdaptiveKL, ClipByGlobalNorm, ClipByNorm, ClipByValue, OptimizerConfig, PPOConfig
from episodia.learners.config_codec import decoded
from episodia.state import save_state

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
    return {name: value for name, value in record.items() if name not in ("time_s", "steps_per_s")}


def test_a_run_leaves_metrics_a_picture_and_a_checkpoint(tmp_path):
    with train("ppo", "CartPole-v1", steps=120, out=tmp_path / "run", **SMALL) as training:
        lines = lines_of(tmp_path / "run")

    assert [line["iteration"] for line in lines] == [1, 2, 3]
    assert lines[-1]["steps"] == training.steps
    assert (tmp_path / "run" / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "checkpoint" / "manifest.json").is_file()


def test_a_resumed_run_equals_one_that_saved_and_went_on(tmp_path):
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
def test_numbers_that_are_none_are_named_before_anything_is_written(wrong, tmp_path):
    with pytest.raises(TrainingError, match=next(iter(wrong))):
        train("ppo", "CartPole-v1", out=tmp_path / "run", **{"steps": 40, **SMALL, **wrong})

    assert not list(tmp_path.iterdir())


def test_a_checkpoint_alone_is_no_run_to_resume(tmp_path):
    train("ppo", "CartPole-v1", steps=40, out=tmp_path, **SMALL).close()
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(TrainingError, match="the one that it is in"):
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


def test_a_setup_survives_being_plain_data():
    setup = Setup.of("a2c", "CartPole-v1", seed=3, gamma=0.9, hidden=[4, 4], recurrent="gru", num_envs=3)

    data = json.loads(json.dumps(setup.to_dict()))

    assert Setup.from_dict(data) == setup
    assert Setup.of("ppo", lambda: None).to_dict() is None


CONFIGS = {
    "no processors": {"gradient_processors": []},
    "processors": {"gradient_processors": (ClipByValue(2.0), ClipByNorm(1.0), ClipByGlobalNorm(0.5))},
    "a schedule": {"learning_rate": PiecewiseLinearSchedule([(0, 1e-3), (200, 1e-4)]), "entropy_coefficient": 0.01},
    "schedules": {"clip": ExponentialSchedule(0.2, 0.1, half_life=50), "value_coefficient": ConstantSchedule(0.3)},
    "an adaptive coefficient": {"kl_coefficient": AdaptiveKL(target=0.02), "clip": None},
    "optimizers": {
        "optimizers": [
            OptimizerConfig(components=("actor", "actor_head"), optimizer=torch.optim.SGD, options={"momentum": 0.5}),
            OptimizerConfig(
                components=("critic", "critic_head"),
                learning_rate=ConstantSchedule(0.01),
                options={"betas": (0.8, 0.9)},
            ),
        ]
    },
    "numbers of NumPy": {"gamma": np.float32(0.5), "burn_in": np.int64(0)},
}


@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS)
def test_a_run_with_any_config_of_the_library_goes_on_without_being_told(options, tmp_path):
    options = {**SMALL, "checkpoint_every": 80, **options}
    with (
        train("ppo", "CartPole-v1", steps=160, out=tmp_path / "whole", **options) as whole,
        train("ppo", "CartPole-v1", steps=80, out=tmp_path / "parts", **options),
        resume(tmp_path / "parts", steps=160, checkpoint_every=80, progress=False) as resumed,
    ):
        weights = [training.learner.get_weights()["default_policy"] for training in (whole, resumed)]
        assert resumed.setup.to_dict() == whole.setup.to_dict()

    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


class Steps(Schedule):
    extremes = (0.1, 0.1)

    def at(self, t):
        return 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_processors": [lambda gradients: gradients]},
        {"learning_rate": Steps()},
        {"optimizers": [OptimizerConfig(optimizer=lambda parameters, lr: torch.optim.Adam(parameters, lr=lr))]},
    ],
    ids=["a function", "a schedule of someone else", "an optimizer of someone else"],
)
def test_what_has_no_name_is_no_plain_data(options):
    assert Setup.of("ppo", "CartPole-v1", **options).to_dict() is None


JUNK_PARTS = {
    "an unknown part": {"part": "subprocess.Popen", "args": ["true"]},
    "no name": {"part": 3},
    "no part": {"limit": 3},
    "unknown arguments": {"part": "ClipByNorm", "limit": 1.0, "more": 2},
    "missing arguments": {"part": "ClipByNorm"},
    "a number out of range": {"part": "ClipByNorm", "limit": -1.0},
    "an unknown schedule": {"schedule": "os.system"},
    "missing arguments of a schedule": {"schedule": "ConstantSchedule"},
    "points that are none": {"schedule": "PiecewiseLinearSchedule", "points": 3},
    "an unknown optimizer": {"part": "OptimizerConfig", "optimizer": "Popen"},
    "options that are none": {"part": "OptimizerConfig", "options": 3},
}


@pytest.mark.parametrize("data", JUNK_PARTS.values(), ids=JUNK_PARTS)
def test_parts_of_a_config_that_are_none_are_refused(data):
    with pytest.raises(EpisodiaError, match="expected"):
        decoded([data])


@pytest.mark.parametrize("data", [{}, {"algorithm": "ppo"}, {"env": 1}])
def test_plain_data_of_something_else_is_no_setup(data):
    with pytest.raises(TrainingError, match="Setup"):
        Setup.from_dict(data)


def test_checkpoints_of_something_else_are_refused(tmp_path):
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

    assert "80/80" in stream.getvalue()
    assert "return 20.0" in stream.getvalue()


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


def test_a_line_that_is_no_record_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("[]\n")

    with pytest.raises(TrainingError, match="line 1"):
        MetricsFile(tmp_path / "metrics.jsonl").read()


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
    assert (training_runs.METRICS_NAME, training_runs.CURVE_NAME) == ("metrics.jsonl", "learning_curve.png")
