"""Workers in Ray actors: the laws of engines, deaths, hangs, errors, and a clean end."""

import importlib
import os
import signal
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia.dataflow import RayEngine
from episodia.errors import EngineError, MissingExtraError, WorkerDiedError
from episodia.testing import check_engine
from ray_objects import Subject, are_gone, is_alive

PATIENCE_S = 60


def ended(engine, call):
    assert engine.wait([call], PATIENCE_S) == [call]
    return call


def ask(engine, worker, method, *arguments):
    return ended(engine, worker.call(method, *arguments)).result()


def test_it_follows_the_laws_of_engines():
    check_engine(lambda: RayEngine(shows_output=False))


def test_a_death_is_noticed_and_only_its_own_calls_end(engine):
    worker, other = engine.start(Subject), engine.start(Subject)
    pids = [ask(engine, one, "pid") for one in (worker, other)]
    call, untouched = worker.call("sleep", 600), other.call("sleep", 0.1)
    os.kill(pids[0], signal.SIGKILL)
    ended(engine, call)  # in 0.03 s on a quiet machine, see benchmarks/scale_out.py

    with pytest.raises(WorkerDiedError):
        call.result()
    with pytest.raises(WorkerDiedError):
        ask(engine, worker, "pid")
    assert ended(engine, untouched).result() == "awake"


@pytest.mark.parametrize("method", ["exit", "end"])
def test_a_worker_that_exits_has_died(engine, method):
    with pytest.raises(WorkerDiedError):
        ask(engine, engine.start(Subject), method)


def test_a_stopped_worker_is_seen_by_a_time_limit_and_can_be_killed(engine):
    worker = engine.start(Subject)
    pid = ask(engine, worker, "pid")
    os.kill(pid, signal.SIGSTOP)
    call = worker.call("pid")

    assert engine.wait([call], 0.2) == []
    worker.kill()
    with pytest.raises(WorkerDiedError):
        ended(engine, call).result()
    assert are_gone([pid])


def test_an_error_of_a_worker_arrives_with_its_own_traceback(shared_engine, subject):
    with pytest.raises(LookupError, match="of its own") as found:
        ask(shared_engine, subject, "fail")

    text = str(found.value.__cause__)
    assert "in the worker" in text
    assert "ray_objects.py" in text
    assert 'raise LookupError("of its own")' in text


def test_errors_and_results_that_cannot_travel_say_so_and_the_worker_lives_on(shared_engine, subject):
    with pytest.raises(EngineError, match="StrangeError: this and that"):
        ask(shared_engine, subject, "fail_strangely")
    with pytest.raises(EngineError, match="cannot load or send"):
        ask(shared_engine, subject, "unpicklable")
    assert ask(shared_engine, subject, "pid") > 0


@pytest.fixture
def drivers_module(tmp_path, monkeypatch):
    """A module that the driver has imported, and nobody else can import any more."""
    path = tmp_path / "only_in_the_driver.py"
    path.write_text("class Game(list):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("only_in_the_driver")
    path.unlink()
    yield module
    del sys.modules["only_in_the_driver"]


def test_code_that_workers_cannot_import_is_an_error_that_says_what_to_do(engine, drivers_module):
    worker = engine.start(drivers_module.Game)

    for _ in range(2):
        with pytest.raises(EngineError, match=r"No module named 'only_in_the_driver'.*runtime_env="):
            ask(engine, worker, "copy")


def test_environments_that_only_the_driver_has_registered_are_found(engine):
    class Own(type(gym.make("CartPole-v1").unwrapped)):
        """An environment of this test."""

    gym.register("OnlyHere-v0", Own)
    try:
        assert ask(engine, engine.start(Subject), "make", "OnlyHere-v0") == "Own"
    finally:
        del gym.registry["OnlyHere-v0"]


def test_an_environment_that_a_worker_cannot_import_says_what_to_do(engine, drivers_module):
    gym.register("DriversGame-v0", drivers_module.Game)
    try:
        with pytest.raises(EngineError, match=r"environment 'DriversGame-v0'.*No module named.*runtime_env="):
            ask(engine, engine.start(Subject), "make", "DriversGame-v0")
    finally:
        del gym.registry["DriversGame-v0"]


def test_workers_use_as_many_torch_threads_as_the_driver(shared_engine, subject):
    before = torch.get_num_threads()
    try:
        for count in (2, 1):
            torch.set_num_threads(count)
            assert ask(shared_engine, subject, "threads") == count
    finally:
        torch.set_num_threads(before)


def test_results_are_read_without_a_copy(shared_engine, subject):
    found = ask(shared_engine, subject, "zeros", 100_000)

    assert not found.flags.writeable
    assert not found.flags.owndata
    assert np.array_equal(found, np.zeros(100_000))


def test_a_spare_becomes_the_next_worker():
    with RayEngine(spares=1, shows_output=False) as own:
        first = own.start(Subject)
        ask(own, first, "pid")
        spare = own._spares[0]
        assert own.wait([], 0) == []
        second = own.start(Subject)

        assert second._actor is spare
        assert ask(own, second, "pid") != ask(own, first, "pid")


def test_an_idle_worker_that_is_killed_closes_its_object(engine):
    worker = engine.start(Subject)
    pids = [ask(engine, worker, "pid"), ask(engine, worker, "begin_child")]
    worker.kill()

    assert are_gone(pids)


def test_nothing_is_left_after_closing():
    own = RayEngine(shows_output=False, spares=1)
    idle, busy = own.start(Subject), own.start(Subject)
    pids = [ask(own, worker, "pid") for worker in (idle, busy)]
    child = ask(own, idle, "begin_child")
    busy.call("sleep", 600)
    own.close()
    own.close()

    assert are_gone([*pids, child])
    assert is_alive(os.getpid())
    with pytest.raises(EngineError, match="closed"):
        own.start(Subject)


def test_a_worker_that_asks_for_more_than_there_is_warns():
    with (
        RayEngine(shows_output=False, resources={"moon_dust": 1}) as own,
        pytest.warns(UserWarning, match="needs {'moon_dust': 1}"),
    ):
        own.start(Subject)


@pytest.mark.parametrize(
    "arguments",
    [{"max_restarts": 3}, {"address": "ray://there:1"}, {"address": 6379}, {"spares": -1}, {"shows_output": 1}],
)
def test_wrong_arguments_are_rejected(arguments):
    with pytest.raises(EngineError):
        RayEngine(**arguments)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"spare": 1}, "Did you mean `spares`"),
        ({"num_gpu": 1}, "Did you mean `num_gpus`"),
        ({"num_cpus": -1}, "num_cpus cannot be negative"),
    ],
)
def test_wrong_options_of_ray_are_rejected_before_a_worker_starts(options, remedy):
    with pytest.raises(EngineError, match=remedy):
        RayEngine(**options)


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(MissingExtraError, match=r"episodia\[ray\]"):
        RayEngine()


def test_an_engine_shows_how_it_was_made():
    assert repr(RayEngine("auto", spares=2, num_gpus=0.5)) == "RayEngine('auto', spares=2, num_gpus=0.5)"
    assert repr(RayEngine()) == "RayEngine()"
