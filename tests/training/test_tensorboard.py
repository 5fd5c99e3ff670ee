"""TensorBoard reads what a run has written for it."""

from __future__ import annotations

import json
import math
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer
from tensorboard.summary.writer.event_file_writer import AtomicCounter

from episodia.errors import MissingExtraError, TrainingError
from episodia.training import resume, train
from episodia.training.tensorboard_log import TensorBoardLog

SMALL = {"num_envs": 2, "num_timesteps": 40, "num_epochs": 1, "hidden": (8,), "progress": False}


def curves_in(directory):
    """Return all curves as TensorBoard itself reads them: points (step, value) by name."""
    found = EventAccumulator(str(directory)).Reload()
    return {name: [(point.step, point.value) for point in found.Scalars(name)] for name in found.Tags()["scalars"]}


def test_a_run_has_a_curve_of_each_number_over_the_steps(tmp_path):
    train("ppo", "CartPole-v1", steps=120, out=tmp_path, tensorboard=True, **SMALL).close()

    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    curves = curves_in(tmp_path / "tensorboard")

    assert set(curves) == set(lines[-1]) - {"steps", "iteration", "crc32"}
    for name, points in curves.items():
        expected = [(line["steps"], line[name]) for line in lines if line.get(name) is not None]
        assert [step for step, _ in points] == [step for step, _ in expected]
        assert [value for _, value in points] == pytest.approx([value for _, value in expected], rel=1e-6)


def test_a_resumed_run_goes_on_with_its_curves_and_hides_what_was_lost(tmp_path):
    with train("ppo", "CartPole-v1", steps=80, out=tmp_path, tensorboard=True, **SMALL) as first:
        saved = first.steps
    with TensorBoardLog(tmp_path / "tensorboard", steps=saved) as lost:
        lost({"steps": saved + 1, "entropy": 99.0})

    with resume(tmp_path, steps=160, tensorboard=True, progress=False) as second:
        expected = [(record["steps"], pytest.approx(record["entropy"])) for record in second.history]

    assert curves_in(tmp_path / "tensorboard")["entropy"] == expected


def test_parts_of_a_run_that_begin_in_one_second_are_read_in_their_order(tmp_path, monkeypatch):
    # Names of event files end with a number without leading zeros, so "10" is sorted before "9".
    monkeypatch.setattr(event_file_writer, "_global_uid", AtomicCounter(9))
    for steps in range(2):
        with TensorBoardLog(tmp_path, steps=steps) as log:
            log({"steps": steps + 1, "loss": float(steps)})

    assert curves_in(tmp_path)["loss"] == [(1, 0.0), (2, 1.0)]


def test_numbers_that_are_not_finite_are_left_out(tmp_path):
    with TensorBoardLog(tmp_path) as log:
        log({"steps": 1, "return_mean": math.nan, "loss": 2.0})

    assert curves_in(tmp_path) == {"loss": [(1, 2.0)]}


def test_without_tensorboard_the_extra_is_named_before_anything_is_trained(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ["tensorboard", *(name for name in sys.modules if name.startswith("tensorboard."))]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(MissingExtraError, match=r"episodia\[tensorboard\]"):
        train("ppo", "CartPole-v1", steps=40, out=tmp_path, tensorboard=True, **SMALL)
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_needs_a_place_for_its_files():
    with pytest.raises(TrainingError, match="`out=`"):
        train("ppo", "CartPole-v1", steps=40, tensorboard=True, **SMALL)
