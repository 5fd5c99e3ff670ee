"""A group of runners is used like one runner, and plays the same on every engine."""

import pickle
import threading
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

from episodia import Columns, EpisodeList, MultiAgentEnvRunner, SingleAgentEnvRunner
from episodia.connectors import MeanStdFilter
from episodia.dataflow import LocalEngine, Rounds, RunnerGroup, ThreadEngine
from episodia.dataflow.seats import seed_of
from episodia.errors import EngineError, EnvRunnerError, EpisodiaError
from episodia.modules import MLPActorCritic
from episodia.testing import SimulatedEngine, assert_same_episode
from scripted_agents import Echo, makers

ENGINES = (LocalEngine, ThreadEngine, SimulatedEngine, partial(SimulatedEngine, 3))
SPACES = gym.make("CartPole-v1")


def new_module(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return MLPActorCritic(SPACES.observation_space, SPACES.action_space, generator=generator)


def cartpole(seed, **settings):
    return SingleAgentEnvRunner("CartPole-v1", new_module(), num_envs=2, seed=seed, **settings)


def filtering(seed):
    return cartpole(seed, env_to_module=[MeanStdFilter()])


def many_agents(seed):
    make, _ = makers(kind="simultaneous", tells_infos=False)
    return MultiAgentEnvRunner(make, Echo(), num_envs=2, seed=seed, agent_to_module_mapping_fn=one_for_all)


def one_for_all(*_):
    return "default_policy"


def weights(seed):
    return {name: tensor.numpy() for name, tensor in new_module(seed).state_dict().items()}


def assert_same(found, expected):
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        assert_same_episode(mine, other, ignore=["times"])
        assert mine.weights_versions == other.weights_versions


def history(engine, make=cartpole):
    """Return what a group plays in three rounds, with other weights in each."""
    with engine, RunnerGroup(make, 3, seed=5, engine=engine) as group:
        samples = []
        for number in range(3):
            samples.append(group.sample(num_timesteps=50))
            group.set_weights(weights(number))
        return [episode for sample in samples for episode in sample]


@pytest.mark.parametrize("make", [cartpole, filtering])
def test_all_engines_play_the_same_in_rounds(make):
    expected = history(LocalEngine(), make)

    for engine in ENGINES[1:]:
        assert_same(history(engine(), make), expected)


def test_a_group_of_one_plays_what_its_runner_plays():
    with RunnerGroup(filtering, 1, seed=5) as group, filtering(seed_of(5, 0, 0)) as runner:
        for number in range(3):
            assert_same(list(group.sample(num_timesteps=40)), list(runner.sample(num_timesteps=40)))
            for either in (group, runner):
                either.set_weights(weights(number))

        mine, other = group.env_to_module["MeanStdFilter"], runner.env_to_module["MeanStdFilter"]
        (found,), (expected,) = mine.get_state()["synced"], other.get_state()["delta"]
        assert found["count"] == expected["count"]
        assert np.allclose(found["mean"], expected["mean"], rtol=1e-12, atol=0)


def test_runners_share_what_is_asked_for():
    with RunnerGroup(cartpole, 3) as group:
        assert int(group.sample(num_timesteps=30).lengths.sum()) >= 30
        assert len(group.sample(num_episodes=4)) == 4
        assert len(group.sample(num_timesteps=0)) == 0
        assert group.get_metrics().num_episodes >= 4
        assert group.counts["requested"] == group.counts["delivered"]


def test_an_evaluation_plays_on_all_runners_and_changes_nothing():
    with RunnerGroup(cartpole, 3, seed=1) as group, RunnerGroup(cartpole, 3, seed=1) as other:
        evaluated = group.evaluate(5, seed=9)

        assert len(evaluated) == 5
        assert all(episode.is_done and not episode.t_started for episode in evaluated)
        assert_same(list(group.evaluate(5, seed=9)), list(evaluated))
        assert_same(list(group.sample(num_timesteps=30)), list(other.sample(num_timesteps=30)))


def test_foreach_runner_reaches_each_runner():
    with RunnerGroup(cartpole, 3, seed=1) as group:
        assert group.foreach_runner(lambda runner: runner.seed) == [seed_of(1, index, 0) for index in range(3)]


def test_many_agents_play_in_groups_too():
    with RunnerGroup(many_agents, 2) as group:
        sample = group.sample(num_timesteps=40)

        assert group.is_multi_agent
        assert sum(len(episode) for episode in sample) >= 40
        group.sample(num_timesteps=40)  # the ledger has seen the chunks of both


def test_a_runner_that_is_late_belongs_to_a_later_round():
    gate = threading.Event()

    class Slow(gym.Wrapper):
        def step(self, action):
            gate.wait(10)
            return super().step(action)

    def make(seed):
        wrap = Slow if seed == seed_of(0, 1, 0) else gym.Wrapper
        return SingleAgentEnvRunner(lambda: wrap(gym.make("CartPole-v1")), new_module(), num_envs=1, seed=seed)

    with ThreadEngine() as engine, RunnerGroup(make, 2, engine=engine) as group:
        first = group.sample_round(Rounds(min_ready=1), num_timesteps=5)
        gate.set()
        second = group.sample_round(num_timesteps=5)

    assert [delivery.runner for delivery in first] == [0]
    assert [(delivery.runner, delivery.number) for delivery in second] == [(0, 1), (1, 0)]
    assert (group.counts["late"], group.counts["lost"]) == (1, 0)


def test_asynchronous_deliveries_come_from_all_runners_with_bounded_flights():
    with ThreadEngine() as engine, RunnerGroup(cartpole, 2, engine=engine, in_flight=2) as group:
        runners = set()
        for delivery in group.stream(num_timesteps=10):
            runners.add(delivery.runner)
            assert group.in_flight <= 4
            if len(runners) == 2:
                break


def test_an_error_of_a_runner_is_raised_and_the_deliveries_of_others_are_kept():
    def fail_once(runner):
        def failing(**_):
            del runner.sample
            raise SystemError("a bug")

        runner.sample = failing

    with RunnerGroup(cartpole, 3) as group:
        group.foreach_runner(lambda runner: fail_once(runner) if runner.seed == seed_of(0, 0, 0) else None)
        with pytest.raises(SystemError, match="a bug"):
            group.sample(num_timesteps=30)
        runners = [delivery.runner for delivery in group.sample_round(num_timesteps=10)]

        assert set(runners) == {0, 1, 2}
        assert (group.counts["failed"], group.counts["lost"]) == (1, 0)
        assert group.counts["requested"] == group.counts["delivered"] + 1 + group.in_flight


def test_a_mistake_that_all_runners_find_is_raised_once():
    with RunnerGroup(cartpole, 3) as group:
        with pytest.raises(EpisodiaError, match="expected one of them") as caught:
            group.sample(num_timesteps=30, num_episodes=3)

        assert len(caught.value.__notes__) == 2
        assert int(group.sample(num_timesteps=30).lengths.sum()) >= 30
        assert (group.counts["failed"], group.counts["delivered"]) == (3, 3)


def test_a_place_that_loses_one_runner_after_another_raises():
    engine = SimulatedEngine(0, p_die=1.0)
    with pytest.raises(EngineError, match="raise `max_restarts=`"):
        RunnerGroup(cartpole, 1, engine=engine, max_restarts=3).sample(num_timesteps=5)


def test_requests_that_never_end_raise_without_a_time_limit():
    with RunnerGroup(cartpole, 1, engine=SimulatedEngine(0)) as group:
        group.engine._p_hang = 1.0
        with pytest.raises(EngineError, match="call_timeout_s"):
            group.sample(num_timesteps=5)


def test_a_group_that_was_saved_goes_on_as_if_it_was_not():
    def played_on(group):
        samples = [group.sample(num_timesteps=30, force_reset=True), group.sample(num_timesteps=30)]
        return [episode for sample in samples for episode in sample]

    with RunnerGroup(filtering, 2, seed=3) as group, RunnerGroup(filtering, 2, seed=3) as other:
        group.sample(num_timesteps=30)
        group.set_weights(weights(7))
        state = group.get_state()
        other.set_state(state)

        assert other.counts == group.counts
        assert_same(played_on(other), played_on(group))


def test_what_has_arrived_is_saved_and_handed_over_after_resuming():
    with RunnerGroup(cartpole, 2, seed=3) as group, RunnerGroup(cartpole, 2, seed=3) as other:
        group.request({"num_timesteps": 10})
        state = group.get_state()
        other.set_state(state)
        found = [other.poll({"num_timesteps": 10}, 0) for _ in range(2)]

        assert [delivery.runner for delivery in found] == [0, 1]
        assert other.get_metrics().num_env_steps == 20
        expected = group.poll({"num_timesteps": 10}, 0)
        assert_same(list(found[0].episodes), list(expected.episodes))


def test_then_is_applied_where_the_runner_lives():
    with RunnerGroup(cartpole, 2, then=lambda runner: lambda episodes, _: (runner.seed, len(episodes))) as group:
        deliveries = group.sample_round(num_timesteps=10)

    assert [delivery.episodes for delivery in deliveries] == [(seed_of(0, index, 0), 2) for index in range(2)]


def test_the_lookback_of_a_learner_reaches_all_runners():
    with RunnerGroup(cartpole, 2) as group:
        group.require_lookback(3)
        group.sample(num_timesteps=40)

        assert max(group.sample(num_timesteps=40).lookbacks) == 3


def test_weights_that_do_not_fit_are_rejected_and_a_closed_group_too():
    group = RunnerGroup(cartpole, 1)
    with pytest.raises(EnvRunnerError):
        group.set_weights({"unknown": np.zeros(1)})
    assert group.weights_version == 0
    group.close()
    group.close()

    with pytest.raises(EngineError, match="closed"):
        group.sample(num_timesteps=1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_runners": 0},
        {"num_runners": "3"},
        {"in_flight": 0},
        {"seed": -1},
        {"engine": "threads"},
        {"call_timeout_s": -1},
        {"call_timeout_s": "3"},
        {"max_restarts": -1},
    ],
)
def test_wrong_arguments_are_rejected(arguments):
    with pytest.raises(EngineError):
        RunnerGroup(cartpole, **{"num_runners": 1, **arguments})


