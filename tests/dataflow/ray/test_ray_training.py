"""Trainings whose runners and learners live in Ray: the same run as in process, which goes on elsewhere."""

import json
import os
import signal

import pytest

from episodia.dataflow import RayEngine
from episodia.errors import CheckpointError, TrainingError
from episodia.training import Setup, Training, resume, train
from ray_objects import are_gone, pid_of

SMALL = {"num_envs": 2, "num_timesteps": 128, "num_epochs": 2, "minibatch_size": 64, "progress": False}
TIMES = ("_s", "time", "per_second")


def records(training):
    return [{name: value for name, value in record.items() if not name.endswith(TIMES)} for record in training.history]


def assert_close(found, expected, rel):
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert mine.keys() - {"runners/broken_off"} == other.keys()  # a checkpoint has begun new episodes
        for name in other.keys() - {"explained_variance"}:
            assert mine[name] == pytest.approx(other[name], rel=rel, abs=1e-6, nan_ok=True), name


def test_ppo_on_ray_with_two_learners_is_ppo_in_process_and_goes_on_there(tmp_path):
    workers = {"num_runners": 2, "engine": "ray", "num_learners": 2}
    with train("ppo", "CartPole-v1", steps=256, out=tmp_path / "ray", **workers, **SMALL) as training:
        assert training.learner.num_learners == 2
        on_ray = records(training)
    with train("ppo", "CartPole-v1", steps=256, num_runners=2, **SMALL) as training:
        in_process = records(training)
    with resume(tmp_path / "ray", steps=384, num_runners=3, engine="local", num_learners=1, progress=False) as training:
        assert training.runner.num_runners == 3
        assert training.steps >= 384
        assert training.history[-1]["runners/requested"] == 2 + 2 + 3

    assert_close(on_ray, in_process, rel=1e-3)
    lines = (tmp_path / "ray" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == len(map_to_iterations(lines)) == 3


def map_to_iterations(lines):
    return {json.loads(line)["iteration"] for line in lines}


def test_on_ray_with_one_learner_the_run_is_that_in_process_bit_for_bit():
    runs = []
    for engine in ("ray", "local"):
        with train("ppo", "CartPole-v1", steps=256, num_runners=2, engine=engine, **SMALL) as training:
            runs.append((records(training), training.learner.get_weights()["default_policy"]))

    assert runs[0][0] == runs[1][0]
    assert all((tensor == runs[1][1][name]).all() for name, tensor in runs[0][1].items())


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "dqn", "num_learners": 2, "engine": "threads"},
        {"algorithm": "impala", "num_learners": 2, "engine": "threads"},
        {"algorithm": "ppo", "address": "auto"},
        {"algorithm": "ppo", "num_learners": 0},
    ],
)
def test_workers_that_cannot_be_are_rejected(options):
    algorithm = options.pop("algorithm")
    with pytest.raises(TrainingError):
        train(algorithm, "CartPole-v1", steps=1, progress=False, **options)


def test_apex_on_ray_goes_on_when_a_shard_of_replay_is_killed_and_then_in_process():
    small = {"num_envs": 2, "num_timesteps": 32, "warm_up": 40, "batch_size": 16, "num_shards": 2}
    with Training.of(Setup.of("apex", "CartPole-v1", num_runners=2, engine="ray", **small)) as training:
        training.run(steps=200)
        os.kill(pid_of(training.updating.shards[0].buffer._worker), signal.SIGKILL)
        training.run(steps=600)
        last, state = training.history[-1], training.get_state()
    with Training.of(Setup.of("apex", "CartPole-v1", num_runners=2, engine="local", **small)) as resumed:
        resumed.set_state(state)
        resumed.run(steps=last["steps"] + 100)

    assert last["runners/shards_died"] == 1
    assert last["runners/shard_steps_lost"] >= 20
    assert len(resumed.history) >= 3


def test_a_disk_that_is_full_at_a_checkpoint_leaves_the_earlier_one_and_no_process(tmp_path, monkeypatch):
    pids, start = [], RayEngine.start

    def full(*_):
        raise OSError(28, "No space left on device")

    def fill_disk(_):
        monkeypatch.setattr(os, "fsync", full)

    def started(engine, make):
        worker = start(engine, make)
        pids.append(pid_of(worker))
        return worker

    monkeypatch.setattr(RayEngine, "start", started)
    options = {"num_runners": 2, "engine": "ray", "checkpoint_every": 128, "out": tmp_path / "run", **SMALL}
    with pytest.raises(CheckpointError, match="No space left"):
        train("ppo", "CartPole-v1", steps=1000, callbacks=[fill_disk], **options)
    monkeypatch.undo()

    assert len(pids) == 2
    assert are_gone(pids)
    with resume(tmp_path / "run", steps=128, engine="local", progress=False) as training:
        assert training.steps >= 128
