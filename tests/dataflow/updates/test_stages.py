"""Stages of flows: steps, modules, gradients, replay, a learner in a thread, records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import SingleAgentEnvRunner
from episodia.columns import DEFAULT_MODULE_ID
from episodia.dataflow import (
    ConcatSteps,
    DropStale,
    Every,
    Flow,
    GradientsThere,
    LocalEngine,
    PolicyHosts,
    Report,
    RunnerGroup,
    ThreadEngine,
    Updates,
    allocate,
    apply_gradients,
    compute_gradients,
    concurrently,
    replay,
    replayed_lists,
    rollouts,
    select_modules,
    store,
    train_one_step,
)
from episodia.env_runners import MultiAgentEnvRunner
from episodia.errors import EngineError, FlowError, FlowStalledError, UnknownArgumentError
from episodia.learners import DQNConfig, PPOConfig, ReplayUpdates
from episodia.modules import QNetwork
from episodia.replay import ReplayBuffer, WholeEpisodes
from episodia.testing import assert_same_items
from list_questions import even_or_odd
from scripted_agents import Echo, makers
from small_learners import is_same, make_runner, new_learner, weights_of


@given(st.integers(1, 60), st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_lists_of_enough_steps_have_all_deliveries_in_order(min_steps, sizes):
    with RunnerGroup(lambda seed: SingleAgentEnvRunner("CartPole-v1", seed=seed), 1) as group:
        deliveries = [group.sample_round(num_timesteps=size)[0] for size in sizes]
    found = list(Flow(deliveries).combine(ConcatSteps(min_steps)))

    expected, held = [], 0
    for size in sizes:
        held += size
        if held >= min_steps:
            expected.append(held)
            held = 0
    assert [listed.lengths.sum() for listed in found] == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda how: train_one_step(new_learner(PPOConfig()), **how),
        lambda how: Updates(new_learner(PPOConfig()), LocalEngine(), **how),
        lambda how: PolicyHosts({DEFAULT_MODULE_ID: new_learner(PPOConfig())}, LocalEngine(), **how),
    ],
)
def test_misspelt_arguments_of_updates_are_rejected_when_a_stage_is_made(make):
    with pytest.raises(UnknownArgumentError, match="Did you mean `minibatch_size`"):
        make({"minibatch_sise": 16})


def test_rounds_that_were_not_flattened_are_rejected():
    with RunnerGroup(make_runner, 1) as group, pytest.raises(FlowError, match="flatten"):
        next(rollouts(group, num_timesteps=10).combine(ConcatSteps(20)))


def test_a_flow_with_held_deliveries_goes_on_from_its_state():
    with RunnerGroup(make_runner, 1) as group:
        deliveries = [group.sample_round(num_timesteps=10)[0] for _ in range(3)]
    half, rest = Flow(deliveries[:1]).combine(ConcatSteps(20)), ConcatSteps(20)
    assert list(half) == []
    rest.set_state(half.get_state()["stages"][0])

    (found,) = Flow(deliveries[1:]).combine(rest)
    (expected,) = Flow(deliveries).combine(ConcatSteps(20))
    assert_same_items(found.flat("rewards").values, expected.flat("rewards").values)


def test_agent_steps_are_counted_if_asked_for():
    make, _ = makers(kind="simultaneous", tells_infos=False)

    def multi(seed):
        return MultiAgentEnvRunner(
            make, {"even": Echo(), "odd": Echo()}, seed=seed, agent_to_module_mapping_fn=even_or_odd
        )

    with RunnerGroup(multi, 1) as group:
        deliveries = [group.sample_round(num_timesteps=5)[0] for _ in range(4)]
    by_agents = list(Flow(deliveries).combine(ConcatSteps(10, count_by="agent_steps")))
    by_envs = list(Flow(deliveries).combine(ConcatSteps(10)))

    assert len(by_agents) > len(by_envs) == 2
    selected = select_modules("odd")(by_envs[0])
    assert set(selected.groups()) == {"odd"}
    assert selected.lengths.sum() == by_envs[0].groups()["odd"].lengths.sum()


def test_gradients_of_parts_that_are_averaged_are_those_of_the_whole():
    with RunnerGroup(make_runner, 3) as group:
        round_ = group.sample_round(num_timesteps=21)
    parts, whole = new_learner(), new_learner()
    apply_gradients(parts)([compute_gradients(parts)(delivery.episodes) for delivery in round_])
    for metrics in Flow([round_]).flatten().combine(ConcatSteps(60)).for_each(train_one_step(whole)):
        assert metrics["default_policy"]["num_steps"] >= 60

    assert is_same(weights_of(parts), weights_of(whole), 1e-5)
    assert not is_same(weights_of(parts), weights_of(new_learner()))


def test_gradients_where_the_runners_are_equal_gradients_here():
    there, here = new_learner(), new_learner()
    with RunnerGroup(make_runner, 2, then=GradientsThere(new_learner)) as group, RunnerGroup(make_runner, 2) as plain:
        apply = apply_gradients(there, group)
        for _ in range(2):
            apply([delivery.episodes for delivery in group.sample_round(num_timesteps=20)])
            samples = [delivery.episodes for delivery in plain.sample_round(num_timesteps=20)]
            apply_gradients(here, plain)(list(map(compute_gradients(here), samples)))

    assert is_same(weights_of(there), weights_of(here))


def test_stale_deliveries_are_dropped_and_counted():
    with RunnerGroup(make_runner, 2) as group:
        old = group.sample_round(num_timesteps=4)
        for _ in range(2):
            group.set_weights(weights_of(new_learner()))
        new = group.sample_round(num_timesteps=4)
        kept = list(Flow([*old, *new]).combine(DropStale(group, 1)))

    assert kept == new
    assert group.counts["stale"] == 2
    assert group.counts["delivered"] == 4


@pytest.mark.parametrize("num_shards", [1, 2])
def test_updates_from_shards_wait_for_rows_and_take_turns(num_shards):
    shards = [ReplayBuffer(1000, seed=number) for number in range(num_shards)]
    learner = new_learner(DQNConfig(), QNetwork)
    with RunnerGroup(lambda seed: make_runner(seed, QNetwork), 2) as group:
        learn = replay([ReplayUpdates(learner, buffer, num=8) for buffer in shards], group, warm_up=20)
        with pytest.raises(FlowStalledError, match="waits for 20 rows, there are 0"):
            next(learn)
        flow = concurrently([rollouts(group, "async", num_timesteps=10).tap(store(*shards)), learn], output=[1])
        flow.take(4)

        assert group.weights_version == 4
        assert all(len(buffer) >= 20 for buffer in shards)
        assert sum(map(len, shards)) >= group.counts["delivered"] * 10


def test_lists_from_a_buffer_update_a_learner_without_replay_of_its_own():
    buffer, learner = ReplayBuffer(500, seed=0), new_learner()
    with RunnerGroup(make_runner, 1) as group:
        for delivery in group.sample_round(num_episodes=6):
            store(buffer)(delivery)
    flow = replayed_lists(buffer, 2, WholeEpisodes()).for_each(train_one_step(learner))

    assert all(np.isfinite(metrics["default_policy"]["loss"]) for metrics in flow.take(3))
    assert not is_same(weights_of(learner), weights_of(new_learner()))


@pytest.mark.parametrize("make_engine", [LocalEngine, ThreadEngine])
def test_a_learner_in_a_worker_learns_what_it_learns_here(make_engine):
    with RunnerGroup(make_runner, 1) as group:
        lists = [group.sample(num_timesteps=30) for _ in range(3)]
    here = new_learner()
    with make_engine() as engine:
        updates = Updates(new_learner(), engine, depth=2, snapshot_every=2)
        feed = Flow(lists, gate=updates.has_room).tap(updates.put)
        both = concurrently([feed, Flow(updates)], mode="async", output=[1])
        for number, listed in enumerate(lists[:2]):
            here.update(listed)
            found = next(both)

            assert is_same(found.weights["default_policy"], weights_of(here))
            assert (found.snapshot is not None) == (number == 1)
        updates.close()


def test_a_learner_without_room_holds_the_feed_back():
    with LocalEngine() as engine:
        updates = Updates(new_learner(), engine, depth=1)
        updates.put([])

        assert updates.has_room() == "1 lists wait for the learner"
        assert updates.why_nothing() == ""


def test_a_record_has_all_counters():
    learner, seen = new_learner(PPOConfig()), []
    with RunnerGroup(make_runner, 2) as group:
        stages = rollouts(group, num_timesteps=10).flatten().combine(ConcatSteps(20))
        report = Report(group, flows=[stages], collectors=[lambda: {"mine": 5}])
        flow = Flow(stages).for_each(train_one_step(learner, group)).for_each(report).tap(Every(2, seen.append))
        records = flow.take(4)

    assert all(
        np.diff([0, *(record["steps"] for record in records)]) >= 20
    )  # one vector step may be more than asked for
    assert records[3]["runners/delivered"] == 8
    assert records[3]["runners/alive"] == 2
    assert records[3]["mine"] == 5
    assert any(name.endswith("ConcatSteps") for name in records[0])
    assert seen == records[1::2]


loads = st.dictionaries(st.text(max_size=2), st.integers(0, 1000), min_size=1, max_size=6)


@given(st.integers(1, 30), loads)
def test_workers_are_shared_by_loads(num_workers, given_loads):
    found = allocate(num_workers, given_loads)
    busy = [key for key, load in given_loads.items() if load]

    assert list(found) == list(given_loads)
    assert sum(found.values()) == (num_workers if busy else 0)
    assert not any(found[key] for key in found if key not in busy)
    if len(busy) <= num_workers:
        assert all(found[key] for key in busy)
    for first in busy:
        for second in busy:
            assert given_loads[first] <= given_loads[second] or found[first] >= found[second]


def test_loads_that_are_no_numbers_are_rejected():
    with pytest.raises(EngineError, match="nan"):
        allocate(2, {"red": float("nan")})
