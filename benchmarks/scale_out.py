"""Claims: a Ray runner keeps 0.85 of its speed in process; two in a group 0.9 of two bare actors and 4 times RLlib's group;
environments that wait scale with runners; a death is noticed in 0.1 s and replaced in 3 s, with a spare in 0.1 s; two ranks
keep 0.75 of two halves.

    python benchmarks/scale_out.py [--quick] [--json PATH]

Both sides take turns in one run, and the best time of each counts. Bare actors are workers of the same engine, whose calls are
kept coming by a plain loop. Ranks have 906,885 weights and minibatches of 2,048 steps; the halves learn at the same time,
without talking. On two cores that other programs use, too, all of it is slower.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter, sleep
from typing import Any

import torch
from _harness import Row, Side, installed, note, parse_arguments, report
from _peers import peer_python
from _scale_out_sides import Half, episodes, learner, runner

from episodia.dataflow import LearnerGroup, RayEngine, RunnerGroup
from episodia.dataflow.engines.engine import Engine, result_of_call

STEPS = 1024


def main() -> int:
    """Measure and report; return the exit code."""
    arguments = parse_arguments(__doc__)
    torch.set_num_threads(1)
    rounds = 2 if arguments.quick else 10
    with RayEngine(shows_output=False) as engine:
        rows = [_one_runner(engine, rounds), *_two_runners(engine, rounds)]
        for wait_ms in (10,) if arguments.quick else (1, 10):
            rows += [_waiting(engine, count, wait_ms, rounds) for count in (2, 4)]
        rows += _deaths(engine)
        for row in rows:
            note(f"{row['name']}: {row['ratio']:.3g} x {row['against']}")
        rows += _two_ranks(engine, rounds)
    report(rows, arguments.json)
    return 0


def _best(sides: list[Callable[[], object]], rounds: int) -> list[float]:
    best = [float("inf")] * len(sides)
    for _ in range(rounds):
        for number, side in enumerate(sides):
            begun = perf_counter()
            side()
            best[number] = min(best[number], perf_counter() - begun)
    return best


def _deliveries(group: RunnerGroup, count: int, steps: int) -> None:
    for _, _ in zip(range(count), group.stream(num_timesteps=steps), strict=False):
        pass


def _one_runner(engine: Engine, rounds: int) -> Row:
    with RunnerGroup(runner, 1, engine=engine, in_flight=2) as group, runner(0) as own:
        _deliveries(group, 2, STEPS)
        ours, other = _best(
            [lambda: _deliveries(group, 8, STEPS), lambda: [own.sample(num_timesteps=STEPS) for _ in range(8)]], rounds
        )
    return Row(name="1 Ray runner", value=8 * STEPS / ours, unit="steps/s", against="in process", ratio=other / ours)


def _bare(engine: Engine, workers: list[Any], count: int) -> None:
    calls = [worker.call("sample_steps", STEPS) for worker in workers for _ in range(2)]
    owners = {id(call): workers[place // 2] for place, call in enumerate(calls)}
    for _ in range(count):
        (call, *_) = engine.wait(calls)
        calls.remove(call)
        call.result()
        calls.append(owners[id(call)].call("sample_steps", STEPS))
        owners[id(calls[-1])] = owners[id(call)]
    for call in calls:
        result_of_call(engine, call)


class _Bare:
    def __init__(self, seed: int) -> None:
        self._runner = runner(seed)

    def sample_steps(self, steps: int) -> Any:
        return self._runner.sample(num_timesteps=steps)


def _two_runners(engine: Engine, rounds: int) -> list[Row]:
    workers = [engine.start(partial(_Bare, seed)) for seed in (1, 2)]
    with RunnerGroup(runner, 2, engine=engine, in_flight=2) as group:
        _deliveries(group, 4, STEPS)
        _bare(engine, workers, 4)

        def grouped() -> None:
            _deliveries(group, 12, STEPS)
            group.settle()

        with runner(0) as own, _rllib() as rllib:
            sides = {
                "bare actors": lambda: _bare(engine, workers, 12),
                "in process": lambda: [own.sample(num_timesteps=STEPS) for _ in range(12)],
                **rllib,
            }
            ours, *others = _best([grouped, *sides.values()], rounds)
    for worker in workers:
        worker.kill()
    return [
        Row(name="2 Ray runners", value=12 * STEPS / ours, unit="steps/s", against=against, ratio=other / ours)
        for against, other in zip(sides, others, strict=True)
    ]


@contextmanager
def _rllib() -> Iterator[dict[str, Callable[[], object]]]:
    """Yield what plays as many steps with RLlib's group of two runners, by its name; nothing if it is not installed."""
    if not installed(["rllib"]):
        yield {}
        return
    side = Side("rllib", peer_python("rllib"))
    try:
        side.ask("load", module="_scale_out_rllib")
        side.ask("call", function="begin", num_runners=2, num_envs=8)
        yield {"rllib": lambda: side.ask("call", function="play", steps=STEPS, rounds=6)}
        side.ask("call", function="end")
    finally:
        side.close()


