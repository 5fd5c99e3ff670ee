"""Checks: laws that something is held to, one by one, whatever it is; and how they went.

What is checked is a *subject*: a connector, a module, an algorithm or an env runner, with all that is needed to run it. A
*law* is a function of a subject and of *inputs*, such as episodes. It raises an AssertionError if it is broken on them, and a
`NotApplicableError` if it says nothing about the subject. A *family* has the laws of one kind of subjects.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar
from unittest import SkipTest
from weakref import WeakKeyDictionary

from episodia.episodes import SingleAgentEpisode
from episodia.errors import SubjectError
from episodia.trees import shortened

Law: TypeAlias = Callable[[Any, Any], list[str] | None]


class NotApplicableError(SkipTest):
    """A law says nothing about a subject; the message says why. Test runners show it as a skipped test."""


class Checked(Protocol):
    """What all subjects have."""

    @property
    def name(self) -> str:
        """By which its checks are known."""

    @property
    def expected_failures(self) -> Mapping[str, str]:
        """Why checks fail that are expected to, by the names of the laws."""


@dataclass(frozen=True, eq=False)
class Family:
    """The laws of one kind of subjects, and what they are checked on.

    Attributes:
        laws: In the order in which they are checked. The first one says whether the subject runs at all: if it is broken,
            the others do not apply.
        inputs: Makes the inputs of one check, fresh each time.
        smaller: Yields inputs with a little less than the given ones.
        described: Says what there is to know about small inputs.
        without_inputs: Laws whose failures have nothing to do with the inputs.
    """

    laws: tuple[Law, ...]
    inputs: Callable[[Any], list[Any]]
    smaller: Callable[[list[Any]], Iterator[list[Any]]]
    described: Callable[[Sequence[Any]], str]
    without_inputs: tuple[Law, ...] = ()


@dataclass(frozen=True)
class Check:
    """One law and the subject that is held to it; calling it checks.

    Attributes:
        subject: What is checked, and what it is run with.
        law: What it is held to.
        family: Where the law is from.
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
        """Check, and return remarks: what is no failure, and worth to be known.

        Raises:
            AssertionError: If the law is broken: with the law, what differed, and the smallest inputs that show it.
            NotApplicableError: If the law says nothing about this subject, or if it does not even run.
        """
        __tracebackhide__ = True  # pytest shows the message, and what was raised inside the law
        if self.law is not self.family.laws[0]:
            _needs_to_run(self.subject, self.family)
        inputs = self.family.inputs(self.subject)
        try:
            return self.law(self.subject, inputs) or []
        except NotApplicableError:
            raise
        except Exception as error:  # whatever a subject raises is a failure of the law
            raise self._failure(inputs, error) from error

    def _failure(self, inputs: list[Any], error: Exception) -> AssertionError:
        if self.law in self.family.without_inputs:
            inputs = []
        elif inputs:
            inputs, error = smallest_failure(
                lambda fewer: self.law(self.subject, fewer), inputs, error, self.family.smaller
            )
        law = self.name.replace("_", " ")
        what = f"{error}" if isinstance(error, AssertionError) else f"{law}: {type(error).__name__}: {error}"
        shown = f"\n{self.family.described(inputs)}" if inputs else ""
        says = (self.law.__doc__ or "").split("\n")[0]
        return AssertionError(f"{self.subject.name} breaks the law `{self.name}`. It says: {says}\n{what}{shown}")


_REASONS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def _needs_to_run(subject: Checked, family: Family) -> None:
    """Raise a NotApplicableError if the first law is broken; it is asked once for each subject."""
    if subject not in _REASONS:
        try:
            family.laws[0](subject, family.inputs(subject))
        except NotApplicableError:
            # Others may apply nevertheless.
            _REASONS[subject] = ""
        except Exception as error:  # noqa: BLE001  # whatever a subject raises
            _REASONS[subject] = str(error).splitlines()[0] if str(error) else type(error).__name__
        else:
            _REASONS[subject] = ""
    if _REASONS[subject]:
        raise NotApplicableError(f"it does not run, see `{family.laws[0].__name__}`: {_REASONS[subject]}")


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


def result_of(check: Check) -> CheckResult:
    """Run a check and return how it went, whatever happens."""
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
        SubjectError: If a failure is expected of a law that there is not: it would never be told apart from a pass.
    """
    unknown = subject.expected_failures.keys() - {law.__name__ for law in family.laws}
    if unknown:
        raise SubjectError(
            f"expected_failures of {subject.name}: found {sorted(unknown)}, expected some of "
            f"{[law.__name__ for law in family.laws]}. Correct the names."
        )
    return [Check(subject, law, family) for law in family.laws]


def results_in(family: Family, subject: Checked) -> list[CheckResult]:
    """Hold a subject to all laws of a family, and return how each check went.

    Raises:
        AssertionError: If laws are broken, naming each of them.
        SubjectError: See `checks_in`.
    """
    results = [result_of(check) for check in checks_in(family, subject)]
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        texts = "\n\n".join(result.text for result in failed)
        raise AssertionError(f"{subject.name} breaks {len(failed)} of {len(results)} laws.\n\n{texts}")
    return results


Episodes = Sequence[SingleAgentEpisode]

# Enough to reach two steps from a few episodes; long ones are cut in halves first.
_MOST_TRIES = 80
_LONGEST_TEXT = 300


def smallest_failure(
    law: Callable[[Any], Any],
    inputs: Sequence[Any],
    error: Exception,
    smaller: Callable[[list[Any]], Iterator[list[Any]]],
) -> tuple[list[Any], Exception]:
    """Return fewer and smaller inputs on which `law` still fails in the same way, and how.

    Args:
        law: Raises if it is broken on the inputs that it is given.
        inputs: On which it was broken.
        error: What it raised then.
        smaller: Yields inputs with a little less than the given ones.

    >>> def no_two_steps(episodes):
    ...     assert all(len(episode) < 2 for episode in episodes)
    >>> walk = SingleAgentEpisode(observations=[0, 1, 2, 3], actions=[5, 6, 7], rewards=[0, 0, 1], len_lookback_buffer=0)
    >>> [len(episode) for episode in smallest_failure(no_two_steps, [walk, walk], AssertionError(), shorter)[0]]
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
    except Exception as error:  # noqa: BLE001  # whatever a piece raises
        return error
    return None


def shorter(episodes: list[SingleAgentEpisode]) -> Iterator[list[SingleAgentEpisode]]:
    """Yield the same episodes with one of them left out or cut shorter; an episode keeps its first step."""
    if len(episodes) > 1:
        yield from ([*episodes[:place], *episodes[place + 1 :]] for place in range(len(episodes)))
    for place, episode in enumerate(episodes):
        for length in sorted({len(episode) // 2, len(episode) - 1} - {len(episode), 0, -1}):
            yield [*episodes[:place], episode[:length], *episodes[place + 1 :]]


def described(episodes: Episodes) -> str:
    """Return what there is to know about the smallest episodes that show a failure, one line for each.

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


T = TypeVar("T")


def pickled_copy(original: T, law: str) -> T:
    """Return a copy of `original` that went through pickle; fail `law` if it cannot be made.

    Nothing is read from outside: the bytes are those that `original` has just been turned into.
    """
    try:
        copy: T = pickle.loads(pickle.dumps(original))  # noqa: S301  # see above
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise AssertionError(f"{law}: found {type(error).__name__}: {error}") from error
    return copy


def require_importable(kind: type) -> None:
    """Raise `NotApplicableError` unless another process would find a class where this one has it."""
    if getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is not kind:
        raise NotApplicableError("its class is not at the top of a module, where another process could find it")
