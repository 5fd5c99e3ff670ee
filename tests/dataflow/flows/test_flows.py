"""Flows are lazy, keep their order, say where they fail and why they stall, and go on after they were saved."""

import time
from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episodia import SingleAgentEnvRunner
from episodia.dataflow import (
    ALL,
    Flow,
    Pulled,
    RatioGates,
    RunnerGroup,
    ThreadEngine,
    at_least,
    concurrently,
    duplicate,
    rollouts,
    union,
)
from episodia.errors import FlowError, FlowStalledError
from episodia.testing import SimulatedEngine

weights = st.sampled_from([1, 2, 3, 0.5, 2.5, 0.25, 0.1, 1.5])


def endless(name):
    return Flow(Pulled(lambda: name), name=name)


def cartpole(seed):
    return SingleAgentEnvRunner(lambda: gym.make("CartPole-v1"), seed=seed)


def test_nothing_runs_until_somebody_pulls():
    ran = []
    flow = Flow(range(5)).tap(ran.append).for_each(str)

    assert ran == []
    assert flow.take(2) == ["0", "1"]
    assert ran == [0, 1]
    assert flow.take(9) == ["2", "3", "4"]


@given(st.lists(st.integers(0, 9)), st.integers(1, 4))
def test_stages_do_what_comprehensions_do(items, count):
    flow = Flow(items).filter(lambda item: item % 3).for_each(lambda item: [item] * (item % 4)).flatten().batch(count)

    expected = [item for item in items if item % 3 for _ in range(item % 4)]
    assert list(flow) == [expected[at : at + count] for at in range(0, len(expected) - count + 1, count)]


@given(st.lists(weights, min_size=1, max_size=4), st.integers(1, 40))
def test_weights_of_turns_are_exact_over_each_window(given_weights, rounds):
    flow = concurrently([endless(number) for number in range(len(given_weights))], weights=given_weights)
    whole = int(sum(Fraction(str(weight)) for weight in given_weights) * rounds)
    found = flow.take(whole)

    total = sum(Fraction(str(weight)) for weight in given_weights)
    for number, weight in enumerate(given_weights):
        expected = Fraction(str(weight)) / total * whole
        assert abs(found.count(number) - expected) <= 2 * max(1, Fraction(str(weight)))
        if not whole % 1 and float(Fraction(str(weight)) * rounds).is_integer() and whole == total * rounds:
            assert abs(found.count(number) - Fraction(str(weight)) * rounds) < 1


def test_all_takes_what_is_there():
    stock = list("abc")
    taking = Flow(Pulled(lambda: stock.pop(0)), gate=lambda: bool(stock) or "is empty")
    found = concurrently([taking, endless("x")], weights=[ALL, 1]).take(5)

    assert found == ["a", "b", "c", "x", "x"]


def test_only_chosen_outputs_come_out_and_the_others_run():
    ran = []
    flow = concurrently([Flow(range(5)).tap(ran.append), endless("x")], output=[1])

    assert flow.take(3) == ["x"] * 3
    assert ran == [0, 1, 2]


def test_a_flow_whose_gate_is_shut_is_left_out_of_its_turn():
    is_open = []
    gated = Flow(Pulled(lambda: "gated"), gate=lambda: bool(is_open) or "closed for now")
    flow = concurrently([gated, endless("x")], weights=[1, 0.1])

    assert flow.take(2) == ["x", "x"]
    is_open.append(True)
    assert "gated" in flow.take(2)


def test_whichever_has_something_comes():
    shut = Flow(Pulled(lambda: "never"), gate=lambda: "shut")

    assert union(shut, Flow("ab")).take(2) == ["a", "b"]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_a_union_has_all_items_of_all_flows(lengths):
    flows = [Flow([(number, at) for at in range(length)]) for number, length in enumerate(lengths)]
    found = list(union(*flows))

    assert sorted(found) == [(number, at) for number, length in enumerate(lengths) for at in range(length)]


def test_flows_ahead_of_whichever_comes_out_end_with_it():
    fed = []
    feed = endless("fed").tap(fed.append)

    assert list(concurrently([feed, Flow("ab")], mode="async", output=[1])) == ["a", "b"]
    assert len(fed) < 5


def test_a_flow_that_would_wait_for_ever_says_why():
    buffer = []
    learn = Flow(Pulled(lambda: buffer), gate=at_least(lambda: len(buffer), 100, "steps"), name="replay")
    store = Flow(Pulled(lambda: 1), gate=lambda: "the buffer is full", name="store")
    with pytest.raises(FlowStalledError, match=r"store: the buffer is full; replay: waits for 100 steps, there are 0"):
        next(concurrently([store, learn]))
    with pytest.raises(FlowStalledError, match="replay"):
        next(learn)


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(1, 4))
def test_branches_see_every_item_and_none_is_too_far_ahead(pulls, max_skew):
    branches, seen = duplicate(Flow(iter(range(100))), 3, max_skew=max_skew), [[], [], []]
    for number in pulls:
        if len(seen[number]) - min(map(len, seen)) < max_skew:
            seen[number].append(next(branches[number]))
        else:
            with pytest.raises(FlowStalledError, match="slower branch"):
                next(branches[number])

    for items in seen:
        assert items == list(range(len(items)))


def test_an_error_names_the_stage_and_where_the_item_comes_from():
    def divide(_):
        return 1 // 0

    with RunnerGroup(cartpole, 2) as group:
        flow = rollouts(group, "async", num_timesteps=5).for_each(divide)
        with pytest.raises(ZeroDivisionError) as caught:
            next(flow)
    where = "flow 'rollouts(async)', stage 1 of 1 (for_each divide), item 0 of the source of runner 0"
    assert caught.value.__notes__ == [f"Raised in {where}, which is dropped."]


