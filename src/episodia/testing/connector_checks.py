"""All laws of connectors as checks that plugin authors run on their own: at once, or each as a test of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from episodia.connectors import ConnectorV2
from episodia.testing.connector_agents import agents_have_the_rows_of_their_own_episodes
from episodia.testing.connector_declarations import (
    columns_are_those_declared,
    lookback_is_as_small_as_declared,
    observations_are_in_the_declared_space,
)
from episodia.testing.connector_edges import (
    it_runs_on_episodes_without_steps,
    it_runs_on_single_steps,
    it_runs_without_episodes,
    masked_rows_do_not_count,
)
from episodia.testing.connector_laws import (
    acting_sees_what_learning_sees,
    callers_data_stay_as_they_are,
    cutting_changes_nothing,
    episodes_do_not_depend_on_each_other,
    form_does_not_matter,
    order_of_episodes_does_not_matter,
    running_again_changes_nothing,
)
from episodia.testing.connector_memory import (
    it_pickles,
    no_episode_is_kept,
    restored_pieces_go_on_alike,
    same_state_gives_same_rows,
)
from episodia.testing.connector_running import places_of
from episodia.testing.connector_subject import NotApplicableError, Subject
from episodia.testing.shrinking import described, smallest_failure

Law = Callable[[Subject, Any], list[str] | None]


def it_runs(subject: Subject, _: Any) -> list[str]:
    """It takes ordinary episodes and returns a batch, in a learner's, an env-to-module or a module-to-env pipeline."""
    if not subject.episodes:
        raise NotApplicableError("no single-agent episodes were given")
    open_, refused, broken = places_of(subject)
    if broken:
        place, error = next(iter(broken.items()))
        raise AssertionError(
            f"it runs ({place}): {type(error).__name__}: {error}\nIf it needs a module, pass `rl_module=`; if other pieces "
            "feed it, `before=`; if it takes what a module puts out, `outputs=`."
        ) from error
    if not open_:
        reasons = "\n".join(f"  {place}: {reason}" for place, reason in refused.items())
        raise AssertionError(
            f"it runs: found no pipeline that it works in, expected one.\n{reasons}\nPass the pieces that feed it as "
            "`before=`, or what a module puts out as `outputs=`."
        )
    return [f"it has no place in {place} pipelines: {reason}" for place, reason in refused.items()]


#: The laws, in the order in which they are checked.
CONNECTOR_LAWS: tuple[Law, ...] = (
    it_runs,
    callers_data_stay_as_they_are,
    it_runs_without_episodes,
    it_runs_on_single_steps,
    it_runs_on_episodes_without_steps,
    form_does_not_matter,
    cutting_changes_nothing,
    acting_sees_what_learning_sees,
    episodes_do_not_depend_on_each_other,
    order_of_episodes_does_not_matter,
    masked_rows_do_not_count,
    running_again_changes_nothing,
    same_state_gives_same_rows,
    restored_pieces_go_on_alike,
    it_pickles,
    no_episode_is_kept,
    columns_are_those_declared,
    lookback_is_as_small_as_declared,
    observations_are_in_the_declared_space,
    agents_have_the_rows_of_their_own_episodes,
)

# Their failures have nothing to do with the subject's single-agent episodes.
_ON_OTHER_EPISODES = (it_runs, it_runs_without_episodes, agents_have_the_rows_of_their_own_episodes)


@dataclass(frozen=True)
class ConnectorCheck:
    """One law and the connector that is held to it; calling it checks.

    Attributes:
        subject: The connector, and what it is run with.
        law: What it is held to.
    """

    subject: Subject
    law: Law

    @property
    def name(self) -> str:
        """The name of the law."""
        return self.law.__name__

    def __call__(self) -> list[str]:
        """Check, and return remarks: what is no failure, and worth to be known.

        Raises:
            AssertionError: If the law is broken: with the law, what differed, and the smallest episodes that show it.
            NotApplicableError: If the law says nothing about this connector, or if it does not even run.
        """
        if self.law is not it_runs:
            _needs_to_run(self.subject)
        episodes = self.subject.fresh_episodes()
        try:
            return self.law(self.subject, episodes) or []
        except NotApplicableError:
            raise
        except Exception as error:  # whatever a piece raises is a failure of the law
            raise self._failure(episodes, error) from error

    def _failure(self, episodes: list[Any], error: Exception) -> AssertionError:
        if self.law in _ON_OTHER_EPISODES:
            episodes = []
        elif episodes:
            episodes, error = smallest_failure(lambda fewer: self.law(self.subject, fewer), episodes, error)
        law = self.name.replace("_", " ")
        what = f"{error}" if isinstance(error, AssertionError) else f"{law}: {type(error).__name__}: {error}"
        shown = f"\nThe smallest episodes that show it:\n{described(episodes)}" if episodes else ""
        return AssertionError(f"{self.subject.name} breaks the law `{self.name}`.\n{what}{shown}")


