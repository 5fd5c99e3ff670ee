"""Whatever an environment does to itself or to its process: steps come all the same, and no process is left behind."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvError
from scripted_envs import ScriptedEnv, assert_every_step_once

LONGEST = 4


class NoPickleError(Exception):
    """Cannot be sent to another process, because it does not say how it was made."""

    def __init__(self, first, second):
        super().__init__(first)
        self.second = lambda: second


def recurse():
    recurse()


def stop():
    raise StopIteration


def no_pickle():
    raise NoPickleError(1, 2)


def segmentation_fault():
    os.kill(os.getpid(), signal.SIGSEGV)


def end_process():
    os._exit(1)


def leave():
    sys.exit("enough")


class Troubled(ScriptedEnv):
    """Does something once, in its `place`, wherever it is made."""

    def __init__(self, place, do, done_at):
        super().__init__(LONGEST)
        self.place, self.do, self.done_at = place, do, done_at

    def trouble(self, place):
        if place == self.place and self._episode == 1 and not self.done_at.exists():
            self.done_at.touch()
            self.do()

    def reset(self, **kwargs):
        self.trouble("reset")
        return super().reset(**kwargs)

    def step(self, action):
        self.trouble("step")
        return super().step(action)


IN_ANY = [recurse, stop, no_pickle]
IN_OTHERS = [segmentation_fault, end_process, leave]


@pytest.mark.parametrize("place", ["reset", "step"])
@pytest.mark.parametrize(
    ("do", "vectorization"), [*((do, "sync") for do in IN_ANY), *((do, "async") for do in [*IN_ANY, *IN_OTHERS])]
)
def test_f5_steps_come_whatever_an_environment_does(place, do, vectorization, tmp_path):
    make = partial(Troubled, place, do, tmp_path / "done")
    with SingleAgentEnvRunner(make, num_envs=2, seed=0, vectorization=vectorization) as runner:
        chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=12)]
        metrics = runner.get_metrics()

    assert (tmp_path / "done").exists()
    assert sum(map(len, chunks)) >= 36
    assert metrics.num_env_restarts > 0
    assert_every_step_once(chunks, longest=LONGEST, gaps=True)


class CannotClose(ScriptedEnv):
    def close(self):
        raise OSError("stuck")


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_environment_that_cannot_be_closed_is_let_go(vectorization):
    with SingleAgentEnvRunner(partial(CannotClose, 3), num_envs=2, seed=0, vectorization=vectorization) as runner:
        assert runner.sample(num_timesteps=4).lengths.sum() >= 4


# --- Whole programs ---------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from episodia.env_runners import SingleAgentEnvRunner
from episodia.errors import EnvError

if __name__ == "__main__":
    runner = SingleAgentEnvRunner("CartPole-v1", num_envs=2, seed=0, vectorization="async")
    runner.sample(num_timesteps=8)
    print(*(process.pid for process in runner.env.processes), flush=True)
    while sys.argv[1] != "end":
        runner.sample(num_timesteps=100)
"""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def have_ended(pids, patience_s=10.0):
    deadline = time.monotonic() + patience_s
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_running, pids))


