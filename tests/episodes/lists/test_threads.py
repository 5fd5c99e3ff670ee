"""Several threads read one list of episodes: each sees what one thread alone sees."""

import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from episodia import EpisodeList
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvRunnerError
from scripted_envs import ScriptedEnv

NUM_THREADS = 4


@contextmanager
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def read_by_threads(*reads):
    """Let a thread each do one of `reads` at the same time, and return what they have read or raised."""
    results = [None] * len(reads)
    ready = threading.Barrier(len(reads))

    def work(number):
        ready.wait()
        try:
            results[number] = reads[number]()
        except Exception as error:  # noqa: BLE001  # shown by the test
            results[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(reads))]
    with frequent_switches():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


@pytest.fixture(scope="module")
def runner():
    with SingleAgentEnvRunner(lambda: ScriptedEnv(3, infos=True), num_envs=4, seed=0) as runner:
        yield runner


COLUMNS = ("obs", "actions", "rewards", "infos")


def columns_of(episodes):
    return {column: episodes.flat(column).values for column in COLUMNS[:3]}


def infos_of(episodes):
    return [episode.get_infos() for episode in episodes]


def read_all(episodes):
    windows = episodes.windows("obs", shifts=[-1, 0], fill=0.0).values
    return columns_of(episodes), windows, episodes.lengths, episodes.t_started, len(episodes), infos_of(episodes)


def flattened(found):
    if isinstance(found, dict):
        return [leaf for value in found.values() for leaf in flattened(value)]
    return [leaf for value in found for leaf in flattened(value)] if isinstance(found, (list, tuple)) else [found]


def assert_same_leaves(found, expected):
    assert not isinstance(found, Exception), found
    for mine, other in zip(flattened(found), flattened(expected), strict=True):
        np.testing.assert_array_equal(mine, other)


KINDS = {
    "recorded": lambda episodes: episodes,
    "forked": lambda episodes: episodes.forked(),
    "plain": lambda episodes: EpisodeList(list(episodes)),
    "forks of plain": lambda episodes: EpisodeList(list(episodes)).forked(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_read_one_list_see_what_one_thread_sees(runner, kind):
    for _ in range(10):
        episodes = KINDS[kind](runner.sample(num_timesteps=40))
        found = read_by_threads(*[lambda episodes=episodes: read_all(episodes)] * NUM_THREADS)

        for each in found:
            assert_same_leaves(each, read_all(episodes))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_get_the_same_episodes(runner, kind):
    for _ in range(20):
        episodes = KINDS[kind](runner.sample(num_timesteps=40))
        first, *others = read_by_threads(*[lambda episodes=episodes: list(episodes)] * NUM_THREADS)

        assert all(mine is other for rest in others for mine, other in zip(first, rest, strict=True))


def test_threads_that_read_infos_of_one_episode_lose_none(runner):
    for _ in range(20):
        episodes = runner.sample(num_timesteps=40)
        for episode in episodes:
            reads = [episode.get_infos, lambda episode=episode: episode[:].get_infos(), episode.get_infos]
            for infos in read_by_threads(*reads):
                assert [info["step"] for info in infos] == list(range(episode.t_started, episode.t + 1))


def test_a_runner_that_is_used_from_two_threads_raises():
    inside, done = threading.Event(), threading.Event()

    def wait(**_):
        inside.set()
        done.wait(10)

    with SingleAgentEnvRunner("CartPole-v1", seed=0, callbacks=[{"on_sample_end": wait}]) as runner:
        found = []
        thread = threading.Thread(target=lambda: found.append(runner.sample(num_timesteps=20)))
        thread.start()
        inside.wait(10)
        weights = {}
        uses = {
            "sample": lambda: runner.sample(num_timesteps=1),
            "evaluate": lambda: runner.evaluate(num_episodes=1),
            "get_metrics": runner.get_metrics,
            "set_weights": lambda: runner.set_weights(weights),
            "get_state": runner.get_state,
            "set_state": lambda: runner.set_state({}),
            "close": runner.close,
        }
        for name, use in uses.items():
            with pytest.raises(EnvRunnerError, match=f"{name}: found a runner that another thread is using"):
                use()
        done.set()
        thread.join()

        assert sum(map(len, runner.sample(num_timesteps=20))) == 20
    assert sum(map(len, found[0])) >= 20