def test_a_delivery_travels_as_a_table():
    with RunnerGroup(cartpole, 1) as group:
        (delivery,) = group.sample_round(num_timesteps=20)
    arrived = pickle.loads(pickle.dumps(delivery))

    assert isinstance(arrived.episodes, EpisodeList)
    assert arrived.episodes.is_untouched
    assert arrived.num_steps == 20
    assert np.array_equal(arrived.episodes.flat(Columns.OBS).values, delivery.episodes.flat(Columns.OBS).values)


def test_the_time_that_runners_take_to_begin_is_not_that_of_their_calls():
    engine = SimulatedEngine(0, p_die=0.2, begin_s=90.0)  # a call takes at most 12 s
    with RunnerGroup(cartpole, 2, engine=engine, call_timeout_s=15.0) as group:
        for _ in range(20):
            group.sample_round(num_timesteps=2)

        assert group.counts["died"] >= 2
        assert group.counts["hung"] == 0


def test_successors_are_alive_when_they_have_delivered():
    alive = set()
    with RunnerGroup(cartpole, 2, engine=SimulatedEngine(0, p_die=0.3)) as group:
        for _ in zip(range(20), group.stream(num_timesteps=2), strict=False):
            alive.add(group.num_alive)
        group.settle()

    assert alive >= {1, 2}
