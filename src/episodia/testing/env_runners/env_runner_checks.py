"""All laws of env runners, as checks that authors of runners run on their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from episodia.testing.env_runners.env_runner_laws import (
    actions_are_those_of_the_module,
    as_many_episodes_as_were_asked_for,
    as_many_steps_as_were_asked_for,
    chunks_carry_their_lookback,
    every_step_is_there_once,
    exploring_decides_what_acts,
    it_runs,
)
from episodia.testing.env_runners.env_runner_memory import (
    an_error_loses_nothing,
    environments_are_used_as_they_should_be,
    evaluation_leaves_sampling_alone,
    it_closes_what_it_has_opened,
    restored_runners_go_on_alike,
    same_seed_gives_same_episodes,
    what_was_handed_out_stays,
)
from episodia.testing.env_runners.env_runner_subject import CALLS, EnvRunnerSubject, described_calls, fewer_calls
from episodia.testing.laws_and_checks import CheckResult, Family, Law, results_in

#: The laws of env runners, in the order in which they are checked.
ENV_RUNNER_LAWS: tuple[Law, ...] = (
    it_runs,
    environments_are_used_as_they_should_be,
    every_step_is_there_once,
    as_many_steps_as_were_asked_for,
    as_many_episodes_as_were_asked_for,
    actions_are_those_of_the_module,
    exploring_decides_what_acts,
    chunks_carry_their_lookback,
    same_seed_gives_same_episodes,
    what_was_handed_out_stays,
    an_error_loses_nothing,
    evaluation_leaves_sampling_alone,
    restored_runners_go_on_alike,
    it_closes_what_it_has_opened,
)

ENV_RUNNERS = Family(
    laws=ENV_RUNNER_LAWS,
    inputs=lambda _: list(CALLS),
    smaller=fewer_calls,
    described=described_calls,
)


def check_env_runner(make: Callable[..., Any], **options: Any) -> list[CheckResult]:
    """Hold a kind of env runners to all laws, in fake environments, and return how each check went.

    Args:
        make: Makes a runner: a class, or a function, see `EnvRunnerSubject`.
        **options: The other attributes of `EnvRunnerSubject`: `multi_agent`, `label` and `expected_failures`.

    Raises:
        AssertionError: If laws are broken, naming each of them with what differed, and the fewest calls that show it.

    >>> from episodia.env_runners import SingleAgentEnvRunner
    >>> print(check_env_runner(SingleAgentEnvRunner)[2])
    passed   every_step_is_there_once
    """
    return results_in(ENV_RUNNERS, EnvRunnerSubject(make, **options))
