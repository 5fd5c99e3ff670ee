"""F1, F3, F4: workers killed or stopped at random times, and environments that raise at random, lose only what is counted."""

import itertools
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from functools import partial

import numpy as np
import pytest

from episodia.env_runners import SingleAgentEnvRunner
from interrupts import Certified, assert_right

NUM_ENVS = 4


class Sent:
    """Sends a signal to a random worker, again and again, from another thread while the context is open."""

    def __init__(self, number, signum, pause_s):
        self.number, self._signum, self._pause_s = number, signum, pause_s
        self.times, self._thread = [], threading.Thread(target=self._send)

    def _send(self):
        chosen = random.Random(0)
        while len(self.times) < self.number:
            time.sleep(self._pause_s * chosen.random())
            workers = [child for child in multiprocessing.active_children() if child.is_alive()]
            if workers:
                os.kill(chosen.choice(workers).pid, self._signum)
                self.times.append(time.monotonic())

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._thread.join()

    @property
    def is_busy(self):
        return self._thread.is_alive()


def played_under(number, signum, pause_s, **settings):
    """Play until so many signals were sent; return all chunks, the metrics and how long the slowest call took."""
    chunks, slowest_s = [], 0.0
    with SingleAgentEnvRunner(
        Certified, num_envs=NUM_ENVS, seed=0, vectorization="async", max_restarts=number + 1, **settings
    ) as runner:
        with Sent(number, signum, pause_s) as sent:
            while sent.is_busy:
                begun = time.monotonic()
                chunks.extend(runner.sample(num_timesteps=40))
                slowest_s = max(slowest_s, time.monotonic() - begun)
        chunks.extend(runner.sample(num_timesteps=40))
        return chunks, runner.get_metrics(), slowest_s


def assert_losses_are_counted(chunks, metrics, number):
    steps, done = assert_right(chunks)
    assert metrics.num_env_steps == sum(steps.values())
    assert metrics.num_episodes == len(done)
    assert metrics.num_episodes_dropped <= metrics.num_env_restarts <= number


@pytest.mark.parametrize("number", [8, pytest.param(1000, marks=pytest.mark.slow)])
def test_f1_workers_that_are_killed_at_random_times_lose_only_their_own_episodes(number):
    chunks, metrics, slowest_s = played_under(number, signal.SIGKILL, 0.3)

    assert_losses_are_counted(chunks, metrics, number)
    # A worker may be killed twice before it is replaced.
    assert metrics.num_env_restarts > number / 2
    assert slowest_s < 60


@pytest.mark.slow
def test_f3_fifty_workers_that_are_stopped_at_random_times_are_replaced():
    chunks, metrics, slowest_s = played_under(50, signal.SIGSTOP, 2.0, step_timeout_s=1.0)

    assert_losses_are_counted(chunks, metrics, 50)
    assert metrics.num_env_restarts > 25
    assert slowest_s < 60


class Unlucky(Certified):
    """Raises in one of a hundred steps, and counts it; each of its episodes has another uid."""

    def __init__(self, counts, uids):
        super().__init__()
        self._counts, self._uids, self._dice = counts, uids, np.random.default_rng(next(uids))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._uid = next(self._uids)
        return self._seen(), {}

    def step(self, action):
        if self._dice.random() < 0.01:
            self._counts["failures"] += 1
            raise RuntimeError("bad luck")
        self._counts["steps"] += 1
        return super().step(action)


@pytest.mark.parametrize("num_steps", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_f4_failures_in_one_step_of_a_hundred_cost_one_episode_each(num_steps):
    counts, returned, begun = Counter(), 0, None
    make = partial(Unlucky, counts, itertools.count())
    with SingleAgentEnvRunner(make, num_envs=64, seed=0, max_restarts=10**6) as runner:
        while returned < num_steps:
            chunks = runner.sample(num_timesteps=5_000)
            begun, _ = assert_right(chunks, begun)
            returned += int(chunks.lengths.sum())
        metrics = runner.get_metrics()

    assert metrics.num_env_restarts == counts["failures"] > num_steps / 200
    assert metrics.num_episodes_dropped <= counts["failures"]
    assert metrics.num_env_steps == returned == counts["steps"] - metrics.num_env_steps_dropped
