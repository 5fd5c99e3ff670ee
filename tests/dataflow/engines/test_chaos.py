"""Chaos disturbs any engine, and what is built on it survives."""

import pytest

from episodia.dataflow import LocalEngine, RunnerGroup, ThreadEngine, Updates
from episodia.errors import EngineError
from episodia.learners import A2CConfig
from episodia.testing import Chaos, check_engine
from random_walks import learner_of, walks
from ray_objects import cartpole


@pytest.mark.parametrize("engine", [LocalEngine, ThreadEngine])
def test_without_chaos_it_follows_the_laws_of_engines(engine):
    check_engine(lambda: Chaos(engine()))


def test_late_calls_follow_the_laws_too():
    check_engine(lambda: Chaos(ThreadEngine(), p_delay=0.5, delay_s=0.02))


def test_each_chunk_comes_once_whoever_is_killed_stopped_or_late():
    engine = Chaos(ThreadEngine(), 3, p_kill=0.1, p_stop=0.1, p_delay=0.3, delay_s=0.02)
    with engine, RunnerGroup(cartpole, 2, engine=engine, call_timeout_s=0.5) as group:
        for _, _ in zip(range(60), group.stream(num_timesteps=5), strict=False):
            pass
        group.settle()
        counts = group.counts

        assert counts["requested"] == counts["delivered"] + counts["lost"]
        assert counts["died"] >= 3
        assert counts["hung"] >= 1


def test_a_learner_in_chaos_learns_from_each_list_once():
    one, own = learner_of(A2CConfig()), learner_of(A2CConfig())
    lists = [walks([5, 9], seed) for seed in range(10)]
    with Chaos(ThreadEngine(), 1, p_kill=0.2) as engine:
        updates = Updates(own, engine, depth=20, snapshot_every=2)
        for episodes in lists:
            one.update(episodes)
            updates.put(episodes)
        updates.settle()

        assert engine.num_killed >= 1
        assert updates.num_replaced >= 1
    expected = one.get_weights()["default_policy"]
    assert all((tensor == expected[name]).all() for name, tensor in own.get_weights()["default_policy"].items())


def test_the_same_seed_draws_the_same_fates():
    def killed(seed):
        engine = Chaos(LocalEngine(), seed, p_kill=0.3)
        return [isinstance(error_of(engine, engine.start(list).call("copy")), EngineError) for _ in range(20)]

    assert killed(1) == killed(1) != killed(2)


def error_of(engine, call):
    try:
        engine.wait([call])[0].result()
    except EngineError as error:
        return error
    return None


@pytest.mark.parametrize("name", ["p_kill", "p_stop", "p_delay"])
def test_wrong_probabilities_are_rejected(name):
    with pytest.raises(EngineError):
        Chaos(LocalEngine(), **{name: 2.0})
