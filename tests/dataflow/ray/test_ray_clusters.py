"""Whole processes and machines that end: the driver, and a node of a cluster."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ray_objects import are_gone, semaphores

SUPPORT = Path(__file__).resolve().parents[2] / "support"


def script(text):
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SUPPORT)!r})\n{textwrap.dedent(text)}"]


DRIVER = """
import os, time
from episodia.dataflow import RayEngine, RunnerGroup
from ray_objects import asynchronous, children_of
engine = RayEngine(shows_output=False)
group = RunnerGroup(asynchronous, 1, engine=engine)
group.sample(num_timesteps=10)
pids = group.foreach_runner(lambda _: os.getpid())
print(*pids, *children_of(pids[0]), flush=True)
time.sleep(600)
"""


def test_no_runner_is_left_of_a_driver_that_was_killed():
    with subprocess.Popen(script(DRIVER), stdout=subprocess.PIPE, text=True) as driver:
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()

        assert len(pids) >= 3
        assert are_gone(pids)


INTERRUPTED = """
from ray_objects import asynchronous, children_of, semaphores_of
import os
from episodia.dataflow import RayEngine, RunnerGroup
try:
    with RayEngine(shows_output=False) as engine, RunnerGroup(asynchronous, 2, engine=engine) as group:
        group.sample(num_timesteps=10)
        pids = group.foreach_runner(lambda _: os.getpid())
        print(*pids, *(child for pid in pids for child in children_of(pid)), flush=True)
        print(*(number for pid in pids for number in semaphores_of(pid)), flush=True)
        while True:
            group.sample(num_timesteps=1000)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
def test_nothing_is_left_after_ctrl_c():
    with subprocess.Popen(script(INTERRUPTED), stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
        pids, shared = ([int(number) for number in driver.stdout.readline().split()] for _ in range(2))
        time.sleep(0.5)
        os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
        last = driver.communicate(timeout=120)[0]

    assert last.endswith("interrupted\n")  # Ray may say before that workers died
    assert driver.returncode == 0
    assert min(len(pids), len(shared)) >= 6
    assert are_gone(pids)
    assert not semaphores() & set(shared)


CLUSTER = """
import os, time
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
from episodia.dataflow import RayEngine, RunnerGroup
from ray_objects import cartpole
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
engine = RayEngine(cluster.address, shows_output=False)
group = RunnerGroup(cartpole, 2, engine=engine, seed=1)
assert len(group.sample(num_timesteps=40).lengths) >= 2
cluster.remove_node(nodes[0], allow_graceful=False)
replacement = cluster.add_node(num_cpus=1)
begun = time.monotonic()
for _ in range(3):
    group.sample(num_timesteps=40)
counts = group.counts
assert counts["died"] == 1, counts
assert counts["requested"] == counts["delivered"] + counts["lost"], counts
print("went on after", time.monotonic() - begun, dict(counts))
group.close()
engine.close()
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_group_goes_on_when_a_node_of_its_cluster_is_lost():
    run = subprocess.run(script(CLUSTER), capture_output=True, text=True, check=False, timeout=400)

    assert run.returncode == 0, run.stderr[-3000:]
    assert "went on after" in run.stdout
