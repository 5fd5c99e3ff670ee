"""What the examples promise: memory, cooperation, two networks at once, a rule that is beaten; with steps and levels."""

from __future__ import annotations

import pytest

from examples import example

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.learning) for seed in (1, 2))]


@pytest.mark.parametrize("seed", SEEDS)
def test_recurrent_ppo_recalls_a_cue_seen_10_steps_ago_within_40_000_steps(seed):
    assert example("recurrent_ppo").main(["--steps", "39000", "--seed", str(seed)]) >= 0.95


@pytest.mark.parametrize("seed", SEEDS)
def test_ppo_without_memory_stays_at_chance(seed):
    score = example("recurrent_ppo").main(["--steps", "39000", "--memory", "none", "--seed", str(seed)])

    # 200 games: chance is 50 %, and three standard deviations are 11 %.
    assert 0.39 < score < 0.61


@pytest.mark.parametrize("seed", SEEDS)
def test_multi_agent_ppo_reaches_90_percent_of_the_best_possible_within_40_000_steps(seed):
    assert example("multi_agent_ppo").main(["--steps", "39000", "--seed", str(seed)]) >= 0.9


@pytest.mark.parametrize("seed", SEEDS)
def test_ppo_beats_the_rule_in_9_of_10_rounds_within_20_000_steps(seed):
    assert example("rule_based_opponent").main(["--steps", "19000", "--seed", str(seed)]) >= 9.0


@pytest.mark.parametrize("seed", SEEDS)
def test_two_modules_that_learn_at_once_open_95_percent_of_the_right_doors_within_20_000_steps(seed):
    """Neither can do it without the other: with one that does not learn, one door in two is right."""
    assert example("two_networks").main(["--steps", "19000", "--seed", str(seed)]) >= 0.95