def _needs_to_run(subject: Subject) -> None:
    try:
        it_runs(subject, None)
    except AssertionError as error:
        raise NotApplicableError(f"it does not run, see `it_runs`: {str(error).splitlines()[0]}") from error
    except NotApplicableError:
        # Pieces for several agents only are judged by the law of many agents.
        return


@dataclass(frozen=True)
class CheckResult:
    """How one check went.

    Attributes:
        name: The name of the law.
        outcome: `"passed"`, `"skipped"`, `"failed"`, or `"failed as expected"`.
        text: Why it was skipped, how it failed, or remarks.
    """

    name: str
    outcome: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.outcome:<8} {self.name}" + (f": {self.text}" if self.text else "")


def check_connector(connector: ConnectorV2, **options: Any) -> list[CheckResult]:
    """Hold a connector to all laws, and return how each check went; print them to see what was skipped, and why.

    Args:
        connector: What to check. It is copied for each run and stays as it is.
        **options: Those of `Subject.of`: `before`, `rl_module`, `outputs`, `episodes`, `multi_agent_episodes`, and
            `expected_failures`.

    Raises:
        AssertionError: If laws are broken, naming each of them with what differed, on the smallest episodes that show it.

    >>> from episodia.connectors import FrameStacking
    >>> for result in check_connector(FrameStacking(num_frames=3))[5:8]:
    ...     print(result)
    passed   form_does_not_matter
    passed   cutting_changes_nothing
    passed   acting_sees_what_learning_sees
    """
    subject = Subject.of(connector, **options)
    results = [result_of(check, subject.expected_failures) for check in checks_of([subject])]
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        texts = "\n\n".join(result.text for result in failed)
        raise AssertionError(f"{subject.name} breaks {len(failed)} of {len(results)} laws.\n\n{texts}")
    return results


def result_of(check: ConnectorCheck, expected_failures: Any = ()) -> CheckResult:
    """Run a check and return how it went, whatever happens."""
    reason = dict(expected_failures).get(check.name)
    try:
        remarks = check()
    except NotApplicableError as error:
        return CheckResult(check.name, "skipped", str(error))
    except AssertionError as error:
        return CheckResult(check.name, *(("failed", str(error)) if reason is None else ("failed as expected", reason)))
    if reason is not None:
        return CheckResult(check.name, "failed", f"`{check.name}` was expected to fail ({reason}), and did not.")
    return CheckResult(check.name, "passed", "; ".join(remarks))


def checks_of(subjects: Iterable[Subject]) -> list[ConnectorCheck]:
    """Return a check for each law and each subject."""
    return [ConnectorCheck(subject, law) for subject in subjects for law in CONNECTOR_LAWS]


def parametrize_with_checks(connectors: Sequence[ConnectorV2 | Subject]) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a test with an argument `check`, which makes each check of each connector a test of its own.

    A check that does not apply is shown as skipped, with the reason; one that is expected to fail, as such. It needs pytest.

    Args:
        connectors: What to check: connectors, or `Subject.of(connector, ...)` for those that need more.

    >>> from episodia.connectors import FlattenObservations
    >>> @parametrize_with_checks([FlattenObservations()])
    ... def test_my_connectors(check):
    ...     check()
    """
    import pytest  # noqa: PLC0415  # an optional dependency, needed here only

    subjects = [one if isinstance(one, Subject) else Subject.of(one) for one in connectors]
    parameters = []
    for check in checks_of(subjects):
        reason = check.subject.expected_failures.get(check.name)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)]
        parameters.append(pytest.param(check, id=f"{check.subject.name}-{check.name}", marks=marks))
    return pytest.mark.parametrize("check", parameters)
