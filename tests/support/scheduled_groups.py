"""Schedules of disasters for groups of runners: seeded, in virtual time, each checked against what the runners played."""

import pickle
import random
from functools import partial

import numpy as np
import torch

from episodia import SingleAgentEpisode
from episodia.connectors import ConnectorV2, EnvToModulePipeline, ModuleToEnvPipeline
from episodia.dataflow import Rounds, RunnerGroup, concurrently, duplicate, rollouts
from episodia.dataflow.ledger import Ledger
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

    def make(self):
        return [
            SingleAgentEpisode(
                id_,
                observations=[0] * (length + 1),
                actions=[0] * length,
                rewards=[0.0] * length,
                terminated=is_over,
                t_started=start,
                len_lookback_buffer=0,
            )
            for id_, start, length, is_over in self.chunks
        ]

    lookbacks = origins = weights_versions = t_started = is_terminated = is_truncated = None
    packed = has_extra = has_in_observations = space_of = stored = extent = flat = None

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
PIPELINES = pickle.dumps((EnvToModulePipeline(connectors=[StepCounter()]), ModuleToEnvPipeline(connectors=[])))


class FakeRunner:
    """Two lanes with episodes of random lengths; it writes down what it has played."""

    is_multi_agent, count_steps_by, agent_to_module_mapping_fn = False, "env_steps", None

    def __init__(self, seed, played):
        self.rng, self.seed, self.played, self.count = random.Random(seed), seed, played, 0
        self.lanes = [self.new_episode() for _ in range(2)]
        self.version = -1
        self.module = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(self.module.weight)
        self.modules = {"default_policy": self.module}
        self.env_to_module, self.module_to_env = pickle.loads(PIPELINES)

    def new_episode(self):
        self.count += 1
        return f"{self.seed}-{self.count}", 0, self.rng.randint(1, 30)

    def require_lookback(self, steps):
        """Chunks carry nothing."""

    def set_weights(self, weights, version):
        assert float(weights["weight"][0][0]) == version, "weights of another version"
        assert version > self.version, "the version went back"
        self.version = version

    def get_state(self):
        return {"count": self.count, "weights_version": self.version}

    def set_state(self, state):
        self.count, self.version = state["count"], state["weights_version"]

    def sample(self, num_timesteps, num_episodes=None, force_reset=False):
        if force_reset:
            self.lanes = [self.new_episode() for _ in range(2)]
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
        return UnmadeList(PlayedRows(chunks, max(self.version, 0)))

    def get_metrics(self):
        return RunnerMetrics(num_env_steps=self.steps)

    def close(self):
        """Nothing is open."""


def pair(at, delivery):
    return at, delivery


def place_of(delivery):
    return delivery.runner, delivery.incarnation, delivery.number


def weights_of_version(version):
    return {"weight": np.array([[float(version)]])}


class Schedule:
    """One seeded run of a group, see `run`."""

    def __init__(self, seed, engine_of=SimulatedEngine):
        self.rng = rng = random.Random(seed)
        self.played, self.got, self.versions, self.ledger = [], [], {}, Ledger()
        self.engine = engine_of(seed, p_die=rng.choice((0, 0.05, 0.3)), p_hang=rng.choice((0, 0.05)))
        self.seed, self.most = seed, rng.randint(1, 3)
        self.open_group()

    def open_group(self):
        self.num = self.rng.randint(1, 5)
        self.group = RunnerGroup(
            lambda runner_seed: FakeRunner(runner_seed, self.played),
            self.num,
            seed=self.seed,
            engine=self.engine,
            in_flight=self.most,
            call_timeout_s=30.0,
            max_restarts=10**6,
        )
        branches = duplicate(rollouts(self.group, "async", num_timesteps=lambda: self.rng.randint(1, 20)))
        self.flow = concurrently([branch.for_each(partial(pair, at)) for at, branch in enumerate(branches)])

    def save(self):
        """Save group and flow, and let these, or others of any size, go on."""
        state, state_of_group = self.flow.get_state(), self.group.get_state()
        if self.rng.random() < 0.5:
            self.group.close()
            self.open_group()
            self.group.set_state(state_of_group)
            self.flow.set_state(state)

    def run(self):
        """Play rounds and polls in a random order, then settle; after each step the laws must hold."""
        rng, mode = self.rng, self.rng.choice(("rounds", "polls", "both", "flow"))
        for version in range(1, rng.randint(3, 20)):
            if rng.random() < 0.5:
                self.group.set_weights(weights_of_version(version), version=version)
            if rng.random() < 0.05:
                self.save()
            if mode == "flow":
                found = self.pulled()
            elif mode == "rounds" or (mode == "both" and rng.random() < 0.5):
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

    def pulled(self):
        """Pull a delivery from each of two branches, which see the same."""
        first, delivery = next(self.flow)
        if self.rng.random() < 0.05:
            self.save()
        second, other = next(self.flow)
        assert (first, second) == (0, 1), "a branch was left out of its turn"
        assert place_of(delivery) == place_of(other), "branches see other items"
        return [delivery]

    def check(self, deliveries):
        counts = self.group.counts
        settled = counts["delivered"] + counts["failed"] + counts["lost"]
        assert counts["requested"] == settled + self.group.in_flight, dict(counts)
        assert self.group.in_flight <= self.num * self.most
        for delivery in deliveries:
            self.ledger.enter(delivery.episodes)
            facts = delivery.episodes.facts()
            ends = (facts.ends > 0).tolist()
            self.got += zip(facts.origins, facts.t_started.tolist(), facts.lengths.tolist(), ends, strict=True)
            # Episodes that were saved have been made.
            rows = delivery.episodes.untouched_rows() if isinstance(delivery.episodes, UnmadeList) else None
            assert rows is None or rows.version == delivery.version, "a chunk does not name the version that played it"
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
