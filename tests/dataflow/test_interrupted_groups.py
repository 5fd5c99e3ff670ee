"""F10: Ctrl-C at any line of a group of runners loses only what is counted, and the group goes on."""

import signal
from functools import partial

import pytest

from episodia import SingleAgentEnvRunner
from episodia.dataflow import LocalEngine, RunnerGroup, ThreadEngine, episodes_of
from episodia.interrupts import uninterrupted
from episodia.modules import MLPActorCritic
from interrupts import Book, Certified, assert_right, interrupted_at

GOAL = {"num_timesteps": 14}


def make_runner(seed, books):
    books.append(Book())
    module = MLPActorCritic(Certified.observation_space, Certified.action_space)
    return SingleAgentEnvRunner(partial(Certified, books[-1]), module, num_envs=2, seed=seed)


def polled(group, lists):
    for _ in range(2):
        lists.append([group.poll(GOAL)])


def in_rounds(group, lists):
    lists.append(group.sample_round(**GOAL))


def sampled_through(make_engine, play, number, only):
    """Play four times, with a Ctrl-C in the second, and check what is returned; False if the Ctrl-C came too late."""
    books, lists = [], []
    with make_engine() as engine, RunnerGroup(partial(make_runner, books=books), 2, seed=1, engine=engine) as group:
        play(group, lists)
        _, place = interrupted_at(number, lambda: play(group, lists), only=only, by_signal=True)
        play(group, lists)
        play(group, lists)
        counts, metrics = group.counts.copy(), group.get_metrics()
        chunks = episodes_of(deliveries for found in lists for deliveries in found)
        num_steps, in_flight = sum(map(len, chunks)), group.in_flight
    if place is None:
        return False
    try:
        assert_right(chunks)
        assert metrics.num_env_steps == num_steps
        assert counts["requested"] == counts["delivered"] + counts["failed"] + counts["lost"] + in_flight
        assert counts["lost"] <= 1 >= counts["died"]
        waiting = counts["delivered"] - sum(map(len, lists))
        assert group.num_steps == num_steps + waiting * GOAL["num_timesteps"]
        played = sum(steps for book in books for steps in book.steps.values())
        assert counts["lost"] or in_flight or played == group.num_steps
    except AssertionError as error:
        raise AssertionError(f"after Ctrl-C at {place}, number {number}: {error}") from error
    return True


@pytest.mark.parametrize(("only", "stride"), [("dataflow", 29), ("", 1597)])
@pytest.mark.parametrize("play", [in_rounds, polled])
def test_f10_interrupts_of_local_groups_lose_only_what_is_counted(play, only, stride):
    number = 0
    while sampled_through(LocalEngine, play, number, only):
        number += stride

    assert number > 100


@pytest.mark.slow
@pytest.mark.parametrize(("only", "stride"), [("dataflow", 1), ("", 23)])
@pytest.mark.parametrize("play", [in_rounds, polled])
def test_f10_interrupts_at_each_line_of_local_groups_lose_only_what_is_counted(play, only, stride):
    test_f10_interrupts_of_local_groups_lose_only_what_is_counted(play, only, stride)


@pytest.mark.parametrize("play", [in_rounds, polled])
def test_f10_interrupts_of_groups_in_threads_lose_nothing(play):
    number = 0
    while sampled_through(ThreadEngine, play, number, "dataflow"):
        number += 31

    assert number > 50


def test_f10_what_ctrl_c_has_kept_from_being_returned_is_saved(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    make = partial(make_runner, books=[])
    with RunnerGroup(make, 2, seed=1) as group, RunnerGroup(make, 2, seed=1) as resumed:
        with monkeypatch.context() as patched:
            patched.setattr(RunnerGroup, "_given", interrupted)
            with pytest.raises(KeyboardInterrupt):
                group.sample(**GOAL)
        resumed.set_state(group.get_state())
        deliveries = resumed.sample_round(**GOAL)

        assert [(delivery.runner, delivery.number) for delivery in deliveries] == [(0, 0), (1, 0), (0, 1), (1, 1)]
        assert resumed.get_metrics().num_env_steps == resumed.num_steps == sum(map(len, episodes_of(deliveries)))


@pytest.mark.parametrize("depth", [1, 3])
def test_short_work_is_finished_before_ctrl_c_is_heard(depth):
    done = []

    def work(left):
        with uninterrupted():
            if left:
                work(left - 1)
            else:
                signal.raise_signal(signal.SIGINT)
            done.append(left)

    with pytest.raises(KeyboardInterrupt):
        work(depth)
    assert done == list(range(depth + 1))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
