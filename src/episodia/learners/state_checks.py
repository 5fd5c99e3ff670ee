"""Checks of a learner's state and metrics, made before any of it is used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from episodia.errors import EpisodiaError, LearnerError
from episodia.learners.update_metrics import ALL_MODULES


def check_components(state: Mapping[str, Any], known: Collection[str]) -> None:
    """Check that `state` is a dict with `known` parts only.

    Raises:
        LearnerError: If it is not.
    """
    given: object = state
    if not isinstance(given, Mapping):
        raise LearnerError(
            f"state of a learner: found {given!r}, expected a dict of its parts. Load what `get_state` returned."
        )
    check_names(state, known)


def check_names(names: Iterable[Any], known: Collection[str]) -> None:
    """Check that all `names` name parts of a learner's state.

    Raises:
        LearnerError: If one does not.
    """
    unknown = [name for name in names if not isinstance(name, str) or name not in known]
    if unknown:
        raise LearnerError(
            f"state of a learner: found the parts {unknown}, expected only some of {sorted(known)}. Name these, or load what "
            "`get_state` returned."
        )


def check_part(name: str, part: object, check: Callable[[Any], object]) -> None:
    """Check one part of a state; errors of Python become a `LearnerError`.

    Raises:
        LearnerError: If the part is damaged.
    """
    try:
        check(part)
    except EpisodiaError:
        raise
    except Exception as error:
        raise LearnerError(
            f"state of a learner: found {type(part).__name__} as `{name}`, with an entry that is missing or has the "
            f"wrong type ({error!r}), expected that part of a learner. Load what `get_state` returned."
        ) from error


def check_progress(found: Mapping[str, Any], own: Mapping[str, int]) -> None:
    """Check that `found` has the counters of `own`.

    Raises:
        LearnerError: If the names differ, or if a value is not a count.
    """
    if set(found) != set(own) or any(type(count) is not int or count < 0 for count in found.values()):
        raise LearnerError(
            f"state of a learner: found {dict(found)} as `progress`, expected counts of {sorted(own)}. Load what `get_state` "
            "returned."
        )


def check_metrics(metrics: Mapping[str, Any], module_ids: Collection[str]) -> None:
    """Check that `metrics` has numbers by name for these modules only.

    Raises:
        LearnerError: If it has not.
    """
    given: object = metrics
    if (
        not isinstance(given, Mapping)
        or not {*given} <= {*module_ids, ALL_MODULES}
        or not all(isinstance(named, Mapping) and all(map(_is_real, named.values())) for named in given.values())
    ):
        raise LearnerError(
            f"metrics: found {given!r}, expected numbers by name for each of {list(module_ids)}. Pass what `apply_gradients` "
            "returned."
        )


def _is_real(number: object) -> bool:
    # NaN is a valid measurement.
    return isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)


def generator_with(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a random generator in this state.

    Raises:
        LearnerError: If it is not the state of such a generator.
    """
    generator = np.random.default_rng(0)
    try:
        generator.bit_generator.state = dict(state)
    except (KeyError, TypeError, ValueError) as error:
        raise LearnerError(
            f"state of a learner: found a `generator` that is not the state of one ({error}), expected that of "
            f"{type(generator.bit_generator).__name__}. Load what `get_state` returned."
        ) from error
    return generator