def _waiting(engine: Engine, count: int, wait_ms: int, rounds: int) -> Row:
    make = partial(runner, wait_s=wait_ms / 1000, num_envs=1)
    with RunnerGroup(make, count, engine=engine) as group, make(0) as own:
        _deliveries(group, count, 20)
        ours, other = _best(
            [lambda: _deliveries(group, 4 * count, 20), lambda: own.sample(num_timesteps=80 * count)], rounds
        )
    name = f"{count} runners, {wait_ms} ms asleep"
    return Row(name=name, value=80 * count / ours, unit="steps/s", against="1 in process", ratio=other / ours)


def _deaths(engine: Engine) -> list[Row]:
    noticed, replaced = _death(engine, wait_s=0.0)
    with RayEngine(shows_output=False, spares=1) as with_spare:
        _, by_spare = _death(with_spare, wait_s=20.0)
    limits = {"death noticed": (noticed, 0.1), "replaced": (replaced, 3.0), "replaced by a spare": (by_spare, 0.1)}
    return [
        Row(name=name, value=1e3 * took, unit="ms", against="required", ratio=limit / took)
        for name, (took, limit) in limits.items()
    ]


def _death(engine: Engine, wait_s: float) -> tuple[float, float]:
    worker = engine.start(partial(Half, 1))
    pid = result_of_call(engine, worker.call("update", 1))
    sleep(wait_s)  # a spare has begun
    call = worker.call("update", 10**6)
    sleep(0.2)
    begun = perf_counter()
    os.kill(pid, signal.SIGKILL)
    engine.wait([call])
    noticed = perf_counter() - begun
    worker.kill()
    successor = engine.start(partial(_Bare, 0))
    result_of_call(engine, successor.call("sample_steps", 1))
    took = perf_counter() - begun
    successor.kill()
    return noticed, took


def _two_ranks(engine: Engine, rounds: int) -> list[Row]:
    listed = episodes(32)
    note(f"{sum(len(each) for each in listed)} steps")
    halves = [engine.start(partial(Half, 16)) for _ in range(2)]

    def apart() -> None:
        for call in [half.call("update", 2) for half in halves]:
            result_of_call(engine, call)

    rows = []
    for hidden in ((640, 640), (64, 64)):
        make = partial(learner, hidden)
        one = make()
        sides: dict[str, Callable[[], object]] = {"one learner": partial(one.update, listed, num_epochs=2)}
        if hidden == (640, 640):
            sides["two halves"] = apart
        name = f"2 ranks, {sum(each.numel() for each in one.modules['default_policy'].parameters()):,} weights"
        with LearnerGroup(make, 2, engine=engine) as group:
            together = partial(group.update, listed, num_epochs=2)
            for side in (together, *sides.values()):
                side()
            ours, *others = _best([together, *sides.values()], rounds)
        rows += [
            Row(name=name, value=1e3 * ours, unit="ms", against=against, ratio=other / ours)
            for against, other in zip(sides, others, strict=True)
        ]
    for half in halves:
        half.kill()
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
