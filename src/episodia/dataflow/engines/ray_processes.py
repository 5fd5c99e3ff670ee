"""Ends the process of a worker wherever it runs, also a process that is stopped and does not listen to Ray."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from episodia.dataflow.engines.ray_session import ray_module

_GLANCE_S = 0.01


def own_place() -> tuple[str, int]:
    """Return the node of this process, and its id there."""
    return ray_module().get_runtime_context().get_node_id(), os.getpid()


def kill_process(node: str, pid: int) -> list[int]:
    """Kill a process of Ray on a node; if it is gone, nothing happens.

    Returns:
        Those of its children that are on this machine. They end by themselves; one removes what environments have shared.
    """
    ray = ray_module()
    if node == own_place()[0]:
        return _kill_here(pid)
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    ray.remote(_kill_here).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy).remote(pid)
    return []


def _kill_here(pid: int) -> list[int]:
    """Kill a process of Ray on this machine, but no other one that has got its id meanwhile; return its children."""
    with suppress(FileNotFoundError, ProcessLookupError):
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::"):
            listed = " ".join(thread.read_text() for thread in Path(f"/proc/{pid}/task").glob("*/children"))
            os.kill(pid, signal.SIGKILL)
            return list(map(int, listed.split()))
    return []


def wait_for_end(pids: Collection[int], timeout_s: float) -> None:
    """Wait until processes have ended."""
    deadline = time.monotonic() + timeout_s
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(_GLANCE_S)
