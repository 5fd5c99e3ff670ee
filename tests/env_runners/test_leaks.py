"""F8: runners that are opened and closed leave nothing behind."""

import gc
import os
from pathlib import Path

import pytest

from episodia.env_runners import SingleAgentEnvRunner
from scripted_envs import ScriptedEnv

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts what Linux lists")


def what_is_open():
    gc.collect()
    children = (Path("/proc/self/task") / str(os.getpid()) / "children").read_text().split()
    shared = Path("/dev/shm")
    # Other processes have files there too; those of this one have its number in their names.
    mine = [path.name for path in shared.glob(f"*{os.getpid()}*")]
    return len(list(Path("/proc/self/fd").iterdir())), sorted(children), sorted(mine)


def open_and_close(vectorization):
    with SingleAgentEnvRunner(ScriptedEnv, num_envs=2, seed=0, vectorization=vectorization) as runner:
        runner.sample(num_timesteps=4)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("count", [3, pytest.param(500, marks=pytest.mark.slow)])
def test_f8_runners_that_are_closed_leave_no_files_and_no_processes(vectorization, count):
    open_and_close(vectorization)  # what is started once for all runners stays open
    before = what_is_open()

    for _ in range(count):
        open_and_close(vectorization)

    assert what_is_open() == before
