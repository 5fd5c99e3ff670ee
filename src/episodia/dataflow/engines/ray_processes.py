"""Ends the process of a worker wherever it runs, also a process that is stopped and does not listen to Ray."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from episodia.dataflow.engines.ray_session import ray_module

_SEMAPHORE = "/dev/shm/sem."  # where Linux has them


def own_place() -> tuple[str, int]:
    """Return the node of this process, and its id there."""
    return ray_module().get_runtime_context().get_node_id(), os.getpid()


def kill_process(node: str, pid: int) -> None:
    """Kill a process of Ray on a node; if it is gone, nothing happens."""
    ray = ray_module()
    if node == own_place()[0]:
        _kill_here(pid)
        return
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    ray.remote(_kill_here).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy).remote(pid)


def _kill_here(pid: int) -> None:
    """Kill a process of Ray on this machine, but no other one that has got its id meanwhile.

    Its semaphores, such as those of asynchronous environments, are files. The process that usually removes them is one that Ray
    kills as well.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
            mapped = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if _SEMAPHORE in line]
            os.kill(pid, signal.SIGKILL)
            _remove_semaphores({int(line[4]) for line in mapped})


def _remove_semaphores(numbers: set[int]) -> None:
    """Remove semaphores of Python, by the numbers of their files."""
    for path in Path("/dev/shm").glob("sem.mp-*"):
        with suppress(FileNotFoundError):  # it was removed meanwhile
            if path.stat().st_ino in numbers:
                path.unlink()
