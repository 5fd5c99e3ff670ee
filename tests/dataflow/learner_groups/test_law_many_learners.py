"""Several learners together learn what one learner would, whoever has which episodes."""

import time
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from episodia.dataflow import LearnerGroup, LocalEngine, ThreadEngine
from episodia.dataflow.learner_groups.sharding import balanced_ranges
from episodia.errors import ConnectorError, EngineError
from episodia.learners import A2CConfig, AdaptiveKL, ClipByNorm, OptimizerConfig, PPOConfig, ReinforceConfig
from random_walks import learner_of, lstm, mlp, walks

PPO = PPOConfig(kl_coefficient=AdaptiveKL(initial=0.01, target=0.001), gradient_processors=(ClipByNorm(0.3),))
HOW = {"num_epochs": 2, "minibatch_size": 16}
LISTS = [[9, 30, 4, 17, 12], [40], [5, 6, 50, 3], [20, 20]]


def assert_close(found, expected, tolerance=1e-5):
    assert found.keys() == expected.keys()
    for module_id, named in expected.items():
        for name, tensor in named.items():
            assert torch.allclose(found[module_id][name], tensor, atol=tolerance, rtol=0), (module_id, name)


def assert_same_metrics(found, expected):
    assert found.keys() == expected.keys()
    for module_id, named in expected.items():
        assert found[module_id].keys() == named.keys()
        for name in named.keys() - {"explained_variance"}:  # no average over steps: ranks measure it of their parts
            number = named[name]
            assert found[module_id][name] == pytest.approx(number, rel=1e-4, abs=1e-5), (module_id, name)


def run(config, num_learners, make=mlp, names=None, how=HOW, lists=LISTS, timeout_s=20.0):
    """Return weights and metrics of one learner, and of a group, after some updates; ranks must be equal, bit for bit."""
    one = learner_of(config, make, names)
    with ThreadEngine() as engine:
        group = LearnerGroup(partial(learner_of, config, make, names), num_learners, engine=engine, timeout_s=timeout_s)
        for seed, lengths in enumerate(lists):
            episodes = walks(lengths, seed, names or (None,))
            expected, found = one.update(episodes, **how), group.update(episodes, **how)
            assert_same_metrics(found, expected)
            for name in expected.rows:
                assert all(np.allclose(found.rows[name][k], v, atol=1e-4) for k, v in expected.rows[name].items())
        states = group._asked("get_state", [()] * num_learners).results
        own = group.get_state()
    for state in states[1:]:
        for name, named in states[0]["weights"].items():
            assert all(torch.equal(tensor, state["weights"][name][key]) for key, tensor in named.items())
        assert state["coefficients"] == states[0]["coefficients"]
        assert state["generator"] == states[0]["generator"] == own["generator"]
    assert group.num_steps == one.num_steps
    return group.get_weights(), one.get_weights()


@pytest.mark.parametrize("num_learners", [1, 2, 3])
@pytest.mark.parametrize("config", [PPO, A2CConfig(), ReinforceConfig()])
def test_several_learners_learn_what_one_learns(config, num_learners):
    assert_close(*run(config, num_learners))


@pytest.mark.parametrize("num_learners", [2, 3])
def test_recurrent_learners_do(num_learners):
    assert_close(*run(PPO, num_learners, make=lstm))


def test_modules_that_only_some_ranks_have_do():
    assert_close(*run(PPO, 3, names=("red", "blue", "green"), lists=[[9, 30, 4, 7], [5, 8], [6], [3, 30, 3, 5, 6]]))


def test_all_rows_at_once_do():
    assert_close(*run(PPO, 2, how={"num_epochs": 3}))


@settings(max_examples=15)
@given(
    lists=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=3),
    num_learners=st.integers(2, 4),
    size=st.sampled_from([None, 5, 33]),
    shuffle=st.booleans(),
)
def test_any_lists_do(lists, num_learners, size, shuffle):
    how = {"num_epochs": 2, "minibatch_size": size, "shuffle": shuffle}

    assert_close(*run(PPO, num_learners, lists=lists, how=how), tolerance=2e-5)


def test_gradients_of_two_halves_are_those_of_the_whole():
    config = A2CConfig(optimizers=(OptimizerConfig(optimizer=torch.optim.SGD, learning_rate=1.0),))
    found, expected = run(config, 2, how={}, lists=[[30, 31]])
    before = learner_of(config).get_weights()

    for name, tensor in expected["default_policy"].items():
        gradient, own = (
            before["default_policy"][name] - tensor,
            before["default_policy"][name] - found["default_policy"][name],
        )
        assert torch.linalg.vector_norm(own - gradient) <= 1e-5 * torch.linalg.vector_norm(gradient) + 1e-7