def started_program(folder, how, name="play"):
    script = folder / f"{name}.py"
    script.write_text(SCRIPT)
    return subprocess.Popen(
        [sys.executable, script, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


@pytest.mark.slow
def test_f9_fifty_programs_that_are_killed_leave_no_worker_behind(tmp_path):
    for _ in range(10):
        programs = [started_program(tmp_path, "kill", name) for name in "abcde"]
        workers = [list(map(int, program.stdout.readline().split())) for program in programs]
        for program in programs:
            program.kill()
            program.wait(timeout=20)
            program.stdout.close()

        assert list(map(len, workers)) == [2] * len(programs)
        assert have_ended([pid for pids in workers for pid in pids])


@pytest.mark.parametrize("how", ["end", "interrupt", "terminate", "kill"])
def test_f9_a_program_leaves_no_worker_behind_however_it_ends(how, tmp_path):
    program = started_program(tmp_path, how)
    workers = list(map(int, program.stdout.readline().split()))
    if how == "interrupt":
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
    elif how != "end":
        getattr(program, how)()
    program.wait(timeout=20)
    program.stdout.close()

    assert len(workers) == 2
    assert have_ended(workers)


# --- What environments say and raise ----------------------------------------------------------------------------------


class Tells(ScriptedEnv):
    """Has infos of its own under the key of the library."""

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"env_restarted_after": "lunch", "env_refused_because": "of tea"}


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_f5_an_info_of_the_environments_own_is_no_restart(vectorization):
    with SingleAgentEnvRunner(partial(Tells, LONGEST), num_envs=2, seed=0, vectorization=vectorization) as runner:
        chunks = [chunk for _ in range(2) for chunk in runner.sample(num_timesteps=12)]
        metrics = runner.get_metrics()

    assert_every_step_once(chunks, longest=LONGEST)
    assert metrics.num_env_restarts == metrics.num_episodes_dropped == 0
    assert chunks[0].get_infos(0)["env_restarted_after"] == "lunch"


class LeavesAlways(ScriptedEnv):
    def __init__(self, place):
        super().__init__(LONGEST)
        self.place = place
        self.leave("init")

    def leave(self, place):
        if place == self.place:
            sys.exit("enough")

    def reset(self, **kwargs):
        self.leave("reset")
        return super().reset(**kwargs)

    def step(self, action):
        self.leave("step")
        return super().step(action)


@pytest.mark.parametrize("place", ["init", "reset", "step"])
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_f5_system_exit_is_an_error_that_names_the_environment(place, vectorization):
    with (
        pytest.raises(EnvError, match=r"environment 0: found SystemExit: enough"),
        SingleAgentEnvRunner(
            partial(LeavesAlways, place), num_envs=1, seed=0, max_restarts=1, vectorization=vectorization
        ) as runner,
    ):
        runner.sample(num_timesteps=3)


# --- What derives from `BaseException` alone ----------------------------------------------------------------------------


class TimeLimitError(BaseException):
    """What a test program or a greenlet raises where code runs too long."""


class RaisesOnce(ScriptedEnv):
    """Raises once at a step, wherever it is made."""

    def __init__(self, error, done_at):
        super().__init__(LONGEST)
        self.error, self.done_at = error, done_at

    def step(self, action):
        if self._episode == 1 and not self.done_at.exists():
            self.done_at.touch()
            raise self.error("enough")
        return super().step(action)


@pytest.mark.parametrize(
    ("error", "vectorization"),
    [
        (GeneratorExit, "sync"),
        *((error, "async") for error in (GeneratorExit, KeyboardInterrupt, TimeLimitError)),
    ],
)
def test_f5_an_environment_that_raises_what_is_no_exception_is_rebuilt(error, vectorization, tmp_path):
    make = partial(RaisesOnce, error, tmp_path / "done")
    with SingleAgentEnvRunner(make, num_envs=2, seed=0, vectorization=vectorization) as runner:
        chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=12)]
        metrics = runner.get_metrics()

    assert metrics.num_env_restarts == metrics.num_episodes_dropped == 1
    assert_every_step_once(chunks, longest=LONGEST, gaps=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeLimitError])
def test_f5_what_may_come_from_elsewhere_passes_and_the_runner_goes_on(error, tmp_path):
    make = partial(RaisesOnce, error, tmp_path / "done")
    with SingleAgentEnvRunner(make, num_envs=2, seed=0) as runner:
        with pytest.raises(error, match="enough"):
            runner.sample(num_timesteps=50)
        chunks = [chunk for _ in range(3) for chunk in runner.sample(num_timesteps=12)]

    assert_every_step_once(chunks, longest=LONGEST, gaps=True)
