"""Groups of runners in Ray actors: the same episodes as in this process, each chunk once, whoever is killed."""

import gc
import os
import pickle
import random
import signal
import weakref

import pytest

from episodia.dataflow import LocalEngine, RayEngine, Rounds, RunnerGroup
from episodia.dataflow.seats import seed_of
from episodia.replay import ReplayBuffer
from episodia.testing import Chaos, assert_same_episode
from ray_objects import are_gone, asynchronous, cartpole, children_of, filtering, new_module, semaphores, semaphores_of


def weights(seed):
    return {name: tensor.numpy() for name, tensor in new_module(seed).state_dict().items()}


def assert_same(found, expected):
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert_same_episode(mine, other, ignore=["times"])
        assert mine.weights_versions == other.weights_versions


def played(group, rounds=2):
    """Return what a group plays in some rounds, with other weights in each."""
    samples = []
    for number in range(rounds):
        samples.append(group.sample(num_timesteps=50, force_reset=not number))
        group.set_weights(weights(number))
    return [episode for sample in samples for episode in sample]


def pids_of(group):
    return group.foreach_runner(lambda _: os.getpid())


def test_a_run_on_ray_plays_as_in_process_and_goes_on_in_either(engine):
    with RunnerGroup(filtering, 2, seed=5, engine=engine) as group, RunnerGroup(filtering, 2, seed=5) as local:
        assert_same(played(group), played(local))
        state = group.get_state()
        with RunnerGroup(filtering, 2, seed=9, engine=LocalEngine()) as resumed:
            resumed.set_state(state)
            assert resumed.counts == group.counts
            assert_same(played(resumed), played(group))


def test_a_sample_arrives_as_a_table_in_shared_memory_and_what_is_stored_is_copied(engine):
    with RunnerGroup(cartpole, 1, seed=5, engine=engine) as group:
        sample = group.sample(num_timesteps=8192)
    rows, sent = weakref.ref(sample.untouched_rows()), []
    pickle.dumps(sample, protocol=5, buffer_callback=sent.append)
    arrays = [array.raw() for array in sent]
    buffer = ReplayBuffer(10_000)
    buffer.add(sample)

    assert sum(array.nbytes for array in arrays) > 100_000
    assert all(array.readonly for array in arrays)
    assert len(buffer) >= 8192
    del sample
    gc.collect()
    assert rows() is None


def kill_at_random(num_kills, seed, num_runners=2):
    """Kill runners at random while a group plays in both modes; return the group's counts and the ids of chunks."""
    rng = random.Random(seed)
    chunks, versions = [], {}
    with RayEngine(spares=1, shows_output=False) as engine:
        group = RunnerGroup(cartpole, num_runners, seed=seed, engine=engine, in_flight=2)
        pids = pids_of(group)
        killed = 0
        while killed < num_kills:
            group.set_weights(weights(killed))
            if rng.random() < 0.3:
                found = group.sample_round(Rounds(min_ready=1, grace_s=0.05), num_timesteps=rng.randint(1, 60))
            else:
                found = [group.poll({"num_timesteps": rng.randint(1, 60)})]
            for delivery in found:
                place = delivery.runner, delivery.incarnation
                assert versions.get(place, 0) <= delivery.version <= group.weights_version
                versions[place] = delivery.version
                assert group.in_flight <= num_runners * 2
                starts = delivery.episodes.t_started.tolist()
                chunks += zip(delivery.episodes.origins, starts, strict=True)
            if rng.random() < 0.5:
                group.request({"num_timesteps": 400})
                os.kill(rng.choice(pids), signal.SIGKILL)
                killed += 1
                group.settle()
                pids = pids_of(group)
        group.settle(60.0)
        counts = dict(group.counts)
        group.close()
    return counts, chunks


def check_kills(counts, chunks, num_kills):
    assert counts["died"] == num_kills
    assert counts["requested"] == counts["delivered"] + counts.get("failed", 0) + counts["lost"]
    assert len(chunks) == len(set(chunks))
    assert counts["lost"] <= 2 * num_kills


def test_f12_each_chunk_comes_once_after_ten_kills():
    counts, chunks = kill_at_random(10, seed=0)

    check_kills(counts, chunks, 10)


@pytest.mark.slow
def test_f12_each_chunk_comes_once_after_a_hundred_kills():
    counts, chunks = kill_at_random(100, seed=1, num_runners=3)

    check_kills(counts, chunks, 100)
    assert len(chunks) > 500


def test_a_runner_that_is_stopped_is_given_up_and_the_others_go_on():
    with RayEngine(spares=1, shows_output=False) as engine:
        group = RunnerGroup(cartpole, 2, engine=engine, call_timeout_s=20.0)
        pids = pids_of(group)
        group._seats._timeout_s = 5.0  # runners have begun; a successor has this long to begin
        os.kill(pids[0], signal.SIGSTOP)
        deliveries = [group.poll({"num_timesteps": 10}) for _ in range(30)]
        while not group.counts["hung"]:
            deliveries.append(group.poll({"num_timesteps": 10}))

        assert {delivery.runner for delivery in deliveries[:30]} == {1}
        assert (group.counts["hung"], group.counts["died"]) == (1, 0)
        assert are_gone(pids[:1])


def test_chaos_kills_processes_and_each_chunk_comes_once():
    engine, chunks = Chaos(RayEngine(spares=1, shows_output=False), seed=3, p_kill=0.2), []
    with engine, RunnerGroup(cartpole, 2, engine=engine) as group:
        for _, delivery in zip(range(15), group.stream(num_timesteps=10), strict=False):
            chunks += zip(delivery.episodes.origins, delivery.episodes.t_started.tolist(), strict=True)
        group.settle()
        counts = group.counts

        assert counts["died"] == engine.num_killed >= 1
        assert len(chunks) == len(set(chunks))
        assert counts["requested"] == counts["delivered"] + counts["lost"]


def test_processes_of_environments_end_with_their_runners(engine):
    with RunnerGroup(asynchronous, 2, engine=engine) as group:
        group.sample(num_timesteps=10)
        pids = pids_of(group)
        envs = [children_of(pid) for pid in pids]
        assert min(map(len, envs)) >= 2
        shared = {*map(semaphores_of, pids)}
        assert min(map(len, shared)) >= 1
        os.kill(pids[0], signal.SIGKILL)
        assert are_gone(envs[0])
        group.request({"num_timesteps": 10**7})  # the other one is killed at work

    assert are_gone([*pids, *envs[1]])
    assert not frozenset.union(*shared) & semaphores()


def test_an_error_of_an_environment_is_raised_with_its_traceback_and_the_others_are_kept(engine):
    def break_first(runner):
        def failing(**_):
            del runner.sample
            raise LookupError("the environment is broken")

        if runner.seed == seed_of(0, 0, 0):
            runner.sample = failing

    with RunnerGroup(cartpole, 2, engine=engine) as group:
        group.foreach_runner(break_first)
        with pytest.raises(LookupError, match="the environment is broken") as found:
            group.sample(num_timesteps=20)
        deliveries = group.sample_round(num_timesteps=5)

        assert "in failing" in str(found.value.__cause__)
        assert {delivery.runner for delivery in deliveries} == {0, 1}
        assert (group.counts["failed"], group.counts["lost"], group.counts["died"]) == (1, 0, 0)
