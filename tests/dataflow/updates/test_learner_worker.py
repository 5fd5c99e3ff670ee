"""A learner in a worker: each list is in the weights once, whoever dies, and each result comes once."""

from collections import deque

import pytest

from episodia.connectors import MeanStdFilter
from episodia.dataflow import Flow, GradientsThere, LocalEngine, RunnerGroup, ThreadEngine, Updates
from episodia.dataflow.flows.sources import NOTHING
from episodia.errors import EngineError, EpisodeError
from episodia.learners import PPOConfig, default_pipeline
from episodia.testing import SimulatedEngine
from small_learners import is_same, make_runner, new_learner, weights_of

HOW = {"num_epochs": 2, "minibatch_size": 16}


@pytest.fixture(scope="module")
def lists():
    with RunnerGroup(make_runner, 1) as group:
        return [group.sample(num_timesteps=30) for _ in range(10)]


@pytest.fixture(scope="module")
def expected(lists):
    learner, found = new_learner(PPOConfig()), []
    for episodes in lists:
        learner.update(episodes, **HOW)
        found.append(weights_of(learner))
    return found


def learned(updates, lists):
    """Return the weights after each list, which is put in as soon as there is room."""
    waiting, results, found = deque(lists), Flow(updates), []
    for _ in lists:
        while waiting and updates.has_room() is True:
            updates.put(waiting.popleft())
        found.append(next(results).weights["default_policy"])
    return found


def assert_same(found, expected):
    assert [is_same(mine, other) for mine, other in zip(found, expected, strict=True)] == [True] * len(expected)


@pytest.mark.parametrize(("snapshot_every", "schedules"), [(1, 6), (3, 6), (100, 2)])
def test_f11_a_learner_that_dies_or_hangs_leaves_no_trace(lists, expected, snapshot_every, schedules):
    replaced = 0
    for seed in range(schedules):
        with SimulatedEngine(seed, p_die=0.2, p_hang=0.05) as engine:
            updates = Updates(
                new_learner(PPOConfig()), engine, snapshot_every=snapshot_every, call_timeout_s=40.0, **HOW
            )
            assert_same(learned(updates, lists), expected)
            replaced += updates.num_replaced

    assert replaced > schedules


@pytest.mark.slow
def test_f11_a_learner_that_dies_at_any_call_leaves_no_trace_in_thousands_of_schedules(lists, expected):
    for seed in range(2000):
        with SimulatedEngine(seed, p_die=0.3, p_hang=0.1) as engine:
            updates = Updates(new_learner(PPOConfig()), engine, snapshot_every=1 + seed % 5, call_timeout_s=40.0, **HOW)
            assert_same(learned(updates, lists), expected)


@pytest.mark.parametrize("p_die", [0.0, 0.3])
def test_the_state_comes_back_and_goes_on(lists, expected, p_die):
    for seed in range(6):
        with SimulatedEngine(seed, p_die=p_die) as engine:
            first, second = new_learner(PPOConfig()), new_learner(PPOConfig())
            one = Updates(first, engine, depth=9, snapshot_every=2, **HOW)
            two = Updates(second, engine, depth=9, snapshot_every=2, **HOW)
            for episodes in lists[:4]:
                one.put(episodes)
            state = one.get_state()
            second.set_state(first.get_state())
            two.set_state(state)
            assert_same([weights_of(first)], [expected[3]])

            found = [two.poll().weights["default_policy"] for _ in range(4)]
            assert_same([*found, *learned(two, lists[4:])], expected)
            assert two.poll() is NOTHING


def test_a_learner_in_a_thread_that_is_killed_is_replaced(lists, expected):
    with ThreadEngine() as engine:
        updates = Updates(new_learner(PPOConfig()), engine, depth=9, snapshot_every=2, **HOW)
        for number, episodes in enumerate(lists[:6]):
            updates.put(episodes)
            if number in (2, 5):
                updates._worker.kill()
        updates.settle()

        assert_same([updates.poll().weights["default_policy"] for _ in range(6)], expected[:6])
        assert updates.num_replaced >= 1


def test_a_successor_that_forgets_what_has_come_since_is_found(lists, expected, monkeypatch):
    keep = Updates._keep

    def forgetful(self, snapshot, number):
        keep(self, snapshot, number)
        self._since.clear()

    monkeypatch.setattr(Updates, "_keep", forgetful)
    with pytest.raises(Exception):  # noqa: B017, PT011  # results are missing, or weights differ
        test_f11_a_learner_that_dies_or_hangs_leaves_no_trace(lists, expected, 2, 3)


def test_without_snapshots_the_death_of_a_learner_is_an_error(lists):
    with SimulatedEngine(0, p_die=1.0) as engine:
        updates = Updates(new_learner(PPOConfig()), engine, snapshot_every=None)
        updates.put(lists[0])
        with pytest.raises(EngineError, match="snapshot_every"):
            next(Flow(updates))


def test_a_list_that_the_learner_rejects_is_dropped_and_the_others_are_learned_from(lists, expected):
    with LocalEngine() as engine:
        updates = Updates(new_learner(PPOConfig()), engine, depth=9, **HOW)
        updates.put(lists[0])
        updates.put("no episodes")
        updates.put(lists[1])
        found = [next(Flow(updates))]
        with pytest.raises(EpisodeError):
            next(Flow(updates))
        found.append(next(Flow(updates)))

    assert_same([updated.weights["default_policy"] for updated in found], expected[:2])


def test_the_given_learner_stays_as_it_is_until_it_is_asked_for(lists, expected):
    learner = new_learner(PPOConfig())
    before = weights_of(learner)
    with ThreadEngine() as engine:
        updates = Updates(learner, engine, **HOW)
        updates.put(lists[0])
        next(Flow(updates))
        assert_same([weights_of(learner)], [before])
        updates.settle()

    assert_same([weights_of(learner)], expected[:1])


@pytest.mark.parametrize("mode", ["updates", "gradients"])
def test_filters_of_learners_normalise_as_those_of_the_runners_did(mode):
    def learner():
        pipeline = default_pipeline(PPOConfig(), custom=[MeanStdFilter()])
        return new_learner(PPOConfig(), learner_pipeline=pipeline)

    then = GradientsThere(learner) if mode == "gradients" else None
    with RunnerGroup(lambda seed: make_runner(seed, env_to_module=[MeanStdFilter()]), 1, then=then) as group:
        for _ in range(2):
            (delivery,) = group.sample_round(num_timesteps=40)
    if mode == "gradients":
        metrics = delivery.episodes[0].metrics
    else:
        updates = Updates(learner(), LocalEngine())
        updates.put(delivery.episodes, group.acted_with)
        metrics = next(Flow(updates)).metrics

    # The policy that learns is the one that acted.
    assert metrics["default_policy"]["kl"] == pytest.approx(0.0, abs=1e-9)
