"""Checks of the laws of an object, one by one, and their results.

What is checked is a *subject*: a connector, a module, an algorithm or an env runner, with all that is needed to run it. A
*law* is a function of a subject and of *inputs*, such as episodes. It raises an AssertionError if it is broken on them, and a
`NotApplicableError` if it says nothing about the subject. A *family* has the laws of one kind of subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from unittest import SkipTest
from weakref import WeakKeyDictionary

from episodia.episodes import SingleAgentEpisode
from episodia.errors import SubjectError
from episodia.trees import shortened

Law: TypeAlias = Callable[[Any, Any], list[str] | None]


class NotApplicableError(SkipTest):
    """A law says nothing about a subject; the message says why. Test runners show it as a skipped test."""


class Checked(Protocol):
    """The protocol of subjects."""

    @property
    def name(self) -> str:
        """The name of the subject in its checks."""

    @property
    def expected_failures(self) -> Mapping[str, str]:
        """The reasons why checks are expected to fail, by the names of the laws."""


@dataclass(frozen=True, eq=False)
class Family:
    """The laws of one kind of subject, and the inputs of their checks.

    Attributes:
        laws: The laws, in the order of the checks. The first law says whether the subject runs at all: if it is broken,
            the others do not apply.
        inputs: Makes the inputs of one check, fresh each time.
        smaller: Yields slightly smaller inputs than the given ones.
        described: Returns a description of small inputs.
        without_inputs: Laws whose failures do not depend on the inputs.
        causes: Laws whose failure explains failures of other laws. Failures of these laws are reported first.
    """

    laws: tuple[Law, ...]
    inputs: Callable[[Any], list[Any]]
    smaller: Callable[[list[Any]], Iterator[list[Any]]]
    described: Callable[[Sequence[Any]], str]
    without_inputs: tuple[Law, ...] = ()
    causes: tuple[Law, ...] = ()


@dataclass(frozen=True)
class Check:
    """One law and one subject; calling it checks the law on the subject.

    Attributes:
        subject: What is checked, and how to run it.
        law: The law to check.
        family: The family of the law.
    """

    subject: Checked
    law: Law
    family: Family

    @property
    def name(self) -> str:
        """The name of the law."""
        return self.law.__name__

    def __repr__(self) -> str:
        return f"Check({self.subject.name}, {self.name})"

    def __call__(self) -> list[str]:
        """Check the law, and return remarks, which are not failures.

        Raises:
            AssertionError: If the law is broken; it names the law, the difference, and the smallest inputs that show it.
            NotApplicableError: If the law does not apply to this subject, or if the subject does not run.
        """
        __tracebackhide__ = True  # pytest shows the message and the error inside of the law
        if self.law is not self.family.laws[0]:
            _needs_to_run(self.subject, self.family)
        inputs = self.family.inputs(self.subject)
        try:
            return self.law(self.subject, inputs) or []
        except NotApplicableError:
            raise
        except Exception as error:  # any error of a subject breaks the law
            raise self._failure(inputs, error) from error

    def _failure(self, inputs: list[Any], error: Exception) -> AssertionError:
        if self.law in self.family.without_inputs:
            inputs = []
        elif inputs:
            inputs, error = _smallest_failure(
                lambda fewer: self.law(self.subject, fewer), inputs, error, self.family.smaller
            )
        law = self.name.replace("_", " ")
        what = f"{error}" if isinstance(error, AssertionError) else f"{law}: {type(error).__name__}: {error}"
        shown = f"\n{self.family.described(inputs)}" if inputs else ""
        says = (self.law.__doc__ or "").split("\n")[0]
        return AssertionError(f"{self.subject.name} breaks the law `{self.name}`. It says: {says}\n{what}{shown}")


_REASONS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def _needs_to_run(subject: Checked, family: Family) -> None:
    """Raise a NotApplicableError if the first law is broken; it is checked once per subject."""
    if subject not in _REASONS:
        try:
            family.laws[0](subject, family.inputs(subject))
        except NotApplicableError:
            # Other laws may apply.
            _REASONS[subject] = ""
        except Exception as error:  # noqa: BLE001  # subjects may raise anything
            _REASONS[subject] = str(error).splitlines()[0] if str(error) else type(error).__name__
        else:
            _REASONS[subject] = ""
    if _REASONS[subject]:
        raise NotApplicableError(f"it does not run, see `{family.laws[0].__name__}`: {_REASONS[subject]}")


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: The name of the law.
        outcome: `"passed"`, `"skipped"`, `"failed"`, or `"failed as expected"`.
        text: The reason for a skip, the failure, or remarks.
    """

    name: str
    outcome: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.outcome:<8} {self.name}" + (f": {self.text}" if self.text else "")