@pytest.mark.parametrize(
    "flow", [Flow(Pulled(lambda: 1 // 0), name="draw"), Flow([1], gate=lambda: 1 // 0, name="draw")]
)
def test_an_error_before_the_stages_names_the_innermost_flow(flow):
    with pytest.raises(ZeroDivisionError) as caught:
        next(union(flow.for_each(str), Flow([])))

    assert caught.value.__notes__ == ["Raised in flow 'draw', before its stages."]


def test_a_stage_that_stops_iterating_is_an_error_and_no_end():
    with pytest.raises(FlowError, match="StopIteration"):
        list(Flow([1]).for_each(lambda _: next(iter(()))))


@given(st.integers(0, 30))
def test_a_flow_between_two_items_can_be_saved_and_goes_on(pulled):
    def flows(first=0):
        numbers = iter(range(first, 100))
        counted = Flow(Pulled(lambda: next(numbers)))
        left, right = duplicate(counted.batch(2), max_skew=3)
        return concurrently([left.flatten(), right.for_each(sum)], weights=[1.5, 1])

    flow = flows()
    flow.take(pulled)
    state = flow.get_state()
    read = state["source"]["flows"][0]["source"]["flow"]["num_items"][0]
    resumed = flows(read)
    resumed.set_state(state)

    assert resumed.take(20) == flow.take(20)


@pytest.mark.parametrize("pulled", [0, 1, 3])
def test_a_resumed_flow_goes_on_after_the_items_that_were_read(pulled):
    flow, resumed = (Flow(range(10)).batch(3).for_each(sum) for _ in range(2))
    flow.take(pulled)
    resumed.take(2)
    resumed.set_state(flow.get_state())

    assert list(resumed) == list(flow)


def test_an_iterator_goes_on_where_it_is():
    numbers = iter(range(10))
    flow = Flow(numbers)
    flow.take(4)
    resumed = Flow(numbers)
    resumed.set_state(flow.get_state())

    assert next(resumed) == 4


def test_ratios_of_learned_to_inserted_are_kept():
    ratio = RatioGates(2.0, tolerance=4.0)
    store = endless("store").gated(ratio.inserts).tap(ratio.inserted)
    learn = endless("learn").gated(ratio.learns).tap(ratio.learned)
    found = union(store, learn).take(300)

    assert abs(found.count("learn") - 2 * found.count("store")) <= 6


def test_the_time_in_which_a_flow_waits_is_counted():
    def make_slowly(_):
        return lambda episodes, _: time.sleep(0.05) or episodes

    with RunnerGroup(cartpole, 1) as group:
        flow = rollouts(group, "async", then=make_slowly, num_timesteps=5)
        flow.take(2)

    assert flow.time_s[0] >= 0.1


def test_a_picture_has_counts_and_gates():
    flow = concurrently([Flow(range(3)).for_each(str), Flow("ab", gate=lambda: "shut")])
    next(flow)

    assert "for_each str (1 items" in repr(flow)
    assert "[shut]" in repr(flow)
    assert "<td>for_each str</td><td>1</td>" in flow._repr_html_()


@pytest.mark.parametrize("engine", [ThreadEngine, SimulatedEngine])
def test_rollouts_come_in_rounds_or_as_they_come(engine):
    with engine() as own, RunnerGroup(cartpole, 2, engine=own) as group:
        rounds = rollouts(group, num_timesteps=5).take(2)
        assert [[delivery.runner for delivery in deliveries] for deliveries in rounds] == [[0, 1]] * 2
        pairs = rollouts(group, "async", num_timesteps=5).zip_with_source().take(4)
        assert all(runner == delivery.runner for runner, delivery in pairs)
        assert group.in_flight <= 2


def test_asynchronous_rollouts_replace_runners_that_hang():
    engine = SimulatedEngine(1, p_hang=0.3, p_die=0.2)
    with RunnerGroup(cartpole, 2, engine=engine, call_timeout_s=20.0) as group:
        found = rollouts(group, "async", num_timesteps=3).take(20)

        assert len(found) == 20
        assert group.counts["hung"] > 0


def test_asynchronous_rollouts_go_on_when_all_runners_have_died():
    with RunnerGroup(cartpole, 1, engine=SimulatedEngine(1, p_die=0.5)) as group:
        assert len(rollouts(group, "async", num_timesteps=3).take(20)) == 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: Flow(3),
        lambda: Flow([], "stage"),
        lambda: Flow([], gate=True),
        lambda: Flow([]).gated("open"),
        lambda: Flow([]).for_each(3),
        lambda: Flow([]).filter(None),
        lambda: Flow([]).tap("print"),
        lambda: rollouts(cartpole(0)),
        lambda: Flow([]).batch(0),
        lambda: concurrently([]),
        lambda: concurrently([Flow([])], weights=[0]),
        lambda: concurrently([Flow([])], weights=[1, 2]),
        lambda: concurrently([Flow([])], mode="sideways"),
        lambda: concurrently([Flow([])], output=[3]),
        lambda: concurrently([Flow([])], mode="async", weights=[1]),
        lambda: duplicate(Flow([]), 0),
        lambda: Flow([]).batch(2).set_state(Flow([]).get_state()),
    ],
)
def test_wrong_arguments_are_rejected(make):
    with pytest.raises(FlowError):
        make()


@pytest.mark.parametrize("junk", [None, 3, np.array(1.5), np.zeros(2), object(), [None], "a"])
def test_what_is_no_flow_is_rejected(junk):
    for call in (concurrently, duplicate):
        with pytest.raises(FlowError, match="found"):
            call(junk)


def test_a_number_in_an_array_is_no_source():
    with pytest.raises(FlowError, match="expected an iterable"):
        Flow(np.array(1.5))
