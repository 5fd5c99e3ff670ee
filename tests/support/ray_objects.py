"""Objects and runners for workers of Ray, which import this module."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import torch

from episodia import SingleAgentEnvRunner
from episodia.connectors import MeanStdFilter
from episodia.dataflow.engines.ray_session import ray_module
from episodia.modules import MLPActorCritic

SPACES = gym.make("CartPole-v1")


def new_module(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return MLPActorCritic(SPACES.observation_space, SPACES.action_space, generator=generator)


def cartpole(seed, **settings):
    return SingleAgentEnvRunner("CartPole-v1", new_module(), num_envs=2, seed=seed, **settings)


def filtering(seed):
    return cartpole(seed, env_to_module=[MeanStdFilter()])


def asynchronous(seed):
    return cartpole(seed, vectorization="async")


class StrangeError(Exception):
    """An error that is pickled, and cannot be made again."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Subject:
    """An object that does what workers do at their worst."""

    def __init__(self):
        self.child = None

    def pid(self):
        return os.getpid()

    def threads(self):
        return torch.get_num_threads()

    def sleep(self, time_s):
        time.sleep(time_s)
        return "awake"

    def fail(self):
        raise LookupError("of its own")

    def fail_strangely(self):
        raise StrangeError("this", "that")

    def exit(self):
        sys.exit(3)

    def end(self):
        os._exit(4)

    def unpicklable(self):
        return threading.Lock()

    def zeros(self, count):
        return torch.zeros(count, dtype=torch.float64).numpy()

    def make(self, env_id):
        return type(gym.make(env_id).unwrapped).__name__

    def begin_child(self):
        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return self.child.pid

    def close(self):
        if self.child is not None:
            self.child.kill()
            self.child.wait()


def pid_of(worker):
    """Return the process of a worker of a Ray engine."""
    return ray_module().get(worker._actor._place)[1]


def is_alive(pid):
    """Tell whether a process runs; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def are_gone(pids, within_s=60.0):
    """Wait until processes have ended; tell whether they have in time."""
    deadline = time.monotonic() + within_s
    while any(map(is_alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def children_of(pid):
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in listed.stdout.split()]


def semaphores():
    """Return the semaphores of all processes, which are files in shared memory, by the numbers of the files."""
    found = (path.stat().st_ino for path in Path("/dev/shm").glob("sem.*") if path.exists())
    return frozenset(found)


def semaphores_of(pid):
    """Return those that a process has opened."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return frozenset(int(line.split()[4]) for line in lines if "/dev/shm/sem." in line)
