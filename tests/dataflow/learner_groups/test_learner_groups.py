"""Policy hosts and gradient workers learn what learners here learn, whoever dies meanwhile."""

import pytest
import torch

from cooperating_agents import DONE, SEEN, runner_of
from episodia.dataflow import (
    ConcatSteps,
    GradientWorkers,
    LocalEngine,
    PolicyHosts,
    RunnerGroup,
    ThreadEngine,
    rollouts,
    train_modules,
)
from episodia.errors import EngineError
from episodia.learners import A2CConfig, Learner, PPOConfig
from episodia.modules import MLPActorCritic
from episodia.testing import SimulatedEngine

MODULES = ("first", "others")


def new_modules():
    modules = {}
    for seed, name in enumerate(MODULES):
        generator = torch.Generator().manual_seed(seed)
        modules[name] = MLPActorCritic(SEEN, DONE, hidden=(8,), generator=generator)
    return modules


def new_learners(config=None):
    config = config or PPOConfig(learning_rate=0.01)
    return {name: Learner({name: module}, config, seed=0) for name, module in new_modules().items()}


def make_runner(seed):
    return runner_of(new_modules(), seed)


def samples(count):
    with RunnerGroup(make_runner, 2) as group:
        return [group.sample(num_timesteps=40) for _ in range(count)]


def assert_same_weights(found, expected, tolerance=0.0):
    assert set(found) == set(expected) == set(MODULES)
    for module_id, named in expected.items():
        for name, tensor in named.items():
            assert torch.allclose(found[module_id][name], tensor, rtol=0, atol=tolerance), (module_id, name)


def weights_of(learners):
    return {name: weights for learner in learners.values() for name, weights in learner.get_weights().items()}


def updated_here(config=None, lists=None, **how):
    learners = new_learners(config)
    for episodes in lists:
        for name, own in episodes.groups().items():
            learners[name].update(own, **how)
    return weights_of(learners)


@pytest.mark.parametrize("make_engine", [LocalEngine, ThreadEngine])
def test_hosts_learn_one_after_another_or_in_parallel_what_learners_here_learn(make_engine):
    lists, how = samples(3), {"num_epochs": 2, "minibatch_size": 16}
    with make_engine() as engine:
        hosts = PolicyHosts(new_learners(), engine, **how)
        metrics = [hosts.update(episodes) for episodes in lists]
        assert_same_weights(hosts.get_weights(), updated_here(lists=lists, **how))

    assert metrics[-1]["__all_modules__"]["num_updates"] == 6
    assert set(metrics[-1]) == {*MODULES, "__all_modules__"}


def test_hosts_go_on_from_a_state():
    lists = samples(4)
    with LocalEngine() as engine:
        one, two = PolicyHosts(new_learners(), engine), PolicyHosts(new_learners(), engine)
        for episodes in lists[:2]:
            one.update(episodes)
        two.set_state(one.get_state())
        for episodes in lists[2:]:
            for hosts in (one, two):
                hosts.update(episodes)

        assert_same_weights(two.get_weights(), one.get_weights())


def test_f11_hosts_that_die_or_hang_leave_no_trace_in_the_weights():
    lists = samples(5)
    expected, replaced = updated_here(lists=lists), 0
    for seed in range(6):
        with SimulatedEngine(seed, p_die=0.2, p_hang=0.1) as engine:
            hosts = PolicyHosts(new_learners(), engine, snapshot_every=2, call_timeout_s=30.0)
            for episodes in lists:
                hosts.update(episodes)
            assert_same_weights(hosts.get_weights(), expected)
            replaced += hosts.num_replaced

    assert replaced > 5


@pytest.mark.parametrize("by", ["steps", "agents", "modules"])
@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_gradient_workers_take_the_step_of_the_whole_batch(num_workers, by):
    config, lists = A2CConfig(), samples(3)
    with LocalEngine() as engine:
        workers = GradientWorkers(new_learners(config), num_workers, engine, by=by)
        for episodes in lists:
            metrics = workers.update(episodes)

        assert_same_weights(workers.get_weights(), updated_here(config, lists), 2e-5)
    assert sum(workers.shares.values()) == num_workers
    assert metrics["__all_modules__"]["num_updates"] == 6


def test_workers_are_shared_by_what_modules_have_to_do():
    (episodes,) = samples(1)
    with LocalEngine() as engine:
        shares = {}
        for by in ("steps", "agents", "modules"):
            workers = GradientWorkers(new_learners(A2CConfig()), 6, engine, by=by)
            workers.update(episodes)
            shares[by] = workers.shares

    # Two of three agents are of the module "others".
    assert shares == {
        "steps": {"first": 2, "others": 4},
        "agents": {"first": 2, "others": 4},
        "modules": {"first": 3, "others": 3},
    }


def test_gradient_workers_that_die_or_hang_leave_no_trace_in_the_weights():
    config, lists, replaced = A2CConfig(), samples(4), 0
    with LocalEngine() as engine:
        undisturbed = GradientWorkers(new_learners(config), 3, engine)
        for episodes in lists:
            undisturbed.update(episodes)
    for seed in range(6):
        with SimulatedEngine(seed, p_die=0.2, p_hang=0.1) as engine:
            workers = GradientWorkers(new_learners(config), 3, engine, call_timeout_s=30.0)
            for episodes in lists:
                workers.update(episodes)
            assert_same_weights(workers.get_weights(), undisturbed.get_weights())
            replaced += workers.num_replaced

    assert replaced > 5


@pytest.mark.parametrize("kind", [PolicyHosts, lambda learners, engine: GradientWorkers(learners, 2, engine)])
def test_two_modules_learn_to_imitate(kind):
    with ThreadEngine() as engine, RunnerGroup(make_runner, 2, engine=engine) as group:
        learners = kind(new_learners(A2CConfig(learning_rate=0.02)), engine)
        played = rollouts(group, num_timesteps=32).flatten().combine(ConcatSteps(64))
        played.for_each(train_modules(learners, group)).take(40)
        returns = [sum(agent.get_return() for agent in game.agent_episodes.values()) for game in group.evaluate(10)]

    assert min(returns) >= 22  # of 24; actions at random have 12


def test_learners_of_other_modules_and_engines_that_lose_all_are_rejected():
    for make in (PolicyHosts, lambda learners, engine: GradientWorkers(learners, 2, engine)):
        for learners in ({"first": Learner(new_modules(), A2CConfig())}, {"other": new_learners()["first"]}, {}):
            with pytest.raises(EngineError, match="just the module"):
                make(learners, LocalEngine())
    with SimulatedEngine(0, p_die=1.0) as engine, pytest.raises(EngineError, match="max_restarts"):
        GradientWorkers(new_learners(), 2, engine, max_restarts=3).update(samples(1)[0])
