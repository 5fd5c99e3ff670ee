"""All laws of modules, as checks that authors of networks and rules run on their own."""

from __future__ import annotations

from typing import Any

from episodia.modules import Module
from episodia.testing.law_checking import CheckResult, Family, Law, described, results_in, shorter
from episodia.testing.modules.module_laws import (
    actions_fit_the_action_space,
    arrays_do_as_well_as_tensors,
    callers_batches_stay_as_they_are,
    columns_are_those_declared,
    it_computes_what_it_is_asked_for,
    it_runs,
    it_runs_on_empty_batches,
    learning_sees_what_acted,
    masked_actions_are_never_chosen,
    outputs_are_finite,
    outputs_have_a_row_for_each_observation,
    rows_do_not_depend_on_each_other,
    values_are_those_of_the_forward_pass,
)
from episodia.testing.modules.module_memory import (
    acting_changes_no_weights,
    it_pickles,
    learning_reaches_the_weights,
    padding_changes_nothing,
    passes_leave_no_trace,
    restored_modules_go_on_alike,
    same_state_gives_same_outputs,
    states_look_like_the_first_one,
    steps_give_what_sequences_give,
)
from episodia.testing.modules.module_subject import ModuleSubject

#: The laws of modules, in the order in which they are checked.
MODULE_LAWS: tuple[Law, ...] = (
    it_runs,
    outputs_have_a_row_for_each_observation,
    it_runs_on_empty_batches,
    outputs_are_finite,
    actions_fit_the_action_space,
    masked_actions_are_never_chosen,
    callers_batches_stay_as_they_are,
    rows_do_not_depend_on_each_other,
    learning_sees_what_acted,
    values_are_those_of_the_forward_pass,
    it_computes_what_it_is_asked_for,
    states_look_like_the_first_one,
    steps_give_what_sequences_give,
    padding_changes_nothing,
    passes_leave_no_trace,
    acting_changes_no_weights,
    same_state_gives_same_outputs,
    restored_modules_go_on_alike,
    it_pickles,
    learning_reaches_the_weights,
    arrays_do_as_well_as_tensors,
    columns_are_those_declared,
)

MODULES = Family(
    laws=MODULE_LAWS,
    inputs=lambda subject: subject.fresh_episodes(),
    smaller=shorter,
    described=described,
    without_inputs=(it_runs, it_pickles),
)


def check_module(module: Module, **options: Any) -> list[CheckResult]:
    """Check a module against all laws, and return the results; print them to see which checks were skipped, and why.

    Args:
        module: What to check. Each run uses a copy.
        **options: Those of `ModuleSubject.of`: `observation_space`, `action_space`, `episodes`, `remake`, `label`, and
            `expected_failures`.

    Raises:
        AssertionError: If laws are broken; it names each law and the difference, on the smallest episodes that show it.

    >>> from gymnasium import spaces
    >>> from episodia.modules import MLPActorCritic
    >>> for result in check_module(MLPActorCritic(spaces.Box(-1.0, 1.0, (3,)), spaces.Discrete(2)))[7:12]:
    ...     print(result)
    passed   rows_do_not_depend_on_each_other
    passed   learning_sees_what_acted
    passed   values_are_those_of_the_forward_pass
    passed   it_computes_what_it_is_asked_for
    skipped  states_look_like_the_first_one: it has no state
    """
    return results_in(MODULES, ModuleSubject.of(module, **options))
