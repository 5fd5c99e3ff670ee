"""Learners in Ray actors: several ranks as one learner, and whoever dies, the weights are those of an undisturbed run."""

import os
import signal
import threading
from functools import partial

import pytest
import torch

from episodia import EpisodeList
from episodia.dataflow import NOTHING, GradientWorkers, LearnerGroup, PolicyHosts, RayEngine, ReplayShard, Updates
from episodia.dataflow.engines.ray_session import ray_module
from episodia.dataflow.flows.sources import wait_for
from episodia.learners import A2CConfig, DQNConfig, PPOConfig, ReplayUpdates
from episodia.modules import QNetwork
from episodia.replay import Proportional, ReplayBuffer
from random_walks import ACTIONS, OBSERVATIONS, learner_of, walks

HOW = {"num_epochs": 2, "minibatch_size": 16}
MAKE = partial(learner_of, PPOConfig())


def assert_close(found, expected, tolerance=1e-5):
    for module_id, named in expected.items():
        for name, tensor in named.items():
            assert torch.allclose(found[module_id][name], tensor, atol=tolerance, rtol=0), (module_id, name)


def ranks(engine):
    """Return the processes of the workers of an engine."""
    ray = ray_module()
    return [ray.get(actor._place)[1] for actor in engine._actors if not actor.is_over()]


def lists(num):
    return [walks([9, 30, 4 + seed, 17, 12], seed) for seed in range(num)]


def test_f11_ranks_learn_what_one_learner_learns_when_some_are_killed(engine):
    one = MAKE()
    with LearnerGroup(MAKE, 2, engine=engine, timeout_s=20.0) as group:
        for number, episodes in enumerate(lists(5)):
            one.update(episodes, **HOW)
            if number == 1:  # between updates
                os.kill(ranks(engine)[0], signal.SIGKILL)
            if number == 3:  # in an update
                threading.Timer(0.01, os.kill, (ranks(engine)[1], signal.SIGKILL)).start()
            group.update(episodes, **HOW)

        assert group.counts["died"] == 2
        assert_close(group.get_weights(), one.get_weights())
        assert group.num_steps == one.num_steps


def test_f11_a_learner_that_is_killed_goes_on_from_its_snapshot():
    one = MAKE()
    with RayEngine(spares=1, shows_output=False) as own:
        updates = Updates(MAKE(), own, depth=2, snapshot_every=3, **HOW)
        done = 0
        for number, episodes in enumerate(lists(8)):
            one.update(episodes, **HOW)
            updates.put(episodes)
            if number in (2, 6):
                os.kill(ranks(own)[0], signal.SIGKILL)
            while done <= number:
                if updates.poll() is NOTHING:
                    wait_for(updates)
                else:
                    done += 1
        updates.settle()

        assert done == 8
        assert updates.num_replaced == 2
        found, expected = updates._learner.get_weights(), one.get_weights()
    assert all(torch.equal(found[key][name], own) for key, named in expected.items() for name, own in named.items())


@pytest.mark.slow
def test_f11_ranks_that_are_killed_at_any_time_change_nothing(engine):
    one = MAKE()
    with LearnerGroup(MAKE, 3, engine=engine, timeout_s=20.0) as group:
        for number, episodes in enumerate(lists(30)):
            one.update(episodes, **HOW)
            if number % 3 == 0:
                threading.Timer(0.002 * number, os.kill, (ranks(engine)[number % 3], signal.SIGKILL)).start()
            group.update(episodes, **HOW)

        assert group.counts["died"] >= 5
        assert_close(group.get_weights(), one.get_weights(), 1e-4)


def test_a_rank_that_is_stopped_is_replaced(engine):
    one = MAKE()
    with LearnerGroup(MAKE, 2, engine=engine, timeout_s=4.0) as group:
        group.update(lists(1)[0], **HOW)
        os.kill(ranks(engine)[1], signal.SIGSTOP)
        group.update(lists(2)[1], **HOW)

        for episodes in lists(2):
            one.update(episodes, **HOW)
        assert group.counts["died"] >= 1
        assert_close(group.get_weights(), one.get_weights())


def test_modules_learn_in_actors_what_they_learn_here_whoever_is_killed(engine):
    names = ("red", "blue")
    here, in_hosts, of_workers = ({name: learner_of(A2CConfig(), names=(name,)) for name in names} for _ in range(3))
    hosts, workers = PolicyHosts(in_hosts, engine, snapshot_every=2), GradientWorkers(of_workers, 2, engine)
    for seed in range(4):
        episodes = EpisodeList(walks([9, 30, 5], seed, names))
        for name, own in episodes.groups().items():
            here[name].update(own)
        if seed == 3:
            for pid in ranks(engine)[::3]:  # a host, and a worker
                os.kill(pid, signal.SIGKILL)
        hosts.update(episodes)
        workers.update(episodes)

    expected = {name: learner.get_weights()[name] for name, learner in here.items()}
    assert_close(hosts.get_weights(), expected, 0.0)
    assert_close(workers.get_weights(), expected)
    assert (hosts.num_replaced, workers.num_replaced) == (1, 1)
    assert sum(workers.shares.values()) == 2


def q_network(seed=0):
    return QNetwork(OBSERVATIONS, ACTIONS, hidden=(8,), generator=torch.Generator().manual_seed(seed))


def test_updates_from_a_shard_in_an_actor_are_those_from_a_buffer_here(engine):
    make = partial(ReplayBuffer, 200, selector=Proportional(), seed=0)
    weights = []
    for buffer in (make(), ReplayShard(make, engine)):
        learner = learner_of(DQNConfig(n_step=2), q_network)
        updates = ReplayUpdates(learner, buffer, num=8)
        for episodes in lists(6):
            buffer.add(episodes)
            updates.update()
        weights.append(learner.get_weights())

    assert_close(weights[1], weights[0], 0.0)
