"""Shards of replay in workers: the updates are those from a buffer here, and what dies with a shard is counted."""

from functools import partial

import numpy as np
import pytest

from episodia import EpisodeList, SingleAgentEpisode
from episodia.dataflow import LocalEngine, ReplayShard, RunnerGroup, ThreadEngine
from episodia.dataflow.plans import from_replay
from episodia.errors import EngineError, ReplayError, WorkerDiedError
from episodia.learners import DQNConfig, ReplayUpdates
from episodia.modules import QNetwork
from episodia.replay import Proportional, ReplayBuffer, Sequences
from episodia.testing import SimulatedEngine
from random_walks import walks
from small_learners import is_same, make_runner, new_learner, weights_of


def new_buffer(capacity=500):
    return ReplayBuffer(capacity, selector=Proportional(), seed=0)


def new_dqn():
    return new_learner(DQNConfig(n_step=2), QNetwork)


@pytest.fixture(scope="module")
def lists():
    with RunnerGroup(partial(make_runner, kind=QNetwork), 1) as group:
        return [group.sample(num_timesteps=30) for _ in range(12)]


def trained(buffer, lists):
    updates = ReplayUpdates(new_dqn(), buffer, num=8)
    for episodes in lists:
        buffer.add(episodes)
        buffer.update_newest(np.ones(int(episodes.lengths.sum())))
        updates.update()
    return weights_of(updates.learner)


@pytest.mark.parametrize("make_engine", [LocalEngine, ThreadEngine, SimulatedEngine])
def test_updates_from_a_shard_are_those_from_a_buffer(make_engine, lists):
    buffer = new_buffer(200)
    with make_engine() as engine:
        shard = ReplayShard(partial(new_buffer, 200), engine)
        found, expected = trained(shard, lists), trained(buffer, lists)

        assert is_same(found, expected)
        assert len(shard) == len(buffer)
        assert repr(shard.get_state()["tables"]) == repr(buffer.get_state()["tables"])


def test_a_shard_goes_on_from_a_state_and_drops_samples_drawn_ahead(lists):
    with ThreadEngine() as engine:
        shard, other = (ReplayShard(new_buffer, engine, ahead=2) for _ in range(2))
        shard.add(lists[0])
        shard.sample(4)
        other.set_state(shard.get_state())
        samples = [one.sample(16).flat("keys").values.tolist() for one in (shard, other)]

        assert samples[0] == samples[1]
        assert len(shard) == len(other) == 30


@pytest.mark.parametrize("seed", range(40))
def test_what_dies_with_a_shard_is_counted(seed, lists):
    engine = SimulatedEngine(seed, p_die=0.1, p_hang=0.05, begin_s=30.0)
    shard = ReplayShard(partial(new_buffer, 5000), engine, ahead=seed % 3, call_timeout_s=20.0)
    num_sent = num_unanswered = 0
    for episodes in lists:
        shard.add(episodes)
        num_sent += int(episodes.lengths.sum())
        if len(shard):
            try:
                sample = shard.sample(8)
                shard.update_priorities(sample.flat("keys").values, np.ones(8))
            except WorkerDiedError:
                num_unanswered += 1

    assert len(shard) + shard.counts["shard_steps_lost"] == num_sent
    assert engine.deaths <= shard.counts["shards_died"] <= engine.deaths + engine.hangs
    assert num_unanswered <= shard.counts["shards_died"]


def test_a_plan_fills_a_shard_that_has_died_and_goes_on():
    learner, warm_up, sizes = new_dqn(), 40, []
    with ThreadEngine() as engine, RunnerGroup(partial(make_runner, kind=QNetwork), 2) as group:
        group.on_delivery = lambda delivery: sizes.append(delivery.num_steps)
        shards = [ReplayShard(new_buffer, engine, ahead=1, counts=group.counts) for _ in range(2)]
        updates = [ReplayUpdates(learner, shard, num=8) for shard in shards]
        flow = from_replay(group, updates, num_timesteps=16, warm_up=warm_up, updates_per_step=0.25)
        flow.take(4)
        shards[0]._worker.kill()
        flow.take(4)

        assert group.counts["shards_died"] == 1
        assert group.counts["shard_steps_lost"] >= warm_up / 2
        assert min(map(len, shards)) >= warm_up / 2
        assert sum(map(len, shards)) + group.counts["shard_steps_lost"] == sum(sizes)


def test_an_error_of_the_buffers_own_is_raised_and_the_shard_goes_on(lists):
    with ThreadEngine() as engine:
        shard = ReplayShard(new_buffer, engine)
        with pytest.raises(ReplayError, match="empty buffer"):
            shard.sample(4)
        shard.add(lists[0])
        shard.add(EpisodeList([_other()]))
        with pytest.raises(ReplayError):
            len(shard)
        assert len(shard) == 30
        assert len(shard.sample(4, Sequences(5))) == 4
        shard.clear()
        assert len(shard) == 0
        assert shard.counts == {}


def _other():
    return SingleAgentEpisode(
        observations=np.zeros((3, 9), np.float32), actions=[0, 1], rewards=[0.0, 1.0], len_lookback_buffer=0
    )


def test_shards_that_die_again_and_again_are_an_error():
    shard = ReplayShard(new_buffer, SimulatedEngine(p_die=1.0), max_restarts=3)
    with pytest.raises(EngineError, match="4 shards in a row"):
        fill(shard)


def fill(shard):
    for seed in range(9):
        shard.add(walks([3], seed))
        len(shard)
