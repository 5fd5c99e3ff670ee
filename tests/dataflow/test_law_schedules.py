"""Whatever dies or hangs, also after saving and resuming, each chunk comes once, all counters add up, branches of flows see the
same, and no version of the weights goes back."""

import os
from dataclasses import replace

import pytest

from episodia.dataflow import RunnerGroup
from episodia.dataflow.kept_deliveries import held_from
from episodia.dataflow.seats import Seats
from episodia.errors import EpisodiaError
from episodia.testing import SimulatedEngine
from scheduled_groups import FakeRunner, Schedule

SCHEDULES = int(os.environ.get("EPISODIA_SCHEDULES", "5000"))


def run_schedules(seeds):
    died = hung = late = 0
    for seed in seeds:
        try:
            counts = Schedule(seed).run().group.counts
        except BaseException as error:
            error.add_note(f"schedule {seed}")
            raise
        died, hung, late = died + counts["died"], hung + counts["hung"], late + counts["late"]
    return died, hung, late


def test_each_chunk_comes_once_in_thousands_of_schedules():
    died, hung, late = run_schedules(range(SCHEDULES))

    assert min(died, hung, late) > SCHEDULES / 5


@pytest.mark.slow
def test_each_chunk_comes_once_in_half_a_million_schedules():
    died, hung, late = run_schedules(range(10**6, 10**6 + 500_000))

    assert min(died, hung, late) > 100_000


# --- Faults that the laws must find ---------------------------------------------------------------------------------


def laws_are_broken(engine_of=SimulatedEngine):
    for seed in range(200):
        try:
            Schedule(seed, engine_of).run()
        except (AssertionError, EpisodiaError):
            return True
    return False


def wrapped(engine, change):
    """Let `change(worker, outcome)` replace each outcome before it is settled."""
    run = engine._run

    def changed_run(worker):
        call = worker.queue[0]
        run(worker)
        if call.outcome.error is None:
            call.outcome = change(worker, call)

    engine._run = changed_run
    return engine


def test_answers_that_come_twice_are_found():
    def engine_of(*args, **options):
        before = {}

        def change(worker, call):
            if call.asked[0] != "sample":
                return call.outcome
            last, before[worker] = before.get(worker), call.outcome
            return last or call.outcome

        return wrapped(SimulatedEngine(*args, **options), change)

    assert laws_are_broken(engine_of)


def test_answers_of_runners_that_were_given_up_are_found():
    def engine_of(*args, **options):
        answers = []

        def change(_, call):
            if call.asked[0] != "sample":
                return call.outcome
            answers.append(call.outcome)
            return answers[0] if len(answers) == 9 else call.outcome

        return wrapped(SimulatedEngine(*args, **options), change)

    assert laws_are_broken(engine_of)


def test_weights_that_are_lost_on_the_way_are_found():
    def engine_of(*args, **options):
        engine = SimulatedEngine(*args, **options)
        share, shared = engine.share, []

        def lossy(value):
            if "weight" not in value:
                return share(value)
            shared.append(share(value))
            return shared[0]

        engine.share = lossy
        return engine

    assert laws_are_broken(engine_of)


def test_a_group_that_forgets_what_was_lost_is_found(monkeypatch):
    replace = Seats.replace

    def forgetful(self, seat, why, cause=None):
        seat.flights.clear()
        replace(self, seat, why, cause)

    monkeypatch.setattr(Seats, "replace", forgetful)

    assert laws_are_broken()


def test_a_group_whose_successors_play_the_same_episodes_is_found(monkeypatch):
    monkeypatch.setattr("episodia.dataflow.runner_group.seed_of", lambda seed, index, _: 100 * seed + index)

    assert laws_are_broken()


def test_a_group_that_asks_again_what_may_have_been_played_is_found(monkeypatch):
    def asks_too_often(self, wanted):
        for seat in self._seats:
            self._ask(seat, wanted)

    monkeypatch.setattr("episodia.dataflow.runner_group.RunnerGroup.request", asks_too_often)

    assert laws_are_broken()


@pytest.mark.parametrize("name", ["kept", "metrics"])
def test_a_group_whose_state_forgets_what_has_arrived_is_found(monkeypatch, name):
    get_state, empty = RunnerGroup.get_state, RunnerGroup(lambda seed: FakeRunner(seed, []), 1).get_state()[name]
    monkeypatch.setattr(RunnerGroup, "get_state", lambda self: {**get_state(self), name: empty})

    assert laws_are_broken()


def test_a_resumed_group_that_goes_on_in_old_episodes_is_found(monkeypatch):
    monkeypatch.setattr(FakeRunner, "set_state", lambda *_: None)

    assert laws_are_broken()


def test_a_flow_whose_branches_hold_something_else_when_it_is_resumed_is_found(monkeypatch):
    monkeypatch.setattr("episodia.dataflow.flows.duplicate.held_from", lambda held: replace(held_from(held), number=-1))

    assert laws_are_broken()
