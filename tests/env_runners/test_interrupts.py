"""F10: an interrupt at any line of `sample` leaves episodes that are right, and loses only what is counted."""

import time
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from episodia import EpisodeList
from episodia.env_runners.multi_agent_env_runner import MultiAgentEnvRunner
from episodia.env_runners.single_agent_env_runner import SingleAgentEnvRunner
from episodia.episodes.recorder.recorder import Recorder
from episodia.errors import EpisodeError
from episodia.modules import MLPActorCritic
from interrupts import (
    NUM_LANES,
    Book,
    Certified,
    CertifiedAgents,
    assert_agents_right,
    assert_nothing_lost,
    assert_right,
    interrupted_at,
    moments_of,
)

GOALS = {"steps": {"num_timesteps": 14}, "episodes": {"num_episodes": 4}}
MODULE = MLPActorCritic(Certified.observation_space, Certified.action_space)


def sampled_through(make, number, goal, check, **how):
    """Sample, with one interrupt in the second of four calls, and check all that is returned; False if it came too late."""
    book = Book()
    with make(book) as runner:
        chunks = [*runner.sample(num_timesteps=8)]
        found, place = interrupted_at(number, lambda: runner.sample(**goal), **how)
        chunks += found or EpisodeList()
        for following in (GOALS["steps"], goal):
            chunks += runner.sample(**following)
        ended = book.ended
        chunks += runner.sample(**GOALS["steps"])
        metrics = runner.get_metrics()
    if place is None:
        return False
    try:
        assert_nothing_lost(book, ended, *check(chunks), metrics)
    except AssertionError as error:
        raise AssertionError(f"after an interrupt at {place}, number {number}: {error}") from error
    return True


def vector_env(mode, book):
    return gym.vector.SyncVectorEnv([partial(Certified, book)] * NUM_LANES, autoreset_mode=mode)


SINGLE = {
    "random": lambda book: SingleAgentEnvRunner(partial(Certified, book), num_envs=NUM_LANES, seed=0),
    "module": lambda book: SingleAgentEnvRunner(partial(Certified, book), MODULE, num_envs=NUM_LANES, seed=0),
    "next step": lambda book: SingleAgentEnvRunner(partial(vector_env, AutoresetMode.NEXT_STEP, book), seed=0),
    "same step": lambda book: SingleAgentEnvRunner(partial(vector_env, AutoresetMode.SAME_STEP, book), seed=0),
    "disabled": lambda book: SingleAgentEnvRunner(partial(vector_env, AutoresetMode.DISABLED, book), seed=0),
    "delayed": lambda book: SingleAgentEnvRunner(partial(Certified, book), num_envs=NUM_LANES, seed=0, reward_delay=2),
}


def assert_law(make, goal, check, stride):
    number = 0
    while sampled_through(make, number, GOALS[goal], check):
        number += stride

    assert number > 200


def assert_law_at_each_line(make, goal, check):
    """Interrupt each line that runs, the first and the last time."""
    with make(Book()) as runner:
        runner.sample(num_timesteps=8)
        moments = moments_of(lambda: runner.sample(**GOALS[goal]))
    came = [sampled_through(make, number, GOALS[goal], check) for number in moments]

    assert len(came) > 1000
    assert sum(came) > 0.9 * len(came)  # what runs at first only is missing later


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind", SINGLE)
def test_f10_interrupts_of_synchronous_sampling_lose_nothing(kind, goal):
    assert_law(SINGLE[kind], goal, assert_right, 97)


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind", SINGLE)
def test_f10_interrupts_at_each_line_of_synchronous_sampling_lose_nothing(kind, goal):
    assert_law_at_each_line(SINGLE[kind], goal, assert_right)


MULTI = {
    "together": lambda book: MultiAgentEnvRunner(partial(CertifiedAgents, book), MODULE, num_envs=NUM_LANES, seed=0),
    "in turns": lambda book: MultiAgentEnvRunner(
        partial(CertifiedAgents, book, turns=True), MODULE, num_envs=NUM_LANES, seed=0
    ),
}


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind", MULTI)
def test_f10_interrupts_of_multi_agent_sampling_lose_nothing(kind, goal):
    assert_law(MULTI[kind], goal, assert_agents_right, {"steps": 797, "episodes": 241}[goal])


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("kind", MULTI)
def test_f10_interrupts_at_each_line_of_multi_agent_sampling_lose_nothing(kind, goal):
    assert_law_at_each_line(MULTI[kind], goal, assert_agents_right)


@pytest.mark.parametrize("goal", GOALS)
def test_f10_interrupts_at_byte_codes_of_the_recorder_lose_nothing(goal):
    numbers, how = range(0, 10**6, 311), {"opcodes": True, "only": "recorder"}

    assert not all(sampled_through(SINGLE["random"], number, GOALS[goal], assert_right, **how) for number in numbers)


def test_f10_interrupts_of_asynchronous_sampling_leave_episodes_that_are_right():
    chunks, places = [], []
    with SingleAgentEnvRunner(Certified, num_envs=NUM_LANES, seed=0, vectorization="async") as runner:
        for number in range(5, 2000, 131):
            found, place = interrupted_at(number, lambda: runner.sample(**GOALS["steps"]))
            chunks += found or EpisodeList()
            chunks += runner.sample(**GOALS["steps"])
            places.append(place)

    assert_right(chunks)
    assert sum(place is not None for place in places) > 5


def test_f10_interrupts_while_a_process_is_told_something_leave_no_answer_behind():
    chunks, places = [], set()
    with MultiAgentEnvRunner(CertifiedAgents, MODULE, num_envs=1, seed=0, vectorization="async") as runner:
        started = time.monotonic()
        for number in range(30):
            found, place = interrupted_at(number, lambda: runner.sample(num_timesteps=3), only="remote_agents")
            chunks += found or EpisodeList()
            chunks += runner.sample(num_timesteps=3)
            places.add(place)

    assert_agents_right(chunks)
    assert len(places) > 20
    assert time.monotonic() - started < 100  # less than a wait for an answer that was read already


def test_f10_a_callback_that_raises_at_the_end_of_a_sample_does_not_lose_it():
    calls = []

    def fail(**_):
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("mine")

    with SingleAgentEnvRunner("CartPole-v1", seed=0, callbacks=[{"on_sample_end": fail}]) as runner:
        with pytest.raises(KeyError, match="mine"):
            runner.sample(num_timesteps=20)
        steps = sum(map(len, runner.sample(num_timesteps=1)))

        assert steps == 20
        assert runner.get_metrics().num_env_steps == 20


def test_f10_a_recorder_that_was_interrupted_keeps_what_has_ended_and_asks_for_a_reset():
    recorder = Recorder(None, None, num_lanes=2, seed=0)
    ends = np.array([True, False]), np.zeros(2, bool)
    recorder.reset(np.zeros(2))
    recorder.step(np.ones(2), np.zeros(2), np.ones(2), *ends)
    recorder.reset(np.zeros(1), lanes=[0])
    number = 0
    while not recorder.is_broken:
        interrupted_at(number, lambda: recorder.step(np.ones(2), np.zeros(2), np.ones(2), *ends[::-1]), only="recorder")
        number += 1
    with pytest.raises(EpisodeError, match="Call `reset"):
        recorder.step(np.ones(2), np.zeros(2), np.ones(2), *ends)

    assert [(episode.id_, episode.is_terminated) for episode in recorder.take()] == [("0-0-0", True)]
    assert recorder.idle_lanes == [0, 1]
