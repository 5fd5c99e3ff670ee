"""Schedules of disasters for groups of runners: seeded, in virtual time, each checked against what the runners played."""

import copy
import random

import numpy as np
import torch

from episodia.connectors import ConnectorV2, EnvToModulePipeline, ModuleToEnvPipeline
from episodia.dataflow import Ledger, Rounds, RunnerGroup
from episodia.env_runners import RunnerMetrics
from episodia.episodes.lists.unmade_list import UnmadeList
from episodia.episodes.lists.unmade_rows import UnmadeRows
from episodia.testing import SimulatedEngine

MODULES = {"default_policy": np.array([], np.int64)}


class PlayedRows(UnmadeRows):
    """Chunks of which nothing is known but what they say of themselves: (id, first time step, length, whether it ended)."""

    modules = MODULES
    extras = ()

    def __init__(self, chunks, version):
        self.chunks, self.version = chunks, version
        self.lengths = np.array([chunk[2] for chunk in chunks], np.int64)
        self.origins = [chunk[0] for chunk in chunks]
        self.t_started = np.array([chunk[1] for chunk in chunks], np.int64)
        self.is_terminated = np.array([chunk[3] for chunk in chunks], np.bool_)
        self.is_truncated = np.zeros(len(chunks), np.bool_)

    lookbacks = origins = weights_versions = t_started = is_terminated = is_truncated = None
    make = packed = has_extra = has_in_observations = space_of = stored = extent = flat = None

    def __len__(self):
        return len(self.chunks)


class StepCounter(ConnectorV2):
    """Counts steps, as a filter collects statistics."""

    is_stateful = True

    def __init__(self):
        super().__init__()
        self.common, self.own = 0, 0

    def __call__(self, *, batch, **_):
        return batch

    def commit(self):
        """Nothing waits."""

    def get_state(self, *_, **__):
        return {"common": self.common, "own": self.own}

    def set_state(self, state):
        self.common, self.own = state["common"], state["own"]

    def add_collected(self, state):
        self.common += state["own"]


# Building them takes longer than a schedule.
PIPELINES = EnvToModulePipeline(connectors=[StepCounter()]), ModuleToEnvPipeline(connectors=[])


class FakeRunner:
    """Two lanes with episodes of random lengths; it writes down what it has played."""

    is_multi_agent, count_steps_by = False, "env_steps"

    def __init__(self, seed, played):
        self.rng, self.seed, self.played, self.count = random.Random(seed), seed, played, 0
        self.lanes = [self.new_episode() for _ in range(2)]
        self.version = 0
        self.module = torch.nn.Linear(1, 1, bias=False)
        self.modules = {"default_policy": self.module}
        self.env_to_module, self.module_to_env = copy.deepcopy(PIPELINES)

    def new_episode(self):
        self.count += 1
        return f"{self.seed}-{self.count}", 0, self.rng.randint(1, 30)

    def require_lookback(self, steps):
        """Chunks carry nothing."""

    def set_weights(self, weights, version):
        assert float(weights["weight"][0][0]) == version, "weights of another version"
        assert version > self.version, "the version went back"
        self.version = version

    def sample(self, num_timesteps, num_episodes=None):
        chunks = []
        for lane in range(2):
            left = num_timesteps
            while left:
                id_, t, length = self.lanes[lane]
                steps = min(left, length - t)
                left -= steps
                chunks.append((id_, t, steps, t + steps == length))
                self.lanes[lane] = (id_, t + steps, length) if t + steps < length else self.new_episode()
        self.played += chunks
        self.steps = sum(chunk[2] for chunk in chunks)
        counter = self.env_to_module["StepCounter"]
        counter.own += self.steps
        return UnmadeList(PlayedRows(chunks, self.version))

    def get_metrics(self):
        return RunnerMetrics(num_env_steps=self.steps)

    def close(self):
        """Nothing is open."""


def weights_of_version(version):
    return {"weight": np.array([[float(version)]])}


class Schedule:
    """One seeded run of a group, see `run`."""

    def __init__(self, seed, engine_of=SimulatedEngine):
        self.rng = rng = random.Random(seed)
        self.played, self.got, self.versions, self.ledger = [], [], {}, Ledger()
        self.engine = engine_of(seed, p_die=rng.choice((0, 0.05, 0.3)), p_hang=rng.choice((0, 0.05)))
        self.num, self.most = rng.randint(1, 5), rng.randint(1, 3)
        self.group = RunnerGroup(
            lambda runner_seed: FakeRunner(runner_seed, self.played),
            self.num,
            seed=seed,
            engine=self.engine,
            in_flight=self.most,
            call_timeout_s=30.0,
            max_restarts=10**6,
        )

    def run(self):
        """Play rounds and polls in a random order, then settle; after each step the laws must hold."""
        rng, mode = self.rng, self.rng.choice(("rounds", "polls", "both"))
        for version in range(1, rng.randint(3, 20)):
            if rng.random() < 0.5:
                self.group.set_weights(weights_of_version(version), version=version)
            if mode == "rounds" or (mode == "both" and rng.random() < 0.5):
                rounds = Rounds(
                    min_ready=rng.randint(1, self.num), grace_s=rng.choice((0, 1, 5)), grace_factor=rng.choice((0, 0.5))
                )
                found = self.group.sample_round(rounds, num_timesteps=rng.randint(1, 20))
                assert found, "a round without a delivery"
            else:
                delivery = self.group.poll({"num_timesteps": rng.randint(1, 20)}, rng.choice((None, 0, 2.0)))
                found = [delivery] if delivery is not None else []
            self.check(found)
        self.group.settle(60.0)
        while self.group._kept:
            self.check([self.group.poll({"num_timesteps": 1}, 0)])
        self.check_end()
        return self

    def check(self, deliveries):
        counts = self.group.counts
        settled = counts["delivered"] + counts["failed"] + counts["lost"]
        assert counts["requested"] == settled + self.group.in_flight, dict(counts)
        assert self.group.in_flight <= self.num * self.most
        for delivery in deliveries:
            rows = delivery.episodes.untouched_rows()
            self.ledger.enter(delivery.episodes)
            self.got += rows.chunks
            assert rows.version == delivery.version, "a chunk does not name the version that played it"
            place = delivery.runner, delivery.incarnation
            assert self.versions.get(place, 0) <= delivery.version <= self.group.weights_version
            self.versions[place] = delivery.version

    def check_end(self):
        counts = self.group.counts
        assert counts["requested"] == counts["delivered"] + counts["failed"] + counts["lost"]
        assert sum(self.group.lags.values()) == counts["delivered"]
        assert len(self.got) == len(set(self.got))
        assert set(self.got) <= set(self.played)
        if not counts["lost"]:
            assert set(self.got) == set(self.played), "something was played, and has not arrived"
        # Steps, metrics and statistics are counted together.
        steps = sum(chunk[2] for chunk in self.got)
        assert self.group.get_metrics().num_env_steps == steps
        assert self.group.env_to_module["StepCounter"].common == steps
        self.group.close()
        self.group.close()
        assert self.engine.num_workers == 0, "a worker is left"
