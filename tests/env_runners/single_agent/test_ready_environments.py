"""Ready vector environments: how failures are handled, and that no process is left behind."""

import os
import signal
import time
from functools import partial

import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvError
from scripted_envs import FaultyEnv, ScriptedEnv, assert_every_step_once

LONGEST = 6


def at_second_episode(_, episode, step):
    return episode == 1 and step == 1


def make(what=None):
    env = ScriptedEnv(LONGEST)
    return env if what is None else FaultyEnv(env, at_second_episode, what)


def ready(kind=AsyncVectorEnv, what=None):
    return kind([partial(make, what), make])


def workers_of(env):
    return [process.pid for process in env.processes]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123  # a zombie is not running
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.filterwarnings("ignore:.*(Received|Traceback|Raising)")  # gymnasium prints what it raises
def test_a_ready_environment_that_raises_is_an_error_that_says_what_to_do_and_what_had_ended_is_kept(kind):
    with SingleAgentEnvRunner(ready(kind, "raise"), seed=0) as runner:
        with pytest.raises(EnvError, match=r"found RuntimeError: the scripted fault, .* pass a function"):
            runner.sample(num_timesteps=100)
        chunks = runner.sample(num_timesteps=1)

    assert any(chunk.is_done for chunk in chunks)
    assert_every_step_once(chunks, longest=LONGEST, gaps=True)


@pytest.mark.filterwarnings("ignore:.*(Received|Traceback|Raising)")
def test_a_ready_asynchronous_environment_that_has_failed_says_so_each_time():
    with SingleAgentEnvRunner(ready(what="raise"), seed=0) as runner:
        for _ in range(3):
            with pytest.raises(EnvError, match="pass a function that makes it"):
                runner.sample(num_timesteps=100)


@pytest.mark.parametrize("what", ["kill", "hang", "nothing"])
def test_closing_leaves_no_worker_of_a_ready_environment_behind(what):
    env = ready()
    runner = SingleAgentEnvRunner(env, seed=0)
    runner.sample(num_timesteps=5)
    workers = workers_of(env)
    if what != "nothing":
        os.kill(workers[0], signal.SIGKILL if what == "kill" else signal.SIGSTOP)
    started = time.monotonic()
    runner.close()
    runner.close()

    assert time.monotonic() - started < 8
    assert not any(map(is_running, workers))


@pytest.mark.filterwarnings("ignore:.*(Received|Traceback|Raising)")
def test_asynchronous_environments_of_a_function_are_rebuilt_after_a_failure():
    waiting = ["raise"]
    with SingleAgentEnvRunner(lambda: ready(what=waiting.pop() if waiting else None), seed=0) as runner:
        before = workers_of(runner.env)
        with pytest.raises(EnvError, match="the scripted fault"):
            runner.sample(num_timesteps=100)
        chunks = runner.sample(num_timesteps=30)
        after = workers_of(runner.env)

    assert sum(map(len, chunks)) >= 30
    assert set(before).isdisjoint(after)
    assert not any(map(is_running, [*before, *after]))


def test_asynchronous_environments_of_a_function_are_rebuilt_after_a_worker_was_killed():
    with SingleAgentEnvRunner(ready, seed=0) as runner:
        first = runner.sample(num_timesteps=10)
        before = workers_of(runner.env)
        os.kill(before[1], signal.SIGKILL)
        second = runner.sample(num_timesteps=10)

        assert runner.get_metrics().num_env_restarts == 2
    assert_every_step_once([*first, *second], longest=LONGEST, gaps=True)
    assert not any(map(is_running, before))
