"""Claims: 1,024 steps travel in 0.3 ms; a group of one keeps 0.98 of its runner's speed; a flow takes 1 us an item; a learner
in a thread learns while environments wait.

    python benchmarks/dataflow.py [--quick] [--json PATH]

Lists are packed and unpacked as they are, and, as the other side, with episodes that are made on both sides. The group and the
runner play in turns. A learner in a thread, with runners in threads, is compared with the loop in which they take turns; each
step of the environment waits for 1 ms, as one does that runs elsewhere. The flow has three stages; `ray.util.iter` runs the
same three in the environment of the RLlib peer.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time, sleep
from typing import Any

import gymnasium as gym
import torch
from _harness import Row, installed, note, parse_arguments, report
from _peers import peer_python

from episodia import SingleAgentEnvRunner
from episodia.dataflow import Flow, RunnerGroup, ThreadEngine, Updates
from episodia.dataflow.plans import impala, in_rounds
from episodia.dataflow.seats import seed_of
from episodia.episodes import EpisodeList
from episodia.learners import Learner, PPOConfig
from episodia.modules import MLPActorCritic

SPACES = gym.make("CartPole-v1")
STEPS = 1024
ITEMS = 2_000
_WAIT_S = 0.001
# Parallel iterators need a cluster; their local ones are what their stages run in.
_RAY = f"""
import time
from ray.util.iter import LocalIterator, SharedMetrics
best = 1e9
for _ in range(200):
    flow = LocalIterator(lambda timeout=None: iter(range({ITEMS})), SharedMetrics())
    flow = flow.for_each(lambda item: item + 1).filter(lambda item: item > 0).for_each(lambda item: item + 1)
    begun = time.process_time()
    for item in flow:
        pass
    best = min(best, time.process_time() - begun)
print("seconds", best / {ITEMS})
"""


def main() -> int:
    """Measure and report; return the exit code."""
    arguments = parse_arguments(__doc__)
    torch.set_num_threads(1)
    rounds = 20 if arguments.quick else 100
    rows = [_travelling(rounds), _group_of_one(rounds), _learner_in_a_thread(rounds), *_flows(rounds)]
    report(rows, arguments.json)
    return 0


def _alternately(
    sides: list[Callable[[], object]], rounds: int, clock: Callable[[], float] = process_time
) -> list[float]:
    """Return the least seconds that each side took: of the CPU, which other programs do not change, or of another clock."""
    best = [float("inf")] * len(sides)
    for _ in range(rounds):
        for number, side in enumerate(sides):
            begun = clock()
            side()
            best[number] = min(best[number], clock() - begun)
    return best


def _runner(seed: int) -> SingleAgentEnvRunner:
    env = gym.make("CartPole-v1")
    generator = torch.Generator().manual_seed(0)
    module = MLPActorCritic(env.observation_space, env.action_space, generator=generator)
    return SingleAgentEnvRunner("CartPole-v1", module, num_envs=8, seed=seed)


def _travelling(rounds: int) -> Row:
    with _runner(0) as runner:
        runner.sample(num_timesteps=STEPS)
        sample = runner.sample(num_timesteps=STEPS)
        made = EpisodeList(list(pickle.loads(pickle.dumps(sample))))
    ours, other = _alternately(
        [lambda: _there_and_back(sample), lambda: list(_there_and_back(made))],
        5 * rounds,
    )
    note(f"{len(sample)} chunks")
    return Row(
        name=f"pack and unpack {STEPS} steps", value=1e3 * ours, unit="ms", against="episodes", ratio=other / ours
    )


def _there_and_back(listed: EpisodeList) -> EpisodeList:
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(listed, protocol=5, buffer_callback=buffers.append)
    found: EpisodeList = pickle.loads(body, buffers=[bytes(buffer.raw()) for buffer in buffers])
    return found


def _group_of_one(rounds: int) -> Row:
    with _runner(seed_of(0, 0, 0)) as runner, RunnerGroup(_runner, 1) as group:
        ours, other = _alternately(
            [lambda: group.sample(num_timesteps=STEPS), lambda: runner.sample(num_timesteps=STEPS)], rounds
        )
    return Row(name="group of one runner", value=1e3 * ours, unit="ms", against="runner", ratio=other / ours)


class Waiting(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose steps wait."""

    def step(self, action: Any) -> Any:
        """Wait, and step."""
        sleep(_WAIT_S)
        return super().step(action)


def _waiting_runner(seed: int) -> SingleAgentEnvRunner:
    module = MLPActorCritic(SPACES.observation_space, SPACES.action_space, hidden=(128, 128))
    return SingleAgentEnvRunner(lambda: Waiting(gym.make("CartPole-v1")), module, num_envs=1, seed=seed)


def _learner_in_a_thread(rounds: int) -> Row:
    """Return how much longer the loop takes in which two runners and a learner take turns."""
    how = {"num_epochs": 4, "minibatch_size": 32}
    with ThreadEngine() as engine:
        groups = [RunnerGroup(_waiting_runner, 2), RunnerGroup(_waiting_runner, 2, engine=engine)]
        learners = [
            Learner(
                MLPActorCritic(SPACES.observation_space, SPACES.action_space, hidden=(128, 128)), PPOConfig(), seed=0
            )
            for _ in range(2)
        ]
        flows = [
            in_rounds(groups[0], learners[0], num_timesteps=128, **how),
            impala(groups[1], Updates(learners[1], engine, **how), num_timesteps=128),
        ]
        serial, ours = _alternately([partial(flow.take, 4) for flow in flows], max(3, rounds // 7), perf_counter)
        note(f"lags {dict(sorted(groups[1].lags.items()))}")
        for group in groups:
            group.close()
    return Row(name="learner in a thread", value=1e3 * ours / 4, unit="ms", against="serial", ratio=serial / ours)


def _flows(rounds: int) -> list[Row]:
    def ours() -> None:
        flow = Flow(range(ITEMS)).for_each(lambda item: item + 1).filter(lambda item: item > 0)
        for _ in flow.for_each(lambda item: item + 1):
            pass

    def bare() -> None:
        for item in range(ITEMS):
            _ = item + 2

    (ours_s, bare_s) = (seconds / ITEMS for seconds in _alternately([ours, bare], 10 * rounds))
    against = {"bare loop": bare_s}
    if installed(["rllib"]):
        command = [str(peer_python("rllib")), "-W", "ignore", "-c", _RAY]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            note(f"rllib: {done.stderr.strip().splitlines()[-1]}")
        else:
            against["rllib"] = float(done.stdout.split("seconds")[-1])
    return [
        Row(name="flow of three stages, an item", value=1e6 * ours_s, unit="us", against=name, ratio=seconds / ours_s)
        for name, seconds in against.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
