"""All laws of learning, as checks that authors of algorithms run on their own."""

from __future__ import annotations

from typing import Any

from episodia.learners import AlgorithmConfig
from episodia.testing.laws_and_checks import CheckResult, Family, Law, results_in
from episodia.testing.learners.learner_laws import (
    callers_data_stay_as_they_are,
    coefficients_are_those_declared,
    it_runs,
    learning_changes_the_weights,
    masked_steps_do_not_count,
    metrics_are_finite_numbers,
    modules_learn_apart,
    numbers_that_are_none_do_not_reach_the_weights,
    order_of_steps_does_not_matter,
    parts_average_to_the_whole,
)
from episodia.testing.learners.learner_memory import (
    frozen_weights_stay,
    it_learns_from_single_steps,
    it_pickles,
    nothing_comes_of_nothing,
    restored_learners_go_on_alike,
    same_seed_gives_same_weights,
)
from episodia.testing.learners.learner_subject import LearnerSubject
from episodia.testing.shrinking import described, shorter

#: The laws of learning, in the order in which they are checked.
LEARNER_LAWS: tuple[Law, ...] = (
    it_runs,
    callers_data_stay_as_they_are,
    learning_changes_the_weights,
    frozen_weights_stay,
    metrics_are_finite_numbers,
    it_learns_from_single_steps,
    nothing_comes_of_nothing,
    numbers_that_are_none_do_not_reach_the_weights,
    parts_average_to_the_whole,
    order_of_steps_does_not_matter,
    masked_steps_do_not_count,
    modules_learn_apart,
    same_seed_gives_same_weights,
    restored_learners_go_on_alike,
    it_pickles,
    coefficients_are_those_declared,
)

LEARNERS = Family(
    laws=LEARNER_LAWS,
    inputs=lambda subject: subject.fresh_episodes(),
    smaller=shorter,
    described=described,
    without_inputs=(it_pickles, coefficients_are_those_declared),
)


def check_learner(config: AlgorithmConfig, **options: Any) -> list[CheckResult]:
    """Hold an algorithm, with its loss, to all laws of learning, and return how each check went.

    Args:
        config: The algorithm.
        **options: Those of `LearnerSubject.of`: `modules`, `episodes`, `make` for a learner of another kind, `label`, and
            `expected_failures`.

    Raises:
        AssertionError: If laws are broken, naming each of them with what differed, on the smallest episodes that show it.

    >>> from episodia.learners import A2CConfig
    >>> print(check_learner(A2CConfig())[8])
    passed   parts_average_to_the_whole
    """
    return results_in(LEARNERS, LearnerSubject.of(config, **options))