def result_of(check: Check) -> CheckResult:
    """Run a check and return its result; failures are not raised."""
    reason = check.subject.expected_failures.get(check.name)
    try:
        remarks = check()
    except NotApplicableError as error:
        return CheckResult(check.name, "skipped", str(error))
    except AssertionError as error:
        return CheckResult(check.name, *(("failed", str(error)) if reason is None else ("failed as expected", reason)))
    if reason is not None:
        return CheckResult(check.name, "failed", f"`{check.name}` was expected to fail ({reason}), and did not.")
    return CheckResult(check.name, "passed", "; ".join(remarks))


def checks_in(family: Family, subject: Checked) -> list[Check]:
    """Return a check for each law of a family.

    Raises:
        SubjectError: If `expected_failures` names a law that does not exist.
    """
    unknown = subject.expected_failures.keys() - {law.__name__ for law in family.laws}
    if unknown:
        raise SubjectError(
            f"expected_failures of {subject.name}: found {sorted(unknown)}, expected some of "
            f"{[law.__name__ for law in family.laws]}. Correct the names."
        )
    return [Check(subject, law, family) for law in family.laws]


def results_in(family: Family, subject: Checked) -> list[CheckResult]:
    """Check a subject against all laws of a family, and return the results.

    Raises:
        AssertionError: If laws are broken; it names each of them.
        SubjectError: See `checks_in`.
    """
    results = [result_of(check) for check in checks_in(family, subject)]
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        names = [law.__name__ for law in (*family.causes, *family.laws)]
        first, *others = sorted(failed, key=lambda result: names.index(result.name))
        message = f"{subject.name} breaks {len(failed)} of {len(results)} laws."
        if others:
            message += " Correct this one first; the others may follow from it."
        raise AssertionError("\n\n".join([message, first.text, *(result.text for result in others)]))
    return results


Episodes = Sequence[SingleAgentEpisode]

# Enough to shrink a few episodes to two steps; long episodes are halved first.
_MOST_TRIES = 80
_LONGEST_TEXT = 300


def _smallest_failure(
    law: Callable[[Any], Any],
    inputs: Sequence[Any],
    error: Exception,
    smaller: Callable[[list[Any]], Iterator[list[Any]]],
) -> tuple[list[Any], Exception]:
    """Return fewer and smaller inputs on which `law` still fails with the same type of error, and that error.

    Args:
        law: Raises if it is broken on its inputs.
        inputs: Inputs on which it fails.
        error: The error on these inputs.
        smaller: Yields slightly smaller inputs than the given ones.

    >>> def no_two_steps(episodes):
    ...     assert all(len(episode) < 2 for episode in episodes)
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2, 3], actions=[5, 6, 7], rewards=[0, 0, 1], len_lookback_buffer=0)
    >>> [len(episode) for episode in _smallest_failure(no_two_steps, [walk, walk], AssertionError(), shorter)[0]]
    [2]
    """
    found, tries = list(inputs), 0
    improved = True
    while improved:
        improved = False
        for fewer in smaller(found):
            tries += 1
            if tries > _MOST_TRIES:
                return found, error
            failure = _failure_of(law, fewer)
            if type(failure) is type(error) and failure is not None:
                found, error, improved = fewer, failure, True
                break
    return found, error


def _failure_of(law: Callable[[Any], Any], inputs: Sequence[Any]) -> Exception | None:
    try:
        law(inputs)
    except Exception as error:  # noqa: BLE001  # pieces may raise anything
        return error
    return None


def shorter(episodes: list[SingleAgentEpisode]) -> Iterator[list[SingleAgentEpisode]]:
    """Yield the episodes with one of them removed or shortened to at least one step."""
    if len(episodes) > 1:
        yield from ([*episodes[:place], *episodes[place + 1 :]] for place in range(len(episodes)))
    for place, episode in enumerate(episodes):
        for length in sorted({len(episode) // 2, len(episode) - 1} - {len(episode), 0, -1}):
            yield [*episodes[:place], episode[:length], *episodes[place + 1 :]]


def described(episodes: Episodes) -> str:
    """Return a description of the smallest episodes that show a failure, one line per episode.

    >>> walk = SingleAgentEpisode("w", observations=[0, 1], actions=[5], rewards=[0.5], len_lookback_buffer=0)
    >>> print(described([walk]))
    The smallest episodes that show it:
    SingleAgentEpisode(len=1, return=0.5, id_='w'): observations [0, 1], actions [5], rewards [0.5]
    """
    return "\n".join(["The smallest episodes that show it:", *map(_described, episodes)])


def _described(episode: SingleAgentEpisode) -> str:
    columns = {
        "observations": episode.get_observations(),
        "actions": episode.get_actions(),
        "rewards": episode.get_rewards(),
    }
    text = ", ".join(f"{name} {' '.join(repr(items).split())}" for name, items in columns.items())
    return f"{episode!r}: {shortened(text, _LONGEST_TEXT)}"
