"""Checks of connectors, modules, algorithms and env runners as parametrized tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from episodia.connectors import ConnectorV2
from episodia.errors import SubjectError
from episodia.learners import AlgorithmConfig
from episodia.modules import Module
from episodia.testing.connectors.connector_checks import CONNECTORS
from episodia.testing.connectors.connector_subject import Subject
from episodia.testing.env_runners.env_runner_checks import ENV_RUNNERS
from episodia.testing.env_runners.env_runner_subject import EnvRunnerSubject
from episodia.testing.episodes.recorder_checks import RECORDERS
from episodia.testing.episodes.recorder_subject import RecorderSubject
from episodia.testing.law_checking import Check, Checked, Family, checks_in
from episodia.testing.learners.learner_checks import LEARNERS
from episodia.testing.learners.learner_subject import LearnerSubject
from episodia.testing.modules.module_checks import MODULES
from episodia.testing.modules.module_subject import ModuleSubject

_FAMILIES: dict[type, Family] = {
    Subject: CONNECTORS,
    ModuleSubject: MODULES,
    EnvRunnerSubject: ENV_RUNNERS,
    LearnerSubject: LEARNERS,
    RecorderSubject: RECORDERS,
}


def checks_of(subjects: Iterable[Any]) -> list[Check]:
    """Return a check per subject and law; other objects become subjects with default options.

    >>> from episodia.connectors import ClipRewards
    >>> len(checks_of([ClipRewards(low=-1.0, high=1.0)])) == len(CONNECTORS.laws)
    True
    """
    found = [_subject_of(one) for one in subjects]
    return [check for subject in found for check in checks_in(_FAMILIES[type(subject)], subject)]


def _subject_of(one: Any) -> Checked:
    if type(one) in _FAMILIES:
        found: Checked = one
        return found
    if isinstance(one, ConnectorV2):
        return Subject.of(one)
    if isinstance(one, Module):
        return ModuleSubject.of(one)
    if isinstance(one, AlgorithmConfig):
        return LearnerSubject.of(one)
    raise SubjectError(
        f"checks: found {one!r}, expected a connector, a module, an algorithm's config, or a subject. Make a subject, "
        "such as `Subject.of(connector)` or `EnvRunnerSubject(make)`."
    )


def parametrize_with_checks(subjects: Sequence[Any]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a test with an argument `check`, which runs the test once per subject and law.

    A check that does not apply is shown as skipped, with the reason; one that is expected to fail, as such. It needs pytest.

    Args:
        subjects: What to check: connectors, modules, configs of algorithms; or subjects, for those that need options, such as
            `Subject.of(connector, ...)`.

    >>> from episodia.connectors import FlattenObservations
    >>> @parametrize_with_checks([FlattenObservations()])
    ... def test_my_connectors(check):
    ...     check()
    """
    import pytest  # noqa: PLC0415  # an optional dependency, needed here only

    parameters = []
    for check in checks_of(subjects):
        reason = check.subject.expected_failures.get(check.name)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)]
        parameters.append(pytest.param(check, id=f"{check.subject.name}-{check.name}", marks=marks))
    return pytest.mark.parametrize("check", parameters)
