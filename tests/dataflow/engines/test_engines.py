"""Engines follow one protocol, and faulty ones are found."""

import threading
import time

import pytest

from episodia.dataflow import LocalEngine, ThreadEngine
from episodia.errors import SubjectError, WorkerDiedError
from episodia.testing import SimulatedEngine, check_engine
from faulty_engines import FAULTY_ENGINES

ENGINES = (LocalEngine, ThreadEngine, SimulatedEngine)


class Waiter:
    """An object whose method waits until it may go on."""

    def __init__(self, gate):
        self.gate = gate
        self.is_closed = False

    def wait(self):
        self.gate.wait(10)
        return "went on"

    def close(self):
        self.is_closed = True


@pytest.mark.parametrize("make", ENGINES)
def test_each_engine_follows_the_laws(make):
    check_engine(make)


@pytest.mark.parametrize("make", FAULTY_ENGINES)
def test_faulty_engines_break_a_law(make):
    with pytest.raises(AssertionError):
        check_engine(make)


def test_something_else_than_an_engine_is_rejected():
    with pytest.raises(SubjectError, match="expected an `Engine`"):
        check_engine(list)


def test_local_calls_run_when_somebody_waits():
    ran = []
    engine = LocalEngine()
    call = engine.start(lambda: ran).call("append", 1)

    assert (engine.wait([call], 0), ran) == ([], [])
    assert engine.wait([call]) == [call]
    assert ran == [1]


def test_an_interrupt_of_a_local_call_is_raised_and_the_call_does_not_run_again():
    class Interrupted:
        def play(self):
            raise KeyboardInterrupt

    engine = LocalEngine()
    call = engine.start(Interrupted).call("play")
    with pytest.raises(KeyboardInterrupt):
        engine.wait([call])

    with pytest.raises(WorkerDiedError, match="interrupted"):
        call.result()


def test_threads_work_at_the_same_time():
    gate = threading.Event()
    with ThreadEngine() as engine:
        waiting = engine.start(lambda: Waiter(gate)).call("wait")
        opening = engine.start(lambda: gate).call("set")

        assert engine.wait([waiting, opening], 10)
        assert engine.wait([waiting], 10)[0].result() == "went on"


def test_a_hung_thread_is_given_up_at_once_and_its_answer_is_dropped():
    gate, waiter = threading.Event(), []
    with ThreadEngine() as engine:
        worker = engine.start(lambda: waiter.append(Waiter(gate)) or waiter[0])
        call = worker.call("wait")
        begun = time.monotonic()
        worker.kill()

        with pytest.raises(WorkerDiedError):
            engine.wait([call], 10)[0].result()
        assert time.monotonic() - begun < 5
        gate.set()
    with pytest.raises(WorkerDiedError):
        call.result()
    assert waiter[0].is_closed


def test_the_same_seed_simulates_the_same_disasters():
    def history(seed):
        engine = SimulatedEngine(seed, p_die=0.2, p_hang=0.1)
        workers = [engine.start(list) for _ in range(3)]
        for _ in range(20):
            for worker in workers:
                engine.wait([worker.call("copy")], 5.0)
        return engine.now(), engine.deaths, engine.hangs

    assert history(1) == history(1)
    assert history(1) != history(2)
    assert history(1)[1] > 0


def test_a_simulated_call_that_hangs_ends_when_its_worker_is_killed():
    engine = SimulatedEngine(0, p_hang=1.0)
    worker = engine.start(list)
    call = worker.call("copy")

    assert engine.wait([call]) == []
    worker.kill()
    with pytest.raises(WorkerDiedError):
        engine.wait([call])[0].result()
    assert engine.num_workers == 0
