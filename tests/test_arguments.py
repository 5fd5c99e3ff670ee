"""Settings: what is a number within its limits, a flag, one of a few words; and what is rejected, with whose error."""

import inspect
import math

import numpy as np
import pytest

import episodia
from episodia import arguments, dataflow, learners, modules, policies, replay, training
from episodia.connectors import View
from episodia.errors import LearnerError, TrainingError, UnknownArgumentError
from episodia.learners import AlgorithmConfig
from episodia.schedules import ExponentialSchedule
from junk import JUNK, problem_with

NUMBERS = {"a fraction": 1.5, "infinity": math.inf, "a negative number": -7, "a large number": 10**30}
WHOLE = {name: value for name, value in NUMBERS.items() if type(value) is int}

# Of things that count as true, as the check below wants them.
LISTS = {"a ragged list", "an empty list", "a tuple", "an empty tuple"}


def accepted(check):
    """Return which junk `check` takes, by name; all else has to be rejected well."""
    results = {name: problem_with(lambda junk=junk: check(junk)) for name, junk in JUNK.items()}
    assert {name: problem for name, (problem, _) in results.items() if problem} == {}
    return {name for name, (_, was_refused) in results.items() if not was_refused}


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (lambda junk: arguments.checked_whole(LearnerError, "it", "n", junk, -10), WHOLE),
        (lambda junk: arguments.checked_whole(LearnerError, "it", "n", junk, -10, below=10), {"a negative number"}),
        (lambda junk: arguments.checked_seed(LearnerError, "it", junk), {"None"}),
        (lambda junk: arguments.checked_number(LearnerError, "it", "n", junk), NUMBERS),
        (lambda junk: arguments.checked_number(LearnerError, "it", "n", junk, 0.0, 2.0), {"a fraction"}),
        (lambda junk: arguments.checked_flag(LearnerError, "it", "n", junk), {"True"}),
        (lambda junk: arguments.checked_choice(LearnerError, "it", "n", junk, ("x", "y")), {"a string"}),
        (lambda junk: arguments.checked_each(LearnerError, "it", "n", junk, bool, "things"), LISTS),
    ],
)
def test_only_what_is_meant_is_accepted(check, expected):
    assert accepted(check) == set(expected)


@pytest.mark.parametrize("number", [3, np.int64(3), np.uint8(3), 3.0, np.float32(3.0)])
def test_numbers_of_numpy_are_numbers_and_become_those_of_python(number):
    assert type(arguments.checked_number(LearnerError, "it", "n", number, 0, 3)) is float
    if not isinstance(number, (float, np.floating)):
        assert type(arguments.checked_whole(LearnerError, "it", "n", number, 3)) is int


def test_an_integer_that_no_float_can_hold_is_no_number():
    with pytest.raises(LearnerError, match="expected a number"):
        arguments.checked_number(LearnerError, "it", "n", 10**400)


def test_a_rejection_names_who_was_given_what():
    with pytest.raises(
        LearnerError, match=r"^update: found `num_epochs=0`, expected an integer of at least 1\. Correct"
    ):
        arguments.checked_whole(LearnerError, "update", "num_epochs", 0, 1)


def test_a_whole_state_in_the_place_of_a_path_does_not_fill_the_screen():
    state = {"weights": np.zeros(100_000), "steps": list(range(100_000))}

    with pytest.raises(LearnerError, match="float64") as raised:
        arguments.checked_path(LearnerError, "save", "path", state)

    assert len(str(raised.value)) < 300


ALGORITHMS = [
    getattr(learners, name) for name in learners.__all__ if name.endswith("Config") and name != "AlgorithmConfig"
]
CONFIGS = [made for made in ALGORITHMS if issubclass(made, AlgorithmConfig) and not inspect.isabstract(made)]


@pytest.mark.parametrize(
    ("made", "misspelt", "meant"),
    [
        *[(made, "optimizr", "optimizers") for made in CONFIGS],
        (learners.PPOConfig, "entropy_coef", "entropy_coefficient"),
        (learners.OptimizerConfig, "learningrate", "learning_rate"),
        (learners.Target, "evry", "every"),
        (learners.Learner, "learner_pipline", "learner_pipeline"),
        (episodia.SingleAgentEnvRunner, "num_env", "num_envs"),
        (episodia.MultiAgentEnvRunner, "look_back", "lookback"),
        (policies.Policy, "env_to_modules", "env_to_module"),
        (policies.MultiAgentPolicy, "env_to_modules", "env_to_module"),
        (modules.DefaultActorCritic, "hiden", "hidden"),
        (modules.QNetwork, "duelling", "dueling"),
        (replay.ReplayBuffer, "capacty", "capacity"),
        (replay.Transitions, "nstep", "n_step"),
        (replay.Proportional, "alfa", "alpha"),
        (replay.RateLimiter, "samples_per_insertion", "samples_per_insert"),
        (dataflow.RunnerGroup, "num_runner", "num_runners"),
        (dataflow.LearnerGroup, "num_learner", "num_learners"),
        (training.Recipe, "epochs", "num_epochs"),
        (training.ReplayRecipe, "batchsize", "batch_size"),
        (training.EvalEvery, "keepbest", "keep_best"),
        (ExponentialSchedule, "halflife", "half_life"),
        (View, "sorce", "source"),
    ],
)
def test_a_misspelt_setting_raises_with_the_nearest_name(made, misspelt, meant):
    with pytest.raises(
        UnknownArgumentError, match=f"^{made.__name__}: found the argument `{misspelt}`.*Did you mean `{meant}`"
    ):
        made(**{misspelt: 1})


def test_signatures_show_the_settings_themselves():
    assert list(inspect.signature(replay.Transitions).parameters) == ["n_step", "gamma"]


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (training.EvalEvery(100, keep_best=False), "EvalEvery(100, episodes=20, keep_best=False)"),
        (training.EarlyStopping(patience=3, least=0.5), "EarlyStopping('return_mean', patience=3, least=0.5)"),
        (dataflow.ConcatSteps(64, count_by="agent_steps"), "ConcatSteps(64, count_by='agent_steps')"),
        (dataflow.RatioGates(2.0, tolerance=8.0), "RatioGates(2, tolerance=8)"),
        (dataflow.LocalEngine(), "LocalEngine()"),
    ],
)
def test_what_a_user_configures_shows_its_settings(made, shown):
    assert repr(made) == shown


@pytest.mark.parametrize("least", ["0.5", None, -1.0])
def test_early_stopping_rejects_a_rise_that_is_not_a_number_of_at_least_0(least):
    with pytest.raises(TrainingError, match="least"):
        training.EarlyStopping(patience=3, least=least)