def test_a_loss_that_is_not_finite_at_one_rank_skips_the_step_everywhere():
    def spoilt(*args):
        episodes = walks(*args)
        observations = np.array(episodes[-1].get_observations())
        observations[3] = 9.0
        episodes[-1].set_observations(new_data=observations)
        return episodes

    one = learner_of(PPO)
    with ThreadEngine() as engine:
        group = LearnerGroup(partial(learner_of, PPO), 3, engine=engine, timeout_s=20.0)
        expected, found = one.update(spoilt([30, 20, 9]), **HOW), group.update(spoilt([30, 20, 9]), **HOW)

    assert found["default_policy"]["num_skipped"] == expected["default_policy"]["num_skipped"] == 2
    assert_close(group.get_weights(), one.get_weights())


def test_a_failure_at_one_rank_is_raised_and_the_group_goes_on():
    with ThreadEngine() as engine:
        group = LearnerGroup(partial(learner_of, A2CConfig()), 3, engine=engine, timeout_s=20.0)
        bad = walks([20, 20, 20])
        bad[2].set_rewards(new_data=np.full(20, np.inf))
        with pytest.raises(ConnectorError):
            group.update(bad)
        one = learner_of(A2CConfig())

        one.update(walks([9, 9, 9]))
        group.update(walks([9, 9, 9]))
        assert_close(group.get_weights(), one.get_weights())


def test_a_group_goes_on_from_the_state_of_a_learner_and_the_other_way_round():
    one, other = learner_of(PPO), learner_of(PPO)
    with ThreadEngine() as engine:
        group = LearnerGroup(partial(learner_of, PPO), 2, engine=engine, timeout_s=20.0)
        one.update(walks([30, 8]), **HOW)
        group.set_state(one.get_state())
        group.update(walks([12, 13, 14], 1), **HOW)
        other.set_state(group.get_state())

    one.update(walks([12, 13, 14], 1), **HOW)
    assert_close(other.get_weights(), one.get_weights())
    for learner in (one, other):
        learner.update(walks([9, 40], 2), **HOW)
    assert_close(other.get_weights(), one.get_weights())


def test_weights_and_gradients_reach_all_ranks():
    with ThreadEngine() as engine:
        group = LearnerGroup(partial(learner_of, A2CConfig()), 2, engine=engine, timeout_s=20.0)
        one = learner_of(A2CConfig())
        batch = one.batch_of(walks([20, 10]))
        for learner in (one, group):
            learner.set_weights({"default_policy": mlp(7).state_dict()})
            learner.apply_gradients([learner.compute_gradients(batch)], weights=[30])
            learner.update(walks([6, 7]))

        assert_close(group.get_weights(), one.get_weights())
        assert group.num_steps_of(batch) == {"default_policy": 30}


def test_an_engine_that_runs_one_call_after_another_is_rejected():
    with pytest.raises(EngineError, match=r"Pass `RayEngine\(\)`"):
        LearnerGroup(partial(learner_of, PPO), 2, engine=LocalEngine())


@given(lengths=st.lists(st.integers(0, 30), max_size=12), count=st.integers(1, 6))
def test_ranges_cover_all_positions_and_none_could_be_smaller(lengths, count):
    ranges = balanced_ranges(lengths, count)
    largest = max(sum(lengths[begin:end]) for begin, end in ranges)

    assert len(ranges) == count
    assert [position for begin, end in ranges for position in range(begin, end)] == list(range(len(lengths)))
    assert largest == smallest_possible(tuple(lengths), count)


def smallest_possible(lengths, count):
    if count == 1 or not lengths:
        return sum(lengths)
    return (
        min(max(sum(lengths[:end]), smallest_possible(lengths[end:], count - 1)) for end in range(len(lengths) + 1))
        if len(lengths) <= 6
        else balanced_by_search(lengths, count)
    )


def balanced_by_search(lengths, count):
    for most in range(max(lengths), sum(lengths) + 1):
        parts, total = 1, 0
        for length in lengths:
            parts, total = (parts, total + length) if total + length <= most else (parts + 1, length)
        if parts <= count:
            return most
    return sum(lengths)


def test_ranks_that_begin_late_are_waited_for():
    made = iter(range(4))

    def make():
        time.sleep(1.5 if next(made) == 1 else 0.0)  # one of the ranks
        return learner_of(PPO)

    with ThreadEngine() as engine, LearnerGroup(make, 2, engine=engine, timeout_s=1.0) as group:
        group.update(walks([9, 30, 4], 0), **HOW)

        assert group.counts == {}
