"""Configs are checked when they are made, and never change."""

from __future__ import annotations

import dataclasses

import pytest

from episodia.connectors import PiecewiseLinearSchedule
from episodia.errors import LearnerError
from episodia.learners import A2CConfig, AdaptiveKL, ClipByNorm, OptimizerConfig, PPOConfig, ReinforceConfig

CONFIGS = [ReinforceConfig, A2CConfig, PPOConfig]
RISING = PiecewiseLinearSchedule([(0, 0.5), (10, 1.5)])
SINKING = PiecewiseLinearSchedule([(0, 0.5), (10, -0.5)])


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 1.1),
        ("gamma", float("nan")),
        ("gamma", "0.9"),
        ("gamma", RISING),
        ("learning_rate", -1e-3),
        ("learning_rate", SINKING),
        ("entropy_coefficient", -0.1),
        ("on_non_finite", "ignore"),
        ("max_seq_len", 0),
        ("burn_in", -1),
        ("burn_in", 1.0),
    ],
)
def test_a_number_out_of_its_range_is_an_error_that_names_it(config, name, value):
    with pytest.raises(LearnerError, match=rf"{config.__name__}: found .*`{name}"):
        config(**{name: value})


def lowered(t):
    return 1e-3 / (t + 1)


@pytest.mark.parametrize("config", [*CONFIGS, OptimizerConfig])
@pytest.mark.parametrize("value", [lowered, "0.1", [(0, 0.1)]])
def test_a_setting_that_may_change_asks_for_a_number_or_a_schedule(config, value):
    with pytest.raises(
        LearnerError,
        match=rf"{config.__name__}: found `learning_rate=.*a number, or a schedule.*PiecewiseLinearSchedule",
    ):
        config(learning_rate=value)


@pytest.mark.parametrize(
    ("config", "name"),
    [(PPOConfig, "gamma"), (PPOConfig, "lambda_"), (AdaptiveKL, "initial"), (ClipByNorm, "limit")],
)
def test_a_setting_that_cannot_change_rejects_a_schedule(config, name):
    with pytest.raises(LearnerError, match=rf"{config.__name__}: found `{name}=.*expected a number"):
        config(**{name: PiecewiseLinearSchedule([(0, 0.5), (10, 0.9)])})


@pytest.mark.parametrize("config", [A2CConfig, PPOConfig])
@pytest.mark.parametrize(("name", "value"), [("lambda_", -0.1), ("value_coefficient", -1)])
def test_so_is_one_of_an_actor_critic(config, name, value):
    with pytest.raises(LearnerError, match=rf"{config.__name__}: found `{name}"):
        config(**{name: value})


@pytest.mark.parametrize(("name", "value"), [("clip", 0.0), ("clip", SINKING), ("kl_coefficient", -1.0)])
def test_so_is_one_of_ppo(name, value):
    with pytest.raises(LearnerError, match=f"PPOConfig: found `{name}"):
        PPOConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("initial", 0.0), ("target", 0), ("tolerance", 0.5), ("factor", 0.9), ("lowest", 0.0), ("highest", 1e-4)],
)
def test_so_is_one_of_the_adaptive_penalty(name, value):
    with pytest.raises(LearnerError, match=f"AdaptiveKL: found `{name}"):
        AdaptiveKL(**{name: value})


@pytest.mark.parametrize(("kl", "expected"), [(1.0, 4.0), (0.0, 0.5), (0.01, 1.0), (float("nan"), 1.0)])
def test_the_adaptive_penalty_stays_within_its_bounds(kl, expected):
    rule, coefficient = AdaptiveKL(initial=1.0, target=0.01, lowest=0.5, highest=4.0), 1.0

    for _ in range(9):
        coefficient = rule.after(coefficient, {"kl": kl})

    assert coefficient == expected


def test_the_adaptive_penalty_stays_where_nothing_was_measured():
    assert AdaptiveKL().after(0.7, {}) == 0.7


def test_a_negative_learning_rate_of_an_optimizer_is_an_error():
    with pytest.raises(LearnerError, match="OptimizerConfig: found `learning_rate"):
        OptimizerConfig(learning_rate=-1.0)


@pytest.mark.parametrize("config", CONFIGS)
def test_configs_do_not_change(config):
    made = config()

    with pytest.raises(dataclasses.FrozenInstanceError):
        made.gamma = 0.5


@pytest.mark.parametrize("config", CONFIGS)
def test_a_changed_copy_is_checked_again(config):
    with pytest.raises(LearnerError, match="gamma"):
        dataclasses.replace(config(), gamma=2.0)


@pytest.mark.parametrize("config", CONFIGS)
def test_equal_configs_are_equal(config):
    assert config(gamma=0.5) == config(gamma=0.5) != config(gamma=0.6)
